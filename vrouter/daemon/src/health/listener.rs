//! One port at which an answer is given.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::answer::Answer;

/// Whoever may reach the node may ask, so there is an end to how many do so at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may stay without a question.
const PATIENCE: Duration = Duration::from_secs(5);
/// After an error that may last, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: i32 = 128;

/// A port that is listened at, for as long as this lives.
#[derive(Debug)]
pub(super) struct Listener {
    answer: watch::Sender<Arc<Answer>>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Begins to listen.
    pub(super) fn open(address: SocketAddr, answer: Answer) -> io::Result<Self> {
        let listener = listen(address)?;
        let (sender, receiver) = watch::channel(Arc::new(answer));
        Ok(Self { answer: sender, task: tokio::spawn(accept(listener, receiver)) })
    }

    /// From now on this is said.
    pub(super) fn say(&self, answer: Answer) {
        self.answer.send_if_modified(|said| {
            let is_news = **said != answer;
            if is_news {
                *said = Arc::new(answer);
            }
            is_news
        });
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Each family has its own socket: the same port may be another service's there.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn accept(listener: TcpListener, answer: watch::Receiver<Arc<Answer>>) {
    // Ended with this task.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS {
            let _ = connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(converse(stream, answer.clone()))),
            Err(error) => {
                tracing::warn!("a health check was not heard: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, answer: watch::Receiver<Arc<Answer>>) {
    let reply = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
        let answer = Arc::clone(&answer.borrow());
        async move { Ok::<_, Infallible>(answer.to(request.uri().path())) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // Whoever goes away in the middle of it has had what it wanted.
    let _ = http.serve_connection(TokioIo::new(stream), reply).await;
}
