//! One client's exchange with a service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::Manner;

const PATIENCE: Duration = Duration::from_secs(5);

/// Requests that belong together: one connection's, or one UDP socket's.
pub struct Session {
    /// Who answered last.
    pub member: Option<String>,
    carrier: Carrier,
}

enum Carrier {
    Http { sender: SendRequest<Empty<Bytes>>, host: HeaderValue, last: bool },
    Udp(UdpSocket),
}

/// What a pod answers, as far as it matters here.
#[derive(Deserialize)]
pub struct Answer {
    /// Its name.
    pub pod: String,
    /// The address it saw its client at.
    pub client: String,
}

impl Session {
    /// Connects.
    pub async fn open(target: SocketAddr, manner: Manner) -> Result<Self> {
        let connect =
            async { if manner.udp { open_udp(target).await } else { open_http(target, manner.fresh).await } };
        let carrier = timeout(PATIENCE, connect).await.map_err(|_| anyhow!("connect: no answer"))??;
        Ok(Self { member: None, carrier })
    }

    /// Asks once.
    pub async fn ask(&mut self) -> Result<Answer> {
        let answer = async {
            match &mut self.carrier {
                Carrier::Http { sender, host, last } => ask_http(sender, host, last).await,
                Carrier::Udp(socket) => ask_udp(socket).await,
            }
        };
        let body = timeout(PATIENCE, answer).await.map_err(|_| anyhow!("request: no answer"))??;
        serde_json::from_slice(&body).context("answer")
    }

    /// Whether another request may follow.
    pub fn goes_on(&self) -> bool {
        !matches!(self.carrier, Carrier::Http { last: true, .. })
    }
}

async fn open_http(target: SocketAddr, last: bool) -> Result<Carrier> {
    let stream = TcpStream::connect(target).await.context("connect")?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its errors show in the requests.
    tokio::spawn(connection);
    let host = HeaderValue::from_str(&target.to_string())?;
    Ok(Carrier::Http { sender, host, last })
}

async fn open_udp(target: SocketAddr) -> Result<Carrier> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(target).await.context("connect")?;
    Ok(Carrier::Udp(socket))
}

async fn ask_http(
    sender: &mut SendRequest<Empty<Bytes>>,
    host: &HeaderValue,
    last: &mut bool,
) -> Result<Bytes> {
    let mut request = Request::new(Empty::new());
    request.headers_mut().insert(HOST, host.clone());
    if *last {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    sender.ready().await.context("request")?;
    let response = sender.send_request(request).await.context("request")?;
    if response.status() != StatusCode::OK {
        bail!("answer: {}", response.status());
    }
    *last |= response.headers().get(CONNECTION).is_some_and(|value| value == "close");
    Ok(response.into_body().collect().await.context("answer")?.to_bytes())
}

async fn ask_udp(socket: &UdpSocket) -> Result<Bytes> {
    let mut answer = vec![0; 1 << 16];
    socket.send(b"?").await.context("request")?;
    let length = socket.recv(&mut answer).await.context("answer")?;
    answer.truncate(length);
    Ok(answer.into())
}
