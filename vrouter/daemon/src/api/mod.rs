//! The local API, on a unix socket that only root may open: for the CNI plugin and for `vrctl`.

mod drops;
mod flows;
mod opinions;
mod peers;
mod policies;
mod report;
mod request;
mod service;
mod services;
mod socket;
mod tables;
mod trace;

pub use report::About;
pub use service::NodeService;
pub use socket::{RunDirectory, SocketError};

use std::future::Future;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use vrouter_proto::MAX_MESSAGE_BYTES;
use vrouter_proto::v1::node_server::NodeServer;

/// Serves the local API until told to stop.
pub async fn serve(
    listener: UnixListener,
    service: NodeService,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<NodeServer<NodeService>>().await;
    let node = NodeServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Server::builder()
        .add_service(health_service)
        .add_service(node)
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop)
        .await
}
