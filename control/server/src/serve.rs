//! Putting the parts together and listening.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use vrouter_proto::MAX_MESSAGE_BYTES;
use vrouter_proto::v1::control_server::ControlServer;
use vrouter_proto::v1::inspect_server::InspectServer;

use crate::ServerError;
use crate::args::{Args, Transport};
use crate::core::Core;
use crate::grpc::{ControlService, InspectService};
use crate::socket::Socket;
use crate::source::{EventSender, Folder};
use crate::store::Store;

/// How many commands may wait for the core before their senders do.
const COMMANDS: usize = 1024;
/// How often a silent peer is asked whether it still lives, and how long it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long open streams have to end at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A controller that runs.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    socket: Socket,
    stop: watch::Sender<bool>,
    tasks: JoinSet<&'static str>,
}

impl Running {
    /// Waits until a part of it ends by itself, which none should, and names it.
    pub async fn failed(&mut self) -> &'static str {
        match self.tasks.join_next().await {
            Some(Ok(name)) => name,
            Some(Err(error)) => {
                tracing::error!(%error, "a task failed");
                "a task"
            }
            None => "every task",
        }
    }

    /// Stops it.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        self.stop.send_replace(true);
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all_ended).await.is_err() {
            tracing::debug!("streams are still open; leaving them");
            self.tasks.abort_all();
        }
        self.socket.close();
    }
}

/// Starts a controller. When this returns it serves.
pub async fn start(args: &Args) -> Result<Running, ServerError> {
    let transport = args.transport()?;
    let core = Core::new(args.model_config()?, Store::open(&args.state_dir)?)?;
    let (commands, queue) = mpsc::channel(COMMANDS);
    let (folder, rescanner) = Folder::watch(&args.manifests, EventSender(commands.clone()))?;
    let listen_error = |error| ServerError::Listen { address: args.listen, error };
    let tcp = TcpListener::bind(args.listen).await.map_err(listen_error)?;
    let address = tcp.local_addr().map_err(listen_error)?;
    let (socket, unix) = Socket::open(&args.socket)?;

    let control = ControlServer::new(ControlService::new(commands.clone()))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let inspect = InspectServer::new(InspectService::new(commands, vec![rescanner]))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(usize::MAX);
    let (health_reporter, health) = tonic_health::server::health_reporter();
    health_reporter.set_serving::<ControlServer<ControlService>>().await;
    health_reporter.set_serving::<InspectServer<InspectService>>().await;
    let over_tcp = secured(&transport)?
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(health.clone())
        .add_service(control)
        .add_service(inspect.clone());
    let over_unix = Server::builder().add_service(health).add_service(inspect);

    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    // With the core end its ways to the nodes, and with them their streams.
    tasks.spawn(until(stopped.clone(), core.run(queue), "the core"));
    tasks.spawn(until(stopped.clone(), folder.run(), "the folder source"));
    let until_stopped = stopping(stopped.clone());
    tasks.spawn(async move {
        report(over_tcp.serve_with_incoming_shutdown(TcpListenerStream::new(tcp), until_stopped).await);
        "the TCP listener"
    });
    tasks.spawn(async move {
        report(
            over_unix.serve_with_incoming_shutdown(UnixListenerStream::new(unix), stopping(stopped)).await,
        );
        "the unix listener"
    });
    tracing::info!(%address, socket = %args.socket.display(), manifests = %args.manifests.display(), "serving");
    Ok(Running { address, socket, stop, tasks })
}

fn report(served: Result<(), tonic::transport::Error>) {
    if let Err(error) = served {
        tracing::error!(%error, "serving ended");
    }
}

/// Ends when the controller is to stop.
async fn stopping(mut stopped: watch::Receiver<bool>) {
    // An error means that whoever could say so is gone, which says the same.
    stopped.wait_for(|stopped| *stopped).await.ok();
}

async fn until(
    stopped: watch::Receiver<bool>,
    work: impl Future<Output = ()>,
    name: &'static str,
) -> &'static str {
    tokio::select! {
        () = work => {}
        () = stopping(stopped) => {}
    }
    name
}

fn secured(transport: &Transport) -> Result<Server, ServerError> {
    let Transport::MutualTls { ca, cert, key } = transport else { return Ok(Server::builder()) };
    let identity = Identity::from_pem(read("certificate", cert)?, read("key", key)?);
    let authority = Certificate::from_pem(read("certificate authority", ca)?);
    let tls = ServerTlsConfig::new().identity(identity).client_ca_root(authority);
    Server::builder().tls_config(tls).map_err(ServerError::Tls)
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, ServerError> {
    fs::read(path).map_err(|error| ServerError::File { what, path: path.to_owned(), error })
}
