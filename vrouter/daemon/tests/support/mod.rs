//! Namespaces, a controller, a node and pods.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};
use vrouter_objects::MacAddress;
use vrouter_proto::v1::control_message::Kind;
use vrouter_proto::v1::control_server::{Control, ControlServer};
use vrouter_proto::v1::node_client::NodeClient;
use vrouter_proto::{Digest, object_digest, v1};

/// Nothing here takes long; what takes longer than this will never come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A network namespace, gone with the value.
pub struct Netns {
    name: String,
}

impl Netns {
    pub fn new(name: &str) -> Self {
        Self::named(format!("vrouter-daemon-{name}-{}", std::process::id()))
    }

    fn named(name: String) -> Self {
        shell(&format!("ip netns add {name}"));
        shell(&format!("ip -n {name} link set lo up"));
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
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

/// A controller that gives every node the same tables.
pub struct Controller {
    server: tokio::task::JoinHandle<()>,
    hellos: mpsc::UnboundedReceiver<v1::Hello>,
}

impl Controller {
    pub async fn start(underlay: &Netns) -> Self {
        let listen = || Ok(TcpListener::bind("127.0.0.1:7443").unwrap());
        let listener = vrouter_io::within(Some(&underlay.path()), listen).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (sender, hellos) = mpsc::unbounded_channel();
        let server = Server::builder().add_service(ControlServer::new(Tables(sender)));
        let server = server.serve_with_incoming(TcpListenerStream::new(listener));
        Self { server: tokio::spawn(async move { server.await.unwrap() }), hellos }
    }

    /// What the next node says that connects.
    pub async fn hello(&mut self) -> v1::Hello {
        tokio::time::timeout(PATIENCE, self.hellos.recv()).await.unwrap().unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Tables(mpsc::UnboundedSender<v1::Hello>);

#[tonic::async_trait]
impl Control for Tables {
    type ExchangeStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let (to_node, messages) = mpsc::channel(8);
        let mut from_node = request.into_inner();
        let hellos = self.0.clone();
        tokio::spawn(async move {
            let objects = objects();
            let mut digest = Digest::default();
            objects.iter().for_each(|object| digest.add(object_digest(object)));
            let frames = [
                Kind::Begin(v1::Begin { version: 1, kind: v1::UpdateKind::Full.into(), base: 0 }),
                Kind::Changes(v1::Changes { put: objects, remove: vec![] }),
                Kind::End(v1::End { version: 1, digest: digest.to_bytes() }),
            ];
            for kind in frames {
                let _ = to_node.send(Ok(v1::ControlMessage { kind: Some(kind) })).await;
            }
            while let Ok(Some(message)) = from_node.message().await {
                if let Some(v1::node_message::Kind::Hello(hello)) = message.kind {
                    let _ = hellos.send(hello);
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

fn address(text: &str) -> Option<v1::Address> {
    Some(text.parse::<IpAddr>().unwrap().into())
}

fn prefix(text: &str, length: u32) -> Option<v1::Prefix> {
    Some(v1::Prefix { address: address(text), length })
}

/// The node itself, the pod network, a lease for each family and the pod.
fn objects() -> Vec<v1::Object> {
    use v1::object::Kind;
    let mac = MacAddress::local(0x56, 1).0.to_vec();
    let subnets = [("10.244.0.0", 16, "10.244.0.1"), ("fd00:10:244::", 48, "fd00:10:244::1")];
    let subnets = subnets.map(|(network, length, gateway)| v1::Subnet {
        prefix: prefix(network, length),
        gateway: address(gateway),
    });
    let network = "default/default-podnetwork".to_owned();
    let leak = |vrf, (network, length), to| {
        let key = Some(v1::RouteKey { vrf, prefix: prefix(network, length) });
        let next_hop = Some(v1::NextHop { kind: Some(v1::next_hop::Kind::VrfTranslate(to)) });
        Kind::Route(v1::Route { key, next_hop })
    };
    let lease = |id, network, length| {
        let (prefix, first_vmi) = (prefix(network, length), id * 100);
        Kind::AddressLease(v1::AddressLease { id, vrf: 1, prefix, first_vmi, vmi_count: 100 })
    };
    let pod = Some(v1::PodName { namespace: "default".to_owned(), name: "web".to_owned() });
    let kinds = [
        Kind::VirtualRouter(v1::VirtualRouter {
            id: 1,
            name: "n1".to_owned(),
            address: address("172.30.0.1"),
            mac,
            addresses: address("172.30.0.1").into_iter().collect(),
            zone: String::new(),
            kind: v1::RouterKind::Vrouter.into(),
        }),
        Kind::RoutingInstance(v1::RoutingInstance {
            id: 1,
            name: network,
            vni: 1,
            subnets: subnets.to_vec(),
            kind: v1::NetworkKind::Overlay.into(),
            address_space: 1,
            known_in: vec![3],
        }),
        Kind::RoutingInstance(v1::RoutingInstance {
            id: 3,
            name: "default/ip-fabric".to_owned(),
            vni: 3,
            subnets: Vec::new(),
            kind: v1::NetworkKind::Fabric.into(),
            address_space: 3,
            known_in: Vec::new(),
        }),
        leak(3, ("10.244.0.0", 16), 1),
        leak(3, ("fd00:10:244::", 48), 1),
        leak(1, ("0.0.0.0", 0), 3),
        leak(1, ("::", 0), 3),
        lease(1, "10.244.0.0", 24),
        lease(2, "fd00:10:244::", 64),
        Kind::PodBinding(v1::PodBinding { pod, vrf: 1, ..Default::default() }),
    ];
    kinds.into_iter().map(|kind| v1::Object { kind: Some(kind) }).collect()
}

/// The node process, killed with the value.
pub struct Node {
    child: Child,
    netns: String,
    directory: Arc<TempDir>,
}

impl Node {
    pub async fn start(underlay: &Netns) -> Self {
        Self::spawn(
            underlay.name.clone(),
            Arc::new(tempfile::Builder::new().prefix(&underlay.name).tempdir().unwrap()),
        )
        .await
    }

    pub async fn start_again(before: Self) -> Self {
        Self::spawn(before.netns.clone(), Arc::clone(&before.directory)).await
    }

    /// A second process beside the one that runs in this namespace, with its state, and this run directory of it.
    pub fn command(underlay: &Netns, run_directory: &str) -> Command {
        let directories = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let mut own =
            directories.filter(|entry| entry.file_name().to_string_lossy().starts_with(&underlay.name));
        command(&underlay.name, &own.next().unwrap().path(), run_directory)
    }

    async fn spawn(netns: String, directory: Arc<TempDir>) -> Self {
        let mut child = command(&netns, directory.path(), "run").stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(|| BufReader::new(stdout).lines().next().unwrap().unwrap());
        assert_eq!(tokio::time::timeout(PATIENCE, line).await.unwrap().unwrap(), "vrouter ready");
        Self { child, netns, directory }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/node.sock")
    }

    pub async fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(vrouter_proto::connect(&self.socket()).await.unwrap())
    }

    /// Waits until this version of the tables is in force.
    pub async fn tables(&self, version: u64) {
        self.until(|report| report.applied_version >= version).await;
    }

    /// How it is, once it has tried to reach the controller.
    pub async fn report(&self) -> v1::NodeReport {
        self.until(|report| report.controller_connected || !report.controller_error.is_empty()).await
    }

    /// Waits until its only pod's interface is out of the tables.
    pub async fn interface_down(&self) {
        let mut client = self.client().await;
        let wait = async {
            loop {
                let table = client.interfaces(v1::TableRequest {}).await.unwrap().into_inner();
                let is_pods = |interface: &&v1::Interface| interface.kind() == v1::InterfaceKind::Pod;
                let pods: Vec<_> = table.interfaces.iter().filter(is_pods).collect();
                if pods.iter().all(|interface| !interface.up) {
                    break assert_eq!(pods.len(), 1, "it is still attached");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
    }

    async fn until(&self, wanted: impl Fn(&v1::NodeReport) -> bool) -> v1::NodeReport {
        let mut client = self.client().await;
        let wait = async {
            loop {
                let report = client.status(v1::NodeStatusRequest {}).await.unwrap().into_inner();
                if wanted(&report) {
                    break report;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }

    pub async fn attach(&mut self, pod: &Pod) -> Result<v1::AttachReply, Status> {
        Ok(self.client().await.attach(pod.request("web")).await?.into_inner())
    }

    pub async fn detach(&mut self, pod: &Pod) {
        let request =
            v1::DetachRequest { container_id: pod.netns.name.clone(), interface: "eth0".to_owned() };
        self.client().await.detach(request).await.unwrap();
    }

    /// As by the out-of-memory killer.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As by the service manager.
    pub fn stop(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(netns: &str, directory: &Path, run_directory: &str) -> Command {
    // `ip netns exec` becomes the command, so the child is the node itself.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns, env!("CARGO_BIN_EXE_vrouter")]);
    command.args(["--node", "n1", "--control", "http://127.0.0.1:7443", "--insecure", "--workers", "2"]);
    command.args(["--flow-capacity", "4096", "--log", "warn"]);
    command.arg("--state-dir").arg(directory.join("state"));
    command.arg("--run-dir").arg(directory.join(run_directory));
    command.arg("--flow-table").arg(directory.join("flows"));
    command
}

/// A pod's namespace.
pub struct Pod {
    pub netns: Netns,
}

impl Pod {
    pub fn new(name: &str) -> Self {
        Self { netns: Netns::new(name) }
    }

    /// A pod whose namespace has the very name of one that is gone.
    pub fn named(name: &str) -> Self {
        Self { netns: Netns::named(name.to_owned()) }
    }

    /// To be attached as the pod of this name.
    pub fn request(&self, name: &str) -> v1::AttachRequest {
        v1::AttachRequest {
            pod: Some(v1::PodName { namespace: "default".to_owned(), name: name.to_owned() }),
            uid: String::new(),
            container_id: self.netns.name.clone(),
            interface: "eth0".to_owned(),
            netns: self.netns.path().display().to_string(),
            configuration: "pods".to_owned(),
        }
    }

    /// What the CNI plugin does.
    pub fn configure(&self, attached: &v1::AttachReply) {
        self.netns.run("ip link set eth0 up");
        let attachment = attached.attachment.as_ref().unwrap();
        for (own, gateway) in attachment.addresses.iter().zip(&attached.gateways) {
            let (own, gateway) = (IpAddr::try_from(own).unwrap(), IpAddr::try_from(gateway).unwrap());
            self.netns
                .run(&format!("ip address add {own} dev eth0{}", if own.is_ipv6() { " nodad" } else { "" }));
            self.netns.run(&format!("ip route add {gateway} dev eth0"));
            self.netns.run(&format!("ip route add default via {gateway} dev eth0 onlink"));
            let mac = MacAddress::GATEWAY;
            self.netns.run(&format!("ip neighbour replace {gateway} lladdr {mac} nud permanent dev eth0"));
        }
    }
}
