//! The control channel against a controller that does as the test says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use vrouter_objects::{MemberId, Object, Port, ServiceProtocol};
use vrouter_proto::convert::key_of;
use vrouter_proto::v1::control_message::Kind;
use vrouter_proto::v1::control_server::{Control, ControlServer};
use vrouter_proto::v1::node_message::Kind as NodeKind;
use vrouter_proto::{MAX_MESSAGE_BYTES, v1};

use super::{Security, Target, follow};
use crate::testing::{TestNode, anywhere, basics, digest, ip, lease, request, vrf};

/// Nothing here takes long; what takes longer than this will never come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The controller's end of one stream.
struct Stream {
    from_node: Streaming<v1::NodeMessage>,
    to_node: mpsc::Sender<Result<v1::ControlMessage, Status>>,
}

struct Service(mpsc::Sender<Stream>);

#[tonic::async_trait]
impl Control for Service {
    type ExchangeStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let (to_node, messages) = mpsc::channel(64);
        let stream = Stream { from_node: request.into_inner(), to_node };
        self.0.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

struct Controller {
    address: SocketAddr,
    streams: mpsc::Receiver<Stream>,
    server: JoinHandle<()>,
}

impl Controller {
    async fn start() -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap()).await
    }

    async fn listen(address: SocketAddr) -> Self {
        Self::serve(address, Server::builder()).await
    }

    async fn serve(address: SocketAddr, mut server: Server) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::channel(8);
        let service = ControlServer::new(Service(sender)).max_encoding_message_size(MAX_MESSAGE_BYTES);
        let server = server.add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { server.await.unwrap() });
        Self { address, streams, server }
    }

    fn follow(&self, node: &TestNode) -> JoinHandle<()> {
        let target = Target::new(&format!("http://{}", self.address), Security::Insecure).unwrap();
        tokio::spawn(follow(Arc::clone(&node.agent), target))
    }

    /// The next session, and its Hello.
    async fn accept(&mut self) -> (Stream, v1::Hello) {
        let stream = tokio::time::timeout(PATIENCE, self.streams.recv()).await.unwrap();
        let mut stream = stream.unwrap();
        match stream.next().await {
            NodeKind::Hello(hello) => (stream, hello),
            other => panic!("not a Hello: {other:?}"),
        }
    }

    async fn stop(self) {
        self.server.abort();
        let _ = self.server.await;
    }
}

impl Stream {
    async fn next(&mut self) -> NodeKind {
        let message = tokio::time::timeout(PATIENCE, self.from_node.message()).await.unwrap();
        message.unwrap().unwrap().kind.unwrap()
    }

    async fn applied(&mut self) -> v1::Applied {
        match self.next().await {
            NodeKind::Applied(applied) => applied,
            other => panic!("not Applied: {other:?}"),
        }
    }

    async fn send(&self, kind: Kind) {
        self.to_node.send(Ok(v1::ControlMessage { kind: Some(kind) })).await.unwrap();
    }

    async fn full(&self, version: u64, objects: &[v1::Object]) {
        self.send(Kind::Begin(v1::Begin { version, kind: v1::UpdateKind::Full.into(), base: 0 })).await;
        self.send(Kind::Changes(v1::Changes { put: objects.to_vec(), remove: vec![] })).await;
        self.end(version, objects).await;
    }

    async fn delta(&self, version: u64, base: u64, changes: v1::Changes, after: &[v1::Object]) {
        self.send(Kind::Begin(v1::Begin { version, kind: v1::UpdateKind::Delta.into(), base })).await;
        self.send(Kind::Changes(changes)).await;
        self.end(version, after).await;
    }

    async fn end(&self, version: u64, after: &[v1::Object]) {
        self.send(Kind::End(v1::End { version, digest: digest(after).to_bytes() })).await;
    }
}

fn tables() -> Vec<v1::Object> {
    let mut objects = basics();
    objects.push(lease(1, "10.244.0.0/24"));
    objects.iter().map(Into::into).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_applied_at_the_end_and_acknowledged() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let (mut stream, hello) = controller.accept().await;
    assert_eq!((hello.node.as_str(), hello.version, hello.digest.as_slice()), ("n1", 0, [].as_slice()));

    let mut objects = tables();
    stream.full(5, &objects).await;
    let applied = stream.applied().await;
    assert_eq!((applied.version, applied.digest), (5, digest(&objects).to_bytes()));
    assert_eq!(applied.refusals, []);

    let gone = objects.pop().unwrap();
    let changes = v1::Changes { put: vec![], remove: vec![key_of(&gone).unwrap()] };
    stream.delta(6, 5, changes, &objects).await;
    assert_eq!(stream.applied().await.digest, digest(&objects).to_bytes());
    channel.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_is_refused_by_name_and_the_rest_applies() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let (mut stream, _) = controller.accept().await;
    let good = tables();
    let bad = v1::FloatingIp { id: 7, name: "default/web".to_owned(), vrf: 1, ..Default::default() };
    let bad = v1::Object { kind: Some(v1::object::Kind::FloatingIp(bad)) };
    let all = [good.clone(), vec![bad.clone()]].concat();
    stream.full(1, &all).await;
    let applied = stream.applied().await;
    assert_eq!(applied.digest, digest(&good).to_bytes(), "what is refused is left out");
    let reason = "floating ip 7 (default/web): address: is missing".to_owned();
    assert_eq!(applied.refusals, [v1::Refusal { object: key_of(&bad), reason }]);

    let changes = v1::Changes { put: vec![], remove: vec![key_of(&bad).unwrap()] };
    stream.delta(2, 1, changes, &good).await;
    assert_eq!(stream.applied().await.refusals, []);
    channel.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_sequences_change_nothing_and_lead_to_a_full_sync() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let objects = tables();
    let (mut stream, _) = controller.accept().await;
    stream.full(5, &objects).await;
    stream.applied().await;
    let held = node.agent.held();

    for broken in 0..4 {
        match broken {
            0 => stream.end(6, &objects).await,
            1 => stream.delta(7, 4, v1::Changes::default(), &objects).await,
            2 => stream.full(4, &objects).await,
            // A delta that does not lead to what the controller holds: the two have drifted apart.
            _ => stream.delta(7, 5, v1::Changes::default(), &objects[1..]).await,
        }
        let (again, hello) = controller.accept().await;
        stream = again;
        assert_eq!((hello.version, hello.digest.as_slice()), (5, [].as_slice()), "case {broken}");
        assert_eq!(node.agent.held(), held, "case {broken}");
    }
    stream.full(8, &objects).await;
    assert_eq!(stream.applied().await.version, 8);
    channel.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_4_the_node_keeps_what_it_has_and_comes_back_with_it() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let objects = tables();
    let (mut stream, _) = controller.accept().await;
    stream.full(5, &objects).await;
    stream.applied().await;
    let address = controller.address;
    drop(stream);
    controller.stop().await;

    let mut link = node.agent.link().subscribe();
    tokio::time::timeout(PATIENCE, link.wait_for(|link| link.error().is_some())).await.unwrap().unwrap();
    assert_eq!(node.agent.held().1, digest(&objects));
    let made = node.attach(request("web", "c1"), &anywhere()).unwrap();
    assert_eq!(made.addresses, [ip("10.244.0.2")]);

    let mut controller = Controller::listen(address).await;
    let (_stream, hello) = controller.accept().await;
    assert_eq!((hello.version, hello.digest), (5, digest(&objects).to_bytes()));
    assert_eq!(hello.attachments, [v1::Attachment::from(&made)]);
    channel.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_is_answered_after_everything_that_was_reported() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let (mut stream, _) = controller.accept().await;
    stream.full(1, &tables()).await;
    stream.applied().await;
    for name in ["a", "b", "c"] {
        node.attach(request(name, name), &anywhere()).unwrap();
    }
    stream.send(Kind::Sync(v1::Sync { token: 9 })).await;
    for _ in 0..3 {
        assert!(matches!(stream.next().await, NodeKind::Attachment(_)));
    }
    assert_eq!(stream.next().await, NodeKind::Synced(v1::Synced { token: 9 }));
    channel.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_14_tables_beyond_four_mebibytes_are_applied() {
    let node = TestNode::new();
    let mut controller = Controller::start().await;
    let channel = controller.follow(&node);
    let (mut stream, _) = controller.accept().await;
    let mut objects = tables();
    // 20,000 endpoints behind each of ten services, in messages that are each beyond gRPC's usual limit.
    objects.extend((1..=10).map(|id| v1::Object::from(&big_service(id, 20_000))));

    stream.send(Kind::Begin(v1::Begin { version: 1, kind: v1::UpdateKind::Full.into(), base: 0 })).await;
    for piece in objects.rchunks(5).rev() {
        stream.send(Kind::Changes(v1::Changes { put: piece.to_vec(), remove: vec![] })).await;
    }
    stream.end(1, &objects).await;
    let applied = stream.applied().await;
    assert_eq!((applied.digest, applied.refusals), (digest(&objects).to_bytes(), vec![]));
    channel.abort();
}

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_both_ends_must_show_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.sign("127.0.0.1");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(authority.0.pem()));
    let server = Server::builder().tls_config(tls).unwrap();
    let mut controller = Controller::serve("127.0.0.1:0".parse().unwrap(), server).await;
    let address = controller.address;
    let target = |ca: &Authority, signer: &Authority| {
        let (certificate, key) = signer.sign("n1");
        let ca = ca.0.pem().into_bytes();
        let security = Security::MutualTls { ca, certificate: certificate.into(), key: key.into() };
        Target::new(&format!("https://{address}"), security).unwrap()
    };

    for wrong in [target(&stranger, &authority), target(&authority, &stranger)] {
        let node = TestNode::new();
        let channel = tokio::spawn(follow(Arc::clone(&node.agent), wrong));
        let mut link = node.agent.link().subscribe();
        tokio::time::timeout(PATIENCE, link.wait_for(|link| link.error().is_some())).await.unwrap().unwrap();
        channel.abort();
    }
    let node = TestNode::new();
    let channel = tokio::spawn(follow(Arc::clone(&node.agent), target(&authority, &authority)));
    assert_eq!(controller.accept().await.1.node, "n1", "nobody else came as far as a Hello");
    channel.abort();
}

fn big_service(id: u32, members: u32) -> Object {
    let port = Port::new(80).unwrap();
    let member = |number: u32| {
        let address = std::net::Ipv4Addr::from(0x0af5_0000 + number).into();
        vrouter_objects::Member::new(MemberId::new(id * 100_000 + number).unwrap(), vrf(), address, port)
    };
    let address = std::net::Ipv4Addr::from(0x0a60_0000 + id).into();
    let (fip_id, name) = (vrouter_objects::FloatingIpId::new(id).unwrap(), format!("default/web-{id}"));
    let mut fip = vrouter_objects::FloatingIp::new(fip_id, &name, vrf(), address, vrf());
    fip.listeners.push(vrouter_objects::Listener {
        id: vrouter_objects::ListenerId::new(id).unwrap(),
        name: String::new(),
        protocol: ServiceProtocol::Tcp,
        port,
        node_port: None,
        members: (1..=members).map(member).collect(),
    });
    Object::FloatingIp(fip)
}
