//! A controller that says what the test does.

use std::net::{IpAddr, TcpListener};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use vrouter_objects::MacAddress;
use vrouter_proto::v1::control_message::Kind;
use vrouter_proto::v1::control_server::{Control, ControlServer};
use vrouter_proto::{Digest, object_digest, v1};

use crate::support::{Netns, PATIENCE};

/// A controller that gives every node the same tables.
pub struct Controller {
    server: tokio::task::JoinHandle<()>,
    hellos: mpsc::UnboundedReceiver<v1::Hello>,
    attachments: mpsc::UnboundedReceiver<v1::Attachment>,
    /// The tables, with their version.
    tables: watch::Sender<(u64, Vec<v1::Object>)>,
}

impl Controller {
    pub async fn start(underlay: &Netns) -> Self {
        Self::with(underlay, objects()).await
    }

    /// With these tables, in version 1.
    pub async fn with(underlay: &Netns, objects: Vec<v1::Object>) -> Self {
        let listen = || Ok(TcpListener::bind("127.0.0.1:7443").unwrap());
        let listener = vrouter_io::within(Some(&underlay.path()), listen).unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let (to_hellos, hellos) = mpsc::unbounded_channel();
        let (to_attachments, attachments) = mpsc::unbounded_channel();
        let tables = watch::Sender::new((1, objects));
        let service = Tables { hellos: to_hellos, attachments: to_attachments, tables: tables.subscribe() };
        let server = Server::builder().add_service(ControlServer::new(service));
        let server = server.serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { server.await.unwrap() });
        Self { server, hellos, attachments, tables }
    }

    /// The version of its tables.
    pub fn version(&self) -> u64 {
        self.tables.borrow().0
    }

    /// From now on the tables are these, in the next version.
    pub fn put(&self, objects: Vec<v1::Object>) {
        self.tables.send_modify(|tables| *tables = (tables.0 + 1, objects));
    }

    /// What the next node says that connects.
    pub async fn hello(&mut self) -> v1::Hello {
        tokio::time::timeout(PATIENCE, self.hellos.recv()).await.unwrap().unwrap()
    }

    /// What the next report says that something is attached.
    pub async fn attachment(&mut self) -> v1::Attachment {
        tokio::time::timeout(PATIENCE, self.attachments.recv()).await.unwrap().unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Tables {
    hellos: mpsc::UnboundedSender<v1::Hello>,
    attachments: mpsc::UnboundedSender<v1::Attachment>,
    tables: watch::Receiver<(u64, Vec<v1::Object>)>,
}

#[tonic::async_trait]
impl Control for Tables {
    type ExchangeStream = ReceiverStream<Result<v1::ControlMessage, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let (to_node, messages) = mpsc::channel(8);
        let mut from_node = request.into_inner();
        let (hellos, attachments) = (self.hellos.clone(), self.attachments.clone());
        let mut tables = self.tables.clone();
        tables.mark_changed();
        tokio::spawn(async move {
            while let Ok(Some(message)) = from_node.message().await {
                match message.kind {
                    Some(v1::node_message::Kind::Hello(hello)) => drop(hellos.send(hello)),
                    Some(v1::node_message::Kind::Attachment(v1::AttachmentReport { attachment })) => {
                        drop(attachments.send(attachment.unwrap()));
                    }
                    _ => {}
                }
            }
        });
        tokio::spawn(async move {
            while tables.changed().await.is_ok() {
                let (version, objects) = tables.borrow_and_update().clone();
                for kind in frames(version, objects) {
                    let _ = to_node.send(Ok(v1::ControlMessage { kind: Some(kind) })).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

/// These tables as everything there is.
fn frames(version: u64, objects: Vec<v1::Object>) -> [Kind; 3] {
    let mut digest = Digest::default();
    objects.iter().for_each(|object| digest.add(object_digest(object)));
    [
        Kind::Begin(v1::Begin { version, kind: v1::UpdateKind::Full.into(), base: 0 }),
        Kind::Changes(v1::Changes { put: objects, remove: vec![] }),
        Kind::End(v1::End { version, digest: digest.to_bytes() }),
    ]
}

fn address(text: &str) -> Option<v1::Address> {
    Some(text.parse::<IpAddr>().unwrap().into())
}

fn prefix(text: &str, length: u32) -> Option<v1::Prefix> {
    Some(v1::Prefix { address: address(text), length })
}

/// The node itself, the pod network, a lease for each family and the pod.
pub fn objects() -> Vec<v1::Object> {
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
