//! `Inspect`: what the controller holds, for tools.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use vrouter_control_model::{Document, DocumentKind};
use vrouter_proto::v1;

use super::stopping;
use crate::core::Command;
use crate::source::Rescanner;

/// How long `Settle` waits if it is not said.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The service.
#[derive(Debug, Clone)]
pub struct InspectService {
    core: mpsc::Sender<Command>,
    sources: Vec<Rescanner>,
}

impl InspectService {
    /// A face of this core, which is fed by these sources.
    pub fn new(core: mpsc::Sender<Command>, sources: Vec<Rescanner>) -> Self {
        Self { core, sources }
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        self.core.send(command(reply)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }

    async fn settle_nodes(&self, nodes: Vec<String>) -> Result<(), Status> {
        for source in &self.sources {
            source.rescan().await;
        }
        self.ask(|done| Command::Settle { nodes, done }).await
    }
}

#[tonic::async_trait]
impl v1::inspect_server::Inspect for InspectService {
    async fn objects(
        &self,
        request: Request<v1::ObjectsRequest>,
    ) -> Result<Response<v1::ObjectsReply>, Status> {
        let v1::ObjectsRequest { kind, name } = request.into_inner();
        let kind: DocumentKind = kind.parse().map_err(Status::invalid_argument)?;
        let documents = self.ask(|reply| Command::Objects { kind, name, reply }).await?;
        // Written here and not by the core, which has other things to do.
        let objects = documents.iter().map(mirrored).collect::<Result<_, _>>()?;
        Ok(Response::new(v1::ObjectsReply { objects }))
    }

    async fn status(
        &self,
        _: Request<v1::ControllerStatusRequest>,
    ) -> Result<Response<v1::ControllerStatus>, Status> {
        self.ask(Command::Status).await.map(Response::new)
    }

    async fn settle(
        &self,
        request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::ControllerStatus>, Status> {
        let v1::SettleRequest { timeout_ms, nodes } = request.into_inner();
        let limit = match timeout_ms {
            0 => SETTLE_TIMEOUT,
            milliseconds => Duration::from_millis(milliseconds.into()),
        };
        let settled = match timeout(limit, self.settle_nodes(nodes)).await {
            Ok(done) => done.map(|()| true)?,
            Err(_) => false,
        };
        let status = self.ask(Command::Status).await?;
        Ok(Response::new(v1::ControllerStatus { settled, ..status }))
    }
}

fn mirrored(document: &Document) -> Result<v1::MirroredObject, Status> {
    let (kind, name) = (document.kind.to_string(), document.name());
    match serde_json::to_string(document) {
        Ok(json) => Ok(v1::MirroredObject { kind, name, json }),
        Err(error) => Err(Status::internal(format!("{kind} {name} cannot be written: {error}"))),
    }
}
