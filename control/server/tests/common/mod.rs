//! A controller in this process, and nodes that speak its channel.
#![allow(missing_docs, dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use prost::Message;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use vrouter_control::args::Args;
use vrouter_control::{Running, start};
use vrouter_proto::v1::control_client::ControlClient;
use vrouter_proto::v1::inspect_client::InspectClient;
use vrouter_proto::{Digest, MAX_MESSAGE_BYTES, convert, object_digest, v1};

/// Nothing in these tests takes nearly as long.
const LONG: Duration = Duration::from_secs(20);

pub struct Controller {
    pub folder: TempDir,
    running: Option<Running>,
}

impl Controller {
    /// A controller over a folder with this content.
    pub async fn start(manifests: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        fs::write(folder.path().join("manifests/all.yaml"), manifests).unwrap();
        let mut controller = Self { folder, running: None };
        controller.resume().await;
        controller
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, file: &str, content: &str) {
        fs::write(self.path("manifests").join(file), content).unwrap();
    }

    pub fn args(&self, extra: &[&str]) -> Args {
        let path = |name| self.path(name).display().to_string();
        let (manifests, state, socket) = (path("manifests"), path("state"), path("control.sock"));
        let listen = "127.0.0.1:0";
        let own =
            ["", "--manifests", &manifests, "--state-dir", &state, "--socket", &socket, "--listen", listen];
        Args::try_parse_from(own.iter().chain(extra)).unwrap()
    }

    pub async fn stop(&mut self) {
        self.running.take().unwrap().stop().await;
    }

    pub async fn resume(&mut self) {
        self.running = Some(start(&self.args(&["--insecure"])).await.unwrap());
    }

    pub async fn channel(&self) -> Channel {
        let address = self.running.as_ref().unwrap().address;
        Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
    }

    pub async fn inspect(&self) -> InspectClient<Channel> {
        InspectClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    pub async fn status(&self) -> v1::ControllerStatus {
        self.inspect().await.status(v1::ControllerStatusRequest {}).await.unwrap().into_inner()
    }

    /// Settles without nodes: everything in the folder is published after this.
    pub async fn settle(&self) -> v1::ControllerStatus {
        let request = v1::SettleRequest { timeout_ms: 10_000, nodes: Vec::new() };
        self.inspect().await.settle(request).await.unwrap().into_inner()
    }
}

/// What a node holds: by the encoding of its keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    pub version: u64,
    pub objects: BTreeMap<Vec<u8>, v1::Object>,
}

impl Table {
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.objects.values().for_each(|object| digest.add(object_digest(object)));
        digest
    }

    pub fn floating_ips(&self) -> Vec<&v1::FloatingIp> {
        let floating_ips = self.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::FloatingIp(floating_ip)) => Some(floating_ip),
            _ => None,
        });
        floating_ips.collect()
    }

    pub fn policies(&self) -> Vec<&v1::Policy> {
        let policies = self.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::Policy(policy)) => Some(policy),
            _ => None,
        });
        policies.collect()
    }

    pub fn peer_sets(&self) -> Vec<&v1::PeerSet> {
        let sets = self.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::PeerSet(set)) => Some(set),
            _ => None,
        });
        sets.collect()
    }

    /// The addresses of all its sets, in order.
    pub fn peers(&self) -> Vec<String> {
        let peers = self.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::PeerAddress(peer)) => peer.key.as_ref()?.address.as_ref(),
            _ => None,
        });
        let mut peers: Vec<_> = peers.map(|address| format!("{:?}", address.octets)).collect();
        peers.sort();
        peers
    }

    /// The names of its networks, in order.
    pub fn networks(&self) -> Vec<&str> {
        let networks = self.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::RoutingInstance(network)) => Some(network.name.as_str()),
            _ => None,
        });
        let mut networks: Vec<_> = networks.collect();
        networks.sort_unstable();
        networks
    }
}

/// One update as it came.
#[derive(Debug, Default)]
pub struct Received {
    pub begin: v1::Begin,
    pub put: Vec<v1::Object>,
    pub remove: Vec<v1::ObjectKey>,
    pub end: v1::End,
    pub messages: usize,
    pub largest: usize,
}

impl Received {
    pub fn is_full(&self) -> bool {
        self.begin.kind() == v1::UpdateKind::Full
    }
}

pub struct FakeNode {
    pub name: String,
    pub table: Table,
    /// Everything it cannot use.
    refused: BTreeMap<Vec<u8>, v1::Refusal>,
    out: mpsc::Sender<v1::NodeMessage>,
    inbound: Streaming<v1::ControlMessage>,
}

impl FakeNode {
    pub async fn connect(controller: &Controller, name: &str, table: Table) -> Self {
        Self::connect_with(controller, name, table, Vec::new()).await
    }

    pub async fn connect_with(
        controller: &Controller,
        name: &str,
        table: Table,
        attachments: Vec<v1::Attachment>,
    ) -> Self {
        let hello = v1::Hello {
            node: name.to_owned(),
            boot_id: "boot".to_owned(),
            version: table.version,
            digest: table.digest().to_bytes(),
            attachments,
        };
        Self::greet(controller.channel().await, hello, table).await
    }

    pub async fn greet(channel: Channel, hello: v1::Hello, table: Table) -> Self {
        let mut client = ControlClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let (out, messages) = mpsc::channel(16);
        let name = hello.node.clone();
        say(&out, v1::node_message::Kind::Hello(hello)).await;
        let inbound = client.exchange(ReceiverStream::new(messages)).await.unwrap().into_inner();
        Self { name, table, refused: BTreeMap::new(), out, inbound }
    }

    pub async fn say(&self, kind: v1::node_message::Kind) {
        say(&self.out, kind).await;
    }

    async fn next(&mut self) -> Result<v1::control_message::Kind, Status> {
        let message = timeout(LONG, self.inbound.message()).await.expect("the controller is silent")?;
        Ok(message.ok_or_else(|| Status::cancelled("the stream ended"))?.kind.unwrap())
    }

    /// The next update, which is not applied. Syncs on the way are answered.
    pub async fn receive(&mut self) -> Result<Received, Status> {
        let mut received = Received::default();
        loop {
            let kind = self.next().await?;
            received.messages += 1;
            received.largest =
                received.largest.max(v1::ControlMessage { kind: Some(kind.clone()) }.encoded_len());
            match kind {
                v1::control_message::Kind::Begin(begin) => received.begin = begin,
                v1::control_message::Kind::Changes(changes) => {
                    received.put.extend(changes.put);
                    received.remove.extend(changes.remove);
                }
                v1::control_message::Kind::End(end) => {
                    received.end = end;
                    return Ok(received);
                }
                v1::control_message::Kind::Sync(sync) => self.synced(sync.token).await,
            }
        }
    }

    pub async fn synced(&self, token: u64) {
        self.say(v1::node_message::Kind::Synced(v1::Synced { token })).await;
    }

    /// Takes an update over, leaving out what `refuse` gives a reason for, and acknowledges it.
    pub async fn apply(&mut self, update: &Received, refuse: impl Fn(&v1::Object) -> Option<&'static str>) {
        if update.is_full() {
            self.table.objects.clear();
            self.refused.clear();
        } else {
            assert_eq!(update.begin.base, self.table.version, "a delta on what the node holds");
        }
        assert!(update.begin.version > self.table.version, "versions never go backwards");
        assert_eq!(update.begin.version, update.end.version);
        for object in &update.put {
            let key = convert::key_of(object).unwrap();
            let bytes = key.encode_to_vec();
            match refuse(object) {
                Some(reason) => {
                    self.table.objects.remove(&bytes);
                    let refusal = v1::Refusal { object: Some(key), reason: reason.to_owned() };
                    self.refused.insert(bytes, refusal);
                }
                None => {
                    self.refused.remove(&bytes);
                    self.table.objects.insert(bytes, object.clone());
                }
            }
        }
        for key in update.remove.iter().map(Message::encode_to_vec) {
            self.table.objects.remove(&key);
            self.refused.remove(&key);
        }
        self.table.version = update.begin.version;
        if self.refused.is_empty() {
            assert_eq!(
                self.table.digest().to_bytes(),
                update.end.digest,
                "the digest of version {}",
                self.table.version
            );
        }
        let digest = self.table.digest().to_bytes();
        self.say(v1::node_message::Kind::Applied(v1::Applied {
            version: self.table.version,
            digest,
            refusals: self.refused.values().cloned().collect(),
        }))
        .await;
    }

    /// Receives and applies the next update.
    pub async fn update(&mut self) -> Received {
        let update = self.receive().await.unwrap();
        self.apply(&update, |_| None).await;
        update
    }

    /// Serves the channel as a node does until somebody's settling is done.
    pub async fn settle(&mut self, controller: &Controller) -> v1::ControllerStatus {
        let mut inspect = controller.inspect().await;
        let request = v1::SettleRequest { timeout_ms: 10_000, nodes: vec![self.name.clone()] };
        let settling = tokio::spawn(async move { inspect.settle(request).await.unwrap().into_inner() });
        tokio::pin!(settling);
        let mut update = Received::default();
        loop {
            tokio::select! {
                status = &mut settling => return status.unwrap(),
                message = self.inbound.message() => match message.unwrap().unwrap().kind.unwrap() {
                    v1::control_message::Kind::Begin(begin) => update = Received { begin, ..Received::default() },
                    v1::control_message::Kind::Changes(changes) => {
                        update.put.extend(changes.put);
                        update.remove.extend(changes.remove);
                    }
                    v1::control_message::Kind::End(end) => {
                        update.end = end;
                        self.apply(&update, |_| None).await;
                    }
                    v1::control_message::Kind::Sync(sync) => self.synced(sync.token).await,
                },
            }
        }
    }
}

async fn say(out: &mpsc::Sender<v1::NodeMessage>, kind: v1::node_message::Kind) {
    // The controller may have ended the stream already.
    out.send(v1::NodeMessage { kind: Some(kind) }).await.ok();
}

pub fn attachment(vmi: u32, pod: &str, address: [u8; 4]) -> v1::Attachment {
    let (namespace, name) = pod.split_once('/').unwrap();
    v1::Attachment {
        vmi,
        pod: Some(v1::PodName { namespace: namespace.to_owned(), name: name.to_owned() }),
        uid: String::new(),
        container_id: format!("c{vmi}"),
        interface: "eth0".to_owned(),
        vrf: 1,
        mac: vec![2, 0x50, 0, 0, 0, vmi as u8],
        addresses: vec![v1::Address { octets: address.to_vec() }],
        link_local: Vec::new(),
    }
}

pub const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 172.30.0.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {addresses: [{type: InternalIP, address: 172.30.0.2}]}
";

pub fn service(name: &str, port: u32) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n"
    )
}
