//! The local API's calls.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use vrouter_objects::MacAddress;
use vrouter_proto::convert::mac_to_bytes;
use vrouter_proto::v1::inspect_client::InspectClient;
use vrouter_proto::v1::node_server::Node;
use vrouter_proto::{MAX_MESSAGE_BYTES, v1};

use super::flows::Filter;
use super::report::About;
use super::{drops, flows, peers, policies, report, request, services, tables, trace};
use crate::agent::{Agent, AttachError, Caller};
use crate::attachment::Attachment;

/// How long an attachment waits for the controller to say what the pod gets.
const PATIENCE: Duration = Duration::from_secs(10);

/// The local API of this node.
#[derive(Clone)]
pub struct NodeService {
    agent: Arc<Agent>,
    about: About,
}

impl NodeService {
    /// The local API of this agent.
    pub fn new(agent: Arc<Agent>, about: About) -> Self {
        Self { agent, about }
    }

    /// Asks the agent something that may block.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Agent) -> Result<T, AttachError> + Send + 'static,
    ) -> Result<T, Status> {
        let agent = Arc::clone(&self.agent);
        let answer = tokio::task::spawn_blocking(move || question(&agent)).await;
        Ok(answer.map_err(|error| Status::internal(error.to_string()))??)
    }

    /// Looks at something of the agent's, which may have to wait for an attachment that is being made.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Agent) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.ask(|agent| Ok(look(agent))).await
    }
}

/// What is said of an attachment.
fn attached(agent: &Agent, attachment: &Attachment) -> v1::AttachReply {
    let state = agent.state();
    let gateways = attachment.addresses.iter().filter_map(|a| state.gateway(attachment.vrf, *a));
    v1::AttachReply {
        attachment: Some(attachment.into()),
        mtu: attachment.mtu.into(),
        gateways: gateways.map(Into::into).collect(),
        gateway_mac: mac_to_bytes(MacAddress::GATEWAY),
    }
}

/// A table in pieces of bounded size.
type Pieces<T> = tokio_stream::Iter<std::vec::IntoIter<Result<T, Status>>>;

fn in_pieces<T>(pieces: Vec<T>) -> Response<Pieces<T>> {
    Response::new(tokio_stream::iter(pieces.into_iter().map(Ok).collect::<Vec<_>>()))
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for NodeService {
    type RoutesStream = Pieces<v1::RouteTable>;
    type FloatingIpsStream = Pieces<v1::FloatingIpTable>;
    type ServicesStream = Pieces<v1::ServiceTable>;
    type FlowsStream = Pieces<v1::FlowTable>;
    type PoliciesStream = Pieces<v1::PolicyTable>;
    type PeerSetsStream = Pieces<v1::PeerSetTable>;
    type PeerAddressesStream = Pieces<v1::PeerAddressTable>;

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Reply<v1::AttachReply> {
        let call = self.agent.begin(request::attach_request(request.into_inner())?);
        let _caller = Caller::of(&call);
        let asked = Arc::clone(&call);
        let before = self.ask(move |agent| {
            Ok(agent.attached(&asked.request).map(|attachment| attached(agent, &attachment)))
        });
        if let Some(reply) = before.await? {
            return Ok(Response::new(reply));
        }
        let assignment = Arc::clone(&self.agent).assignment(&call.request, PATIENCE).await?;
        let made = self.ask(move |agent| {
            let attachment = agent.attach(&call, &assignment)?;
            Ok(attached(agent, &attachment))
        });
        Ok(Response::new(made.await?))
    }

    async fn detach(&self, request: Request<v1::DetachRequest>) -> Reply<v1::DetachReply> {
        let interface = request::interface(request.into_inner())?;
        self.ask(move |agent| agent.detach(&interface)).await?;
        Ok(Response::new(v1::DetachReply {}))
    }

    async fn check_attachment(&self, request: Request<v1::DetachRequest>) -> Reply<v1::AttachReply> {
        let interface = request::interface(request.into_inner())?;
        let reply = self.ask(move |agent| Ok(attached(agent, &agent.check(&interface)?))).await?;
        Ok(Response::new(reply))
    }

    async fn collect_garbage(
        &self,
        request: Request<v1::CollectGarbageRequest>,
    ) -> Reply<v1::CollectGarbageReply> {
        let v1::CollectGarbageRequest { valid, configuration } = request.into_inner();
        let valid = valid.into_iter().map(request::interface).collect::<Result<HashSet<_>, _>>()?;
        let removed = self.ask(move |agent| agent.collect_garbage(&configuration, &valid)).await?;
        Ok(Response::new(v1::CollectGarbageReply { removed }))
    }

    async fn status(&self, _: Request<v1::NodeStatusRequest>) -> Reply<v1::NodeReport> {
        let about = self.about.clone();
        Ok(Response::new(self.look(move |agent| report::report(agent, &about)).await?))
    }

    async fn interfaces(&self, _: Request<v1::TableRequest>) -> Reply<v1::InterfaceTable> {
        Ok(Response::new(self.look(tables::interfaces).await?))
    }

    async fn routing_instances(&self, _: Request<v1::TableRequest>) -> Reply<v1::RoutingInstanceTable> {
        Ok(Response::new(self.look(tables::routing_instances).await?))
    }

    async fn routes(&self, _: Request<v1::TableRequest>) -> Reply<Self::RoutesStream> {
        Ok(in_pieces(self.look(tables::routes).await?))
    }

    async fn floating_ips(&self, _: Request<v1::TableRequest>) -> Reply<Self::FloatingIpsStream> {
        Ok(in_pieces(self.look(tables::floating_ips).await?))
    }

    async fn services(&self, _: Request<v1::TableRequest>) -> Reply<Self::ServicesStream> {
        Ok(in_pieces(self.look(services::services).await?))
    }

    async fn virtual_routers(&self, _: Request<v1::TableRequest>) -> Reply<v1::VirtualRouterTable> {
        Ok(Response::new(self.look(tables::virtual_routers).await?))
    }

    async fn flows(&self, request: Request<v1::FlowRequest>) -> Reply<Self::FlowsStream> {
        let request = request.into_inner();
        let filter = Filter::read(&request)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let tables = self.look(move |agent| flows::flows(agent, &filter, limit)).await?;
        Ok(in_pieces(tables))
    }

    async fn drops(&self, _: Request<v1::TableRequest>) -> Reply<v1::DropTable> {
        Ok(Response::new(self.look(drops::drops).await?))
    }

    async fn policies(&self, _: Request<v1::TableRequest>) -> Reply<Self::PoliciesStream> {
        Ok(in_pieces(self.look(policies::policies).await?))
    }

    async fn peer_sets(&self, _: Request<v1::TableRequest>) -> Reply<Self::PeerSetsStream> {
        Ok(in_pieces(self.look(peers::peer_sets).await?))
    }

    async fn peer_addresses(
        &self,
        request: Request<v1::PeerAddressRequest>,
    ) -> Reply<Self::PeerAddressesStream> {
        let set = peers::requested(request.get_ref())?;
        Ok(in_pieces(self.look(move |agent| peers::peer_addresses(agent, set)).await?))
    }

    async fn trace(&self, request: Request<v1::TraceRequest>) -> Reply<v1::TraceReply> {
        let question = trace::question(request.get_ref())?;
        Ok(Response::new(self.look(move |agent| trace::trace(agent, &question)).await??))
    }

    async fn objects(&self, request: Request<v1::ObjectsRequest>) -> Reply<v1::ObjectsReply> {
        let channel = self.agent.link().borrow().channel();
        let channel = channel.ok_or_else(|| {
            let controller = &self.about.controller;
            Status::unavailable(format!(
                "the controller {controller}, which has these objects, is not connected"
            ))
        })?;
        let mut inspect = InspectClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let reply = inspect.objects(request.into_inner()).await?;
        Ok(Response::new(reply.into_inner()))
    }
}
