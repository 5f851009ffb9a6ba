//! One stream to the controller, from Hello until it breaks.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use vrouter_forward::flow::Boundary;
use vrouter_objects::Version;
use vrouter_proto::v1::control_client::ControlClient;
use vrouter_proto::v1::control_message::Kind;
use vrouter_proto::{MAX_MESSAGE_BYTES, v1};

use super::{Assembly, FrameError, Update};
use crate::agent::{Agent, Applied, Drift, Subscription};

/// How often it is looked whether the workers are past a boundary. They are so within one burst.
const BOUNDARY_POLL: Duration = Duration::from_micros(200);
/// A worker that takes longer than this for one burst is worth a word.
const SLOW_BOUNDARY: Duration = Duration::from_secs(1);
/// One that takes longer than this does not come back. The controller must not think that it follows.
const LOST_BOUNDARY: Duration = Duration::from_secs(30);
/// Messages on their way out.
const OUTGOING: usize = 64;

/// Why a session ended.
#[derive(Debug, Error)]
pub enum SessionError {
    /// It could not begin.
    #[error("cannot connect: {}", crate::chain(.0))]
    Connect(tonic::transport::Error),
    /// The stream broke.
    #[error("{}{}", .0.message(), source_of(.0))]
    Stream(tonic::Status),
    /// The controller ended it.
    #[error("the controller closed the channel")]
    Closed,
    /// Frames that make no update.
    #[error("{0}; asking for everything anew")]
    Frame(#[from] FrameError),
    /// Reports came faster than the stream took them.
    #[error("the channel fell behind what it has to report; beginning anew with everything")]
    Behind,
    /// Not every worker came to forward by an update in time.
    #[error("version {0} is applied, but a worker does not forward by it")]
    Stuck(Version),
    /// An update that does not fit what is held.
    #[error("{0}; asking for everything anew")]
    Drift(#[from] Drift),
}

impl SessionError {
    /// Whether the two ends do not agree about what is held, so that the next session must not build on it.
    pub(super) fn breaks_trust(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Drift(_))
    }
}

fn source_of(status: &tonic::Status) -> String {
    std::error::Error::source(status).map(|source| format!(": {}", crate::chain(source))).unwrap_or_default()
}

/// What a Hello says that updates can build on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// What is held.
    Held,
    /// Not what is held: its digest is withheld, so that everything comes anew.
    Nothing,
}

/// What became of a session.
pub(super) struct Outcome {
    /// Whether an update was applied in it.
    pub(super) applied: bool,
    /// How it ended.
    pub(super) error: SessionError,
}

/// Holds one session until it breaks.
pub(super) async fn exchange(agent: &Arc<Agent>, channel: Channel, trust: Trust) -> Outcome {
    let mut session = Session { agent, assembly: Assembly::default(), applied: false };
    let error = match session.run(channel, trust).await {
        Ok(()) => SessionError::Closed,
        Err(error) => error,
    };
    Outcome { applied: session.applied, error }
}

struct Session<'a> {
    agent: &'a Arc<Agent>,
    assembly: Assembly,
    applied: bool,
}

type Outgoing = mpsc::Sender<v1::NodeMessage>;
type Reports = mpsc::Receiver<v1::NodeMessage>;

impl Session<'_> {
    async fn run(&mut self, channel: Channel, trust: Trust) -> Result<(), SessionError> {
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let (hello, mut reports) = tokio::task::block_in_place(|| self.open(trust));
        send(&outgoing, v1::node_message::Kind::Hello(hello)).await?;
        let mut client = ControlClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let exchange = client.exchange(ReceiverStream::new(messages)).await;
        let mut incoming = exchange.map_err(SessionError::Stream)?.into_inner();
        loop {
            tokio::select! {
                report = reports.recv() => {
                    forward(&outgoing, report.ok_or(SessionError::Behind)?).await?;
                }
                message = incoming.message() => match message.map_err(SessionError::Stream)? {
                    Some(message) => self.handle(message, &outgoing, &mut reports).await?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Has reports sent here from now on, and says everything up to now.
    fn open(&self, trust: Trust) -> (v1::Hello, Reports) {
        let opened = tokio::task::block_in_place(|| (self.agent.subscribe(), self.agent.held()));
        let (Subscription { attachments, reports }, (version, digest)) = opened;
        let identity = self.agent.identity();
        let hello = v1::Hello {
            node: identity.node.clone(),
            boot_id: identity.boot_id.clone(),
            version: version.0,
            digest: if trust == Trust::Held && version.0 > 0 { digest.to_bytes() } else { Vec::new() },
            attachments,
        };
        (hello, reports)
    }

    async fn handle(
        &mut self,
        message: v1::ControlMessage,
        outgoing: &Outgoing,
        reports: &mut Reports,
    ) -> Result<(), SessionError> {
        match message.kind {
            Some(Kind::Begin(begin)) => {
                let (held, _) = tokio::task::block_in_place(|| self.agent.held());
                Ok(self.assembly.begin(&begin, held)?)
            }
            Some(Kind::Changes(changes)) => Ok(self.assembly.changes(changes)?),
            Some(Kind::End(end)) => {
                let update = self.assembly.end(&end)?;
                let applied = self.apply(update).await?;
                send(outgoing, v1::node_message::Kind::Applied(applied)).await
            }
            Some(Kind::Sync(sync)) => {
                while let Ok(report) = reports.try_recv() {
                    forward(outgoing, report).await?;
                }
                send(outgoing, v1::node_message::Kind::Synced(v1::Synced { token: sync.token })).await
            }
            None => {
                tracing::warn!("the controller sent a message of no kind known here; a newer one?");
                Ok(())
            }
        }
    }

    /// Applies, and comes back when every worker forwards by it.
    async fn apply(&mut self, update: Update) -> Result<v1::Applied, SessionError> {
        let start = Instant::now();
        let changes = update.changes.len();
        let Applied { version, digest, refusals, boundary } =
            tokio::task::block_in_place(|| self.agent.apply(update))?;
        self.applied = true;
        let passing = tokio::time::timeout(LOST_BOUNDARY, passed(self.agent, boundary));
        passing.await.map_err(|_| SessionError::Stuck(version))?;
        tracing::info!(
            "version {version} is in force: {changes} changes, {} refused, {} µs",
            refusals.len(),
            start.elapsed().as_micros()
        );
        Ok(v1::Applied { version: version.0, digest: digest.to_bytes(), refusals })
    }
}

async fn passed(agent: &Agent, boundary: Boundary) {
    let start = Instant::now();
    let mut told = false;
    while !agent.shared().passed(&boundary) {
        tokio::time::sleep(BOUNDARY_POLL).await;
        if !told && start.elapsed() > SLOW_BOUNDARY {
            told = true;
            tracing::warn!("a worker has been in one burst for more than {SLOW_BOUNDARY:?}");
        }
    }
}

async fn send(outgoing: &Outgoing, kind: v1::node_message::Kind) -> Result<(), SessionError> {
    forward(outgoing, v1::NodeMessage { kind: Some(kind) }).await
}

async fn forward(outgoing: &Outgoing, message: v1::NodeMessage) -> Result<(), SessionError> {
    // The stream dropped its end: it is over, and says so itself when it is read.
    outgoing.send(message).await.map_err(|_| SessionError::Closed)
}
