//! `Control.Exchange`: one stream per node.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use vrouter_objects::ObjectKey;
use vrouter_proto::{CHUNK_BYTES, v1};

use super::peer::Peer;
use super::{read, stopping};
use crate::core::{Command, Occupied, Outbound};
use crate::node::Update;

/// How long a node may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How many things may wait to be sent to one node. There is never more than one update among them.
const OUTBOUND: usize = 64;
/// How many messages of an update are prepared ahead of the network.
const MESSAGES_AHEAD: usize = 2;
/// What a key takes in a message, at most, besides names.
const KEY_BYTES: usize = 64;

/// The service.
#[derive(Debug, Clone)]
pub struct ControlService {
    core: mpsc::Sender<Command>,
}

type Messages = mpsc::Sender<Result<v1::ControlMessage, Status>>;

impl ControlService {
    /// A face of this core.
    pub fn new(core: mpsc::Sender<Command>) -> Self {
        Self { core }
    }
}

#[tonic::async_trait]
impl v1::control_server::Control for ControlService {
    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<v1::ControlMessage, Status>> + Send>>;

    async fn exchange(
        &self,
        request: Request<Streaming<v1::NodeMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let (messages, stream) = mpsc::channel(MESSAGES_AHEAD);
        let peer = Peer::of(&request)?;
        tokio::spawn(serve(self.core.clone(), peer, request.into_inner(), messages));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Serves one stream to its end, and tells the node why where it ends by a fault.
async fn serve(
    core: mpsc::Sender<Command>,
    peer: Peer,
    inbound: Streaming<v1::NodeMessage>,
    messages: Messages,
) {
    if let Err(status) = converse(&core, &peer, inbound, &messages).await {
        tracing::warn!(%status, "a node's stream ends");
        // The node may be gone already.
        messages.send(Err(status)).await.ok();
    }
}

async fn converse(
    core: &mpsc::Sender<Command>,
    peer: &Peer,
    mut inbound: Streaming<v1::NodeMessage>,
    messages: &Messages,
) -> Result<(), Status> {
    let first = timeout(HELLO_TIMEOUT, inbound.message());
    let first = first.await.map_err(|_| Status::deadline_exceeded("no hello came"))??;
    let Some(v1::NodeMessage { kind: Some(v1::node_message::Kind::Hello(hello)) }) = first else {
        return Err(Status::invalid_argument("a stream begins with a hello"));
    };
    let hello = read::hello(hello)?;
    peer.check(&hello.node)?;
    let node = hello.node.clone();
    let (outbound, to_send) = mpsc::channel(OUTBOUND);
    let (generation, given) = oneshot::channel();
    core.send(Command::Connect { hello, outbound, generation }).await.map_err(|_| stopping())?;
    let generation = given.await.map_err(|_| stopping())?.map_err(|Occupied { boot_id }| {
        Status::already_exists(format!(
            "another machine (boot id {boot_id}) is connected as node {node}: give this one another name, or stop that one"
        ))
    })?;
    let ended = tokio::select! {
        ended = receive(core, &node, generation, inbound) => ended,
        ended = send(to_send, messages) => ended,
    };
    core.send(Command::Disconnect { node, generation }).await.map_err(|_| stopping())?;
    ended
}

async fn receive(
    core: &mpsc::Sender<Command>,
    node: &str,
    generation: u64,
    mut inbound: Streaming<v1::NodeMessage>,
) -> Result<(), Status> {
    loop {
        match inbound.message().await {
            Ok(Some(message)) => {
                let message = read::node_message(message)?;
                let command = Command::FromNode { node: node.to_owned(), generation, message };
                core.send(command).await.map_err(|_| stopping())?;
            }
            Ok(None) => return Ok(()),
            Err(status) => {
                tracing::debug!(node, %status, "the node's side broke off");
                return Ok(());
            }
        }
    }
}

async fn send(mut outbound: mpsc::Receiver<Outbound>, messages: &Messages) -> Result<(), Status> {
    loop {
        let sent = match outbound.recv().await {
            Some(Outbound::Update(update)) => send_update(&update, messages).await,
            Some(Outbound::Sync(token)) => {
                say(messages, v1::control_message::Kind::Sync(v1::Sync { token })).await
            }
            Some(Outbound::Replaced) => {
                return Err(Status::aborted("a newer stream of this node took this one's place"));
            }
            None => {
                return Err(Status::unavailable("the stream did not keep up, or the controller is stopping"));
            }
        };
        if sent.is_err() {
            // The node does not listen any more.
            return Ok(());
        }
    }
}

/// The node's side of the stream is gone.
struct Gone;

async fn say(messages: &Messages, kind: v1::control_message::Kind) -> Result<(), Gone> {
    messages.send(Ok(v1::ControlMessage { kind: Some(kind) })).await.map_err(|_| Gone)
}

async fn send_update(update: &Update, messages: &Messages) -> Result<(), Gone> {
    use v1::control_message::Kind;
    let version = update.version.0;
    let (kind, base) = match update.base {
        Some(base) => (v1::UpdateKind::Delta, base.0),
        None => (v1::UpdateKind::Full, 0),
    };
    say(messages, Kind::Begin(v1::Begin { version, kind: kind.into(), base })).await?;
    let mut chunk = v1::Changes::default();
    let mut bytes = 0;
    for object in &update.puts {
        if bytes > 0 && bytes + object.bytes > CHUNK_BYTES {
            say(messages, Kind::Changes(std::mem::take(&mut chunk))).await?;
            bytes = 0;
        }
        bytes += object.bytes;
        chunk.put.push(object.message.clone());
    }
    for key in &update.removes {
        let size = key_bytes(key);
        if bytes > 0 && bytes + size > CHUNK_BYTES {
            say(messages, Kind::Changes(std::mem::take(&mut chunk))).await?;
            bytes = 0;
        }
        bytes += size;
        chunk.remove.push(key.into());
    }
    if bytes > 0 {
        say(messages, Kind::Changes(chunk)).await?;
    }
    say(messages, Kind::End(v1::End { version, digest: update.digest.to_bytes() })).await
}

fn key_bytes(key: &ObjectKey) -> usize {
    match key {
        ObjectKey::PodBinding(pod) => KEY_BYTES + pod.namespace.len() + pod.name.len(),
        _ => KEY_BYTES,
    }
}
