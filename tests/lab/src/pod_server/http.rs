//! HTTP/1.1 over TCP.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::sleep;

use super::Options;
use super::activity::Activity;
use super::number_crunch::Crunched;

const BACKLOG: u32 = 4096;

/// A socket for both families: a new namespace lets IPv6 sockets take IPv4 as well.
pub fn listen(port: u16) -> Result<TcpListener> {
    let bind = || {
        let socket = TcpSocket::new_v6()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
        socket.listen(BACKLOG)
    };
    bind().with_context(|| format!("TCP port {port}"))
}

/// Accepts for as long as the process lives, also while it is ending.
pub async fn serve(listener: TcpListener, options: Arc<Options>, activity: Arc<Activity>) {
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                tokio::spawn(converse(stream, client, options.clone(), activity.clone()));
            }
            Err(error) => {
                eprintln!("accept: {error}");
                // Out of descriptors, most likely: some will be closed.
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, client: SocketAddr, options: Arc<Options>, activity: Arc<Activity>) {
    let _open = activity.connection();
    let Ok(local) = stream.local_addr() else { return };
    // Without it answers to pipelined requests wait for acknowledgements; it is only a matter of speed.
    let _ = stream.set_nodelay(true);
    let usual = Bytes::from(options.answer(client, local.port(), None));
    let service = service_fn(|request: Request<Incoming>| {
        activity.spoken();
        let answer = match Crunched::of(request.uri().path()) {
            None => usual.clone(),
            crunched => Bytes::from(options.answer(client, local.port(), crunched)),
        };
        let mut response = Response::new(Full::new(answer));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if activity.draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        async { Ok::<_, Infallible>(response) }
    });
    let connection =
        http1::Builder::new().pipeline_flush(true).serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // A client that breaks off or speaks no HTTP is its own affair.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = activity.idle_is_over() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
