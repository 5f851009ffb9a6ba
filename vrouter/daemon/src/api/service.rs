//! The local API's calls.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tonic::{Request, Response, Status};
use vrouter_objects::MacAddress;
use vrouter_proto::convert::mac_to_bytes;
use vrouter_proto::v1::inspect_client::InspectClient;
use vrouter_proto::v1::node_server::Node;
use vrouter_proto::{MAX_MESSAGE_BYTES, v1};

use super::flows::Filter;
use super::report::About;
use super::{drops, flows, report, request, tables};
use crate::agent::{Agent, AttachError};
use crate::attachment::Attachment;

/// How long an attachment waits for the controller to say what the pod gets.
const PATIENCE: Duration = Duration::from_secs(10);

/// The local API of this node.
#[derive(Clone)]
pub struct NodeService {
    agent: Arc<Agent>,
    about: About,
    stop: Arc<Notify>,
}

impl NodeService {
    /// The local API of this agent. Whoever calls Shutdown notifies `stop`.
    pub fn new(agent: Arc<Agent>, about: About, stop: Arc<Notify>) -> Self {
        Self { agent, about, stop }
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

    fn reply(&self, attachment: &Attachment) -> v1::AttachReply {
        let state = self.agent.state();
        let gateways = attachment.addresses.iter().filter_map(|a| state.gateway(attachment.vrf, *a));
        v1::AttachReply {
            attachment: Some(attachment.into()),
            netns: attachment.netns.path.display().to_string(),
            mtu: attachment.mtu.into(),
            gateways: gateways.map(Into::into).collect(),
            gateway_mac: mac_to_bytes(MacAddress::GATEWAY),
        }
    }
}

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Node for NodeService {
    type FlowsStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::FlowTable, Status>>>;

    async fn attach(&self, request: Request<v1::AttachRequest>) -> Reply<v1::AttachReply> {
        let request = request::attach_request(request.into_inner())?;
        let attachment = match self.agent.attached(&request) {
            Some(attachment) => attachment,
            None => {
                let assignment = self.agent.assignment(&request, PATIENCE).await?;
                self.ask(move |agent| agent.attach(&request, &assignment)).await?
            }
        };
        Ok(Response::new(self.reply(&attachment)))
    }

    async fn detach(&self, request: Request<v1::DetachRequest>) -> Reply<v1::DetachReply> {
        let interface = request::interface(request.into_inner())?;
        self.ask(move |agent| agent.detach(&interface)).await?;
        Ok(Response::new(v1::DetachReply {}))
    }

    async fn check_attachment(&self, request: Request<v1::DetachRequest>) -> Reply<v1::AttachReply> {
        let interface = request::interface(request.into_inner())?;
        let attachment = self.ask(move |agent| agent.check(&interface)).await?;
        Ok(Response::new(self.reply(&attachment)))
    }

    async fn collect_garbage(
        &self,
        request: Request<v1::CollectGarbageRequest>,
    ) -> Reply<v1::CollectGarbageReply> {
        let valid = request.into_inner().valid.into_iter().map(request::interface);
        let valid = valid.collect::<Result<HashSet<_>, _>>()?;
        let removed = self.ask(move |agent| agent.collect_garbage(&valid)).await?;
        Ok(Response::new(v1::CollectGarbageReply { removed }))
    }

    async fn status(&self, _: Request<v1::NodeStatusRequest>) -> Reply<v1::NodeReport> {
        Ok(Response::new(report::report(&self.agent, &self.about)))
    }

    async fn interfaces(&self, _: Request<v1::TableRequest>) -> Reply<v1::InterfaceTable> {
        Ok(Response::new(tables::interfaces(&self.agent)))
    }

    async fn routing_instances(&self, _: Request<v1::TableRequest>) -> Reply<v1::RoutingInstanceTable> {
        Ok(Response::new(tables::routing_instances(&self.agent)))
    }

    async fn routes(&self, _: Request<v1::TableRequest>) -> Reply<v1::RouteTable> {
        Ok(Response::new(tables::routes(&self.agent)))
    }

    async fn floating_ips(&self, _: Request<v1::TableRequest>) -> Reply<v1::FloatingIpTable> {
        Ok(Response::new(tables::floating_ips(&self.agent)))
    }

    async fn virtual_routers(&self, _: Request<v1::TableRequest>) -> Reply<v1::VirtualRouterTable> {
        Ok(Response::new(tables::virtual_routers(&self.agent)))
    }

    async fn flows(&self, request: Request<v1::FlowRequest>) -> Reply<Self::FlowsStream> {
        let request = request.into_inner();
        let filter = Filter::read(&request)?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let tables = self.ask(move |agent| Ok(flows::flows(agent, &filter, limit))).await?;
        let tables: Vec<_> = tables.into_iter().map(Ok).collect();
        Ok(Response::new(tokio_stream::iter(tables)))
    }

    async fn drops(&self, _: Request<v1::TableRequest>) -> Reply<v1::DropTable> {
        Ok(Response::new(drops::drops(&self.agent)))
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

    async fn shutdown(&self, _: Request<v1::ShutdownRequest>) -> Reply<v1::ShutdownReply> {
        tracing::info!("told to stop by the local API");
        self.stop.notify_one();
        Ok(Response::new(v1::ShutdownReply {}))
    }
}
