//! Asking the vRouter, or the controller, over a unix socket.

use std::path::{Path, PathBuf};

use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use vrouter_objects::PeerSetId;
use vrouter_proto::v1::inspect_client::InspectClient;
use vrouter_proto::v1::node_client::NodeClient;
use vrouter_proto::{MAX_MESSAGE_BYTES, v1};

use crate::error::CliError;

/// Who is at the socket.
pub struct Client {
    socket: PathBuf,
    node: NodeClient<Channel>,
    controller: InspectClient<Channel>,
}

/// How it is, whoever it is.
pub enum Report {
    /// A node's vRouter.
    Node(Box<v1::NodeReport>),
    /// The controller.
    Controller(v1::ControllerStatus),
}

impl Client {
    /// Connects to the socket.
    pub async fn connect(socket: &Path) -> Result<Self, CliError> {
        let channel = vrouter_proto::connect(socket)
            .await
            .map_err(|error| CliError::Connect { socket: socket.to_owned(), problem: error.to_string() })?;
        Ok(Self {
            socket: socket.to_owned(),
            node: NodeClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
            controller: InspectClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
        })
    }

    /// Interfaces.
    pub async fn interfaces(&mut self) -> Result<Vec<v1::Interface>, CliError> {
        let reply = self.node.interfaces(v1::TableRequest {}).await;
        Ok(self.table(reply)?.interfaces)
    }

    /// Networks.
    pub async fn routing_instances(&mut self) -> Result<Vec<v1::RoutingInstance>, CliError> {
        let reply = self.node.routing_instances(v1::TableRequest {}).await;
        Ok(self.table(reply)?.routing_instances)
    }

    /// Routes.
    pub async fn routes(&mut self) -> Result<Vec<v1::Route>, CliError> {
        let reply = self.node.routes(v1::TableRequest {}).await;
        let pieces = all(self.table(reply)?).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.routes).collect())
    }

    /// Service addresses.
    pub async fn floating_ips(&mut self) -> Result<Vec<v1::FloatingIp>, CliError> {
        let reply = self.node.floating_ips(v1::TableRequest {}).await;
        let pieces = all(self.table(reply)?).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.floating_ips).collect())
    }

    /// Services, with what their members were given on this node.
    pub async fn services(&mut self) -> Result<Vec<v1::HeldService>, CliError> {
        let reply = self.node.services(v1::TableRequest {}).await;
        let pieces = all(self.table(reply)?).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.services).collect())
    }

    /// Nodes.
    pub async fn virtual_routers(&mut self) -> Result<Vec<v1::VirtualRouter>, CliError> {
        let reply = self.node.virtual_routers(v1::TableRequest {}).await;
        Ok(self.table(reply)?.virtual_routers)
    }

    /// Dropped packets.
    pub async fn drops(&mut self) -> Result<v1::DropTable, CliError> {
        let reply = self.node.drops(v1::TableRequest {}).await;
        self.table(reply)
    }

    /// Network policies.
    pub async fn policies(&mut self) -> Result<v1::PolicyTable, CliError> {
        let reply = self.node.policies(v1::TableRequest {}).await;
        let mut table = v1::PolicyTable::default();
        for piece in all(self.table(reply)?).await? {
            table.policies.extend(piece.policies);
            table.missing.extend(piece.missing);
        }
        Ok(table)
    }

    /// Peer sets in brief.
    pub async fn peer_sets(&mut self) -> Result<Vec<v1::HeldPeerSet>, CliError> {
        let reply = self.node.peer_sets(v1::TableRequest {}).await;
        let pieces = all(self.table(reply)?).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.sets).collect())
    }

    /// The addresses of one peer set.
    pub async fn peer_addresses(&mut self, set: PeerSetId) -> Result<Vec<v1::PeerAddress>, CliError> {
        let reply = self.node.peer_addresses(v1::PeerAddressRequest { set: set.get() }).await;
        let pieces = all(self.table(reply)?).await?;
        Ok(pieces.into_iter().flat_map(|piece| piece.addresses).collect())
    }

    /// What would become of a connection.
    pub async fn trace(&mut self, request: v1::TraceRequest) -> Result<v1::TraceReply, CliError> {
        let reply = self.node.trace(request).await;
        self.table(reply)
    }

    /// Flows, in bounded pieces.
    pub async fn flows(&mut self, request: v1::FlowRequest) -> Result<Streaming<v1::FlowTable>, CliError> {
        let reply = self.node.flows(request).await;
        self.table(reply)
    }

    /// The controller's objects, through the node or from itself.
    pub async fn objects(
        &mut self,
        request: v1::ObjectsRequest,
    ) -> Result<Vec<v1::MirroredObject>, CliError> {
        let reply = match self.node.objects(request.clone()).await {
            Err(status) if status.code() == Code::Unimplemented => self.controller.objects(request).await?,
            reply => reply?,
        };
        Ok(reply.into_inner().objects)
    }

    /// How the node is, or the controller.
    pub async fn status(&mut self) -> Result<Report, CliError> {
        match self.node.status(v1::NodeStatusRequest {}).await {
            Err(status) if status.code() == Code::Unimplemented => {
                let status = self.controller.status(v1::ControllerStatusRequest {}).await?;
                Ok(Report::Controller(status.into_inner()))
            }
            reply => Ok(Report::Node(Box::new(reply?.into_inner()))),
        }
    }

    fn table<T>(&self, reply: Result<tonic::Response<T>, Status>) -> Result<T, CliError> {
        match reply {
            Err(status) if status.code() == Code::Unimplemented => Err(self.is_controllers()),
            reply => Ok(reply?.into_inner()),
        }
    }

    /// That the socket is a controller's, which has none of a node's tables.
    pub fn is_controllers(&self) -> CliError {
        CliError::Controller(self.socket.clone())
    }
}

/// Every piece of a table.
async fn all<T>(mut stream: Streaming<T>) -> Result<Vec<T>, Status> {
    let mut pieces = Vec::new();
    while let Some(piece) = stream.message().await? {
        pieces.push(piece);
    }
    Ok(pieces)
}
