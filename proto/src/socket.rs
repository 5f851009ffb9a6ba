//! Connecting to a service on a unix socket.

use std::future::ready;
use std::io;
use std::path::Path;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// Connects to the service that listens on this socket.
pub async fn connect(socket: &Path) -> io::Result<Channel> {
    // Connected here and not inside the channel, so that what the system says is not lost on the way.
    let mut stream = Some(TokioIo::new(UnixStream::connect(socket).await?));
    let connector =
        tower::service_fn(move |_| ready(stream.take().ok_or(io::Error::from(io::ErrorKind::NotConnected))));
    // The address is only for the protocol's headers.
    let channel = Endpoint::from_static("http://vrouter").connect_with_connector(connector).await;
    channel.map_err(io::Error::other)
}
