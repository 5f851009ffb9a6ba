//! A network namespace, a vRouter and a container runtime for the tests.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use vrouter_proto::v1;
use vrouter_proto::v1::node_server::{Node, NodeServer};

/// A network namespace, gone with the value.
pub struct Netns {
    name: String,
    /// Where it is bound.
    pub path: String,
}

impl Netns {
    pub fn new(name: &str) -> Self {
        let name = format!("vrouter-cni-{name}-{}", std::process::id());
        shell(&format!("ip netns add {name}"));
        Self { path: format!("/run/netns/{name}"), name }
    }

    /// Runs a command inside and returns what it printed.
    pub fn run(&self, command: &str) -> String {
        shell(&format!("ip netns exec {} {command}", self.name))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        shell(&format!("ip netns del {}", self.name));
    }
}

fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// One call of the plugin.
#[derive(Debug)]
pub struct Call {
    command: String,
    container: Option<String>,
    netns: Option<String>,
    configuration: Value,
    text: Option<String>,
}

impl Call {
    pub fn new(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            container: None,
            netns: None,
            configuration: json!({"cniVersion": "1.1.0", "name": "pods", "type": "vrouter-cni"}),
            text: None,
        }
    }

    pub fn container(self, id: &str) -> Self {
        Self { container: Some(id.to_owned()), ..self }
    }

    pub fn netns(self, path: &str) -> Self {
        Self { netns: Some(path.to_owned()), ..self }
    }

    /// This text as the whole configuration.
    pub fn configuration(self, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..self }
    }

    pub fn node(mut self, node: &FakeNode) -> Self {
        self.configuration["socket"] = node.socket.to_str().unwrap().into();
        self
    }

    pub fn previous(mut self, result: &Value) -> Self {
        self.configuration["prevResult"] = result.clone();
        self
    }

    pub fn valid(mut self, attachments: &Value) -> Self {
        self.configuration["cni.dev/valid-attachments"] = attachments.clone();
        self
    }

    /// What it answered; nothing is no document.
    pub fn succeeds(self) -> Value {
        let (success, answer) = self.run();
        assert!(success, "{answer}");
        answer
    }

    /// The error it answered.
    pub fn fails(self) -> Value {
        let (success, answer) = self.run();
        assert!(!success, "{answer}");
        answer
    }

    fn run(self) -> (bool, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrouter-cni"));
        command.env_clear().env("CNI_COMMAND", &self.command).env("CNI_IFNAME", "eth0");
        command.env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=0f");
        command.envs(self.container.iter().map(|id| ("CNI_CONTAINERID", id)));
        command.envs(self.netns.iter().map(|path| ("CNI_NETNS", path)));
        let input = self.text.unwrap_or_else(|| self.configuration.to_string());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let answer = if output.stdout.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&output.stdout).unwrap()
        };
        (output.status.success(), answer)
    }
}

/// What the fake vRouter was asked, and what it is to answer.
#[derive(Default)]
pub struct State {
    pub not_ready: String,
    pub refusal: Option<Status>,
    pub attached: Vec<String>,
    pub detached: Vec<String>,
    pub valid: Vec<(String, String)>,
    /// The networks that were asked for.
    pub networks: Vec<String>,
}

/// A vRouter that does as the test says.
pub struct FakeNode {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    _runtime: Runtime,
    _directory: TempDir,
}

impl FakeNode {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("node.sock");
        let state = Arc::new(Mutex::new(State::default()));
        let listener = runtime.block_on(async { UnixListener::bind(&socket) }).unwrap();
        let service = NodeServer::new(Service { state: Arc::clone(&state) });
        let server = Server::builder().add_service(service);
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        Self { socket, state, _runtime: runtime, _directory: directory }
    }

    pub fn with(&self, look: impl FnOnce(&mut State)) {
        look(&mut self.state.lock().unwrap());
    }
}

struct Service {
    state: Arc<Mutex<State>>,
}

fn reply(request: &v1::DetachRequest) -> v1::AttachReply {
    let address = |text: &str| v1::Address::from(text.parse::<std::net::IpAddr>().unwrap());
    let attachment = v1::Attachment {
        vmi: 1,
        pod: Some(v1::PodName { namespace: "default".to_owned(), name: "web".to_owned() }),
        uid: "0f".to_owned(),
        container_id: request.container_id.clone(),
        interface: request.interface.clone(),
        vrf: 1,
        mac: vec![2, 0x50, 0, 0, 0, 1],
        addresses: vec![address("10.244.0.2"), address("fd00:10:244::2")],
        link_local: Vec::new(),
    };
    v1::AttachReply {
        attachment: Some(attachment),
        mtu: 1450,
        gateways: vec![address("10.244.0.1"), address("fd00:10:244::1")],
        gateway_mac: vec![0, 0, 0x5e, 0, 1, 0],
    }
}

type Reply<T> = Result<Response<T>, Status>;

fn not_asked<T>() -> Reply<T> {
    Err(Status::unimplemented("the plugin has no business here"))
}

#[tonic::async_trait]
impl Node for Service {
    type RoutesStream = tokio_stream::Empty<Result<v1::RouteTable, Status>>;
    type FloatingIpsStream = tokio_stream::Empty<Result<v1::FloatingIpTable, Status>>;
    type ServicesStream = tokio_stream::Empty<Result<v1::ServiceTable, Status>>;
    type FlowsStream = tokio_stream::Empty<Result<v1::FlowTable, Status>>;
    type PoliciesStream = tokio_stream::Empty<Result<v1::PolicyTable, Status>>;
    type PeerSetsStream = tokio_stream::Empty<Result<v1::PeerSetTable, Status>>;
    type PeerAddressesStream = tokio_stream::Empty<Result<v1::PeerAddressTable, Status>>;

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Reply<v1::AttachReply> {
        let request = request.into_inner();
        let mut state = self.state.lock().unwrap();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        assert_eq!(request.uid, "0f");
        state.attached.push(request.container_id.clone());
        state.networks.push(request.configuration);
        let named = v1::DetachRequest { container_id: request.container_id, interface: request.interface };
        Ok(Response::new(reply(&named)))
    }

    async fn detach(&self, request: Request<v1::DetachRequest>) -> Reply<v1::DetachReply> {
        self.state.lock().unwrap().detached.push(request.into_inner().container_id);
        Ok(Response::new(v1::DetachReply {}))
    }

    async fn check_attachment(&self, request: Request<v1::DetachRequest>) -> Reply<v1::AttachReply> {
        Ok(Response::new(reply(&request.into_inner())))
    }

    async fn collect_garbage(
        &self,
        request: Request<v1::CollectGarbageRequest>,
    ) -> Reply<v1::CollectGarbageReply> {
        let request = request.into_inner();
        let mut state = self.state.lock().unwrap();
        state.valid = request.valid.into_iter().map(|one| (one.container_id, one.interface)).collect();
        state.networks.push(request.configuration);
        Ok(Response::new(v1::CollectGarbageReply { removed: 0 }))
    }

    async fn status(&self, _: Request<v1::NodeStatusRequest>) -> Reply<v1::NodeReport> {
        let not_ready = self.state.lock().unwrap().not_ready.clone();
        Ok(Response::new(v1::NodeReport { not_ready, ..Default::default() }))
    }

    async fn interfaces(&self, _: Request<v1::TableRequest>) -> Reply<v1::InterfaceTable> {
        not_asked()
    }

    async fn routing_instances(&self, _: Request<v1::TableRequest>) -> Reply<v1::RoutingInstanceTable> {
        not_asked()
    }

    async fn routes(&self, _: Request<v1::TableRequest>) -> Reply<Self::RoutesStream> {
        not_asked()
    }

    async fn floating_ips(&self, _: Request<v1::TableRequest>) -> Reply<Self::FloatingIpsStream> {
        not_asked()
    }

    async fn services(&self, _: Request<v1::TableRequest>) -> Reply<Self::ServicesStream> {
        not_asked()
    }

    async fn virtual_routers(&self, _: Request<v1::TableRequest>) -> Reply<v1::VirtualRouterTable> {
        not_asked()
    }

    async fn flows(&self, _: Request<v1::FlowRequest>) -> Reply<Self::FlowsStream> {
        not_asked()
    }

    async fn drops(&self, _: Request<v1::TableRequest>) -> Reply<v1::DropTable> {
        not_asked()
    }

    async fn policies(&self, _: Request<v1::TableRequest>) -> Reply<Self::PoliciesStream> {
        not_asked()
    }

    async fn peer_sets(&self, _: Request<v1::TableRequest>) -> Reply<Self::PeerSetsStream> {
        not_asked()
    }

    async fn peer_addresses(&self, _: Request<v1::PeerAddressRequest>) -> Reply<Self::PeerAddressesStream> {
        not_asked()
    }

    async fn trace(&self, _: Request<v1::TraceRequest>) -> Reply<v1::TraceReply> {
        not_asked()
    }

    async fn objects(&self, _: Request<v1::ObjectsRequest>) -> Reply<v1::ObjectsReply> {
        not_asked()
    }
}
