//! gRPC over a unix socket, one call at a time.

use std::path::Path;

use anyhow::{Result, anyhow};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::{self, Runtime};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

/// A connection to a daemon.
pub struct Line {
    runtime: Runtime,
    channel: Channel,
    socket: String,
}

impl Line {
    /// Connects.
    pub fn open(socket: &Path) -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let path = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // The connector knows where to go; the address only has to be one.
        let endpoint = Endpoint::from_static("http://unix.socket");
        let socket = socket.display().to_string();
        let channel = runtime
            .block_on(endpoint.connect_with_connector(connector))
            .map_err(|error| anyhow!(error).context(format!("cannot connect to {socket}")))?;
        Ok(Self { runtime, channel, socket })
    }

    /// What a client is made with.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Waits for an answer.
    pub fn call<T>(&self, answer: impl Future<Output = Result<Response<T>, Status>>) -> Result<T> {
        let answer = self.runtime.block_on(answer);
        Ok(answer.map_err(|status| anyhow!("{}: {}", self.socket, status.message()))?.into_inner())
    }

    /// Waits for every piece of an answer.
    pub fn all<T>(
        &self,
        answer: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Vec<T>> {
        let mut stream = self.call(answer)?;
        let mut pieces = Vec::new();
        while let Some(piece) = self.call(async { stream.message().await.map(Response::new) })? {
            pieces.push(piece);
        }
        Ok(pieces)
    }
}
