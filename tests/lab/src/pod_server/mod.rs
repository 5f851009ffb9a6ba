//! The server that stands in for a pod's image: on every TCP port it answers HTTP, on every UDP port each datagram, with
//! a JSON object of what it sees of its client.

mod activity;
mod datagram;
mod http;
mod number_crunch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use activity::Activity;
use number_crunch::Crunched;

/// Told to end, it goes once nobody has spoken to it for this long and no connection is open. By then every node has
/// acknowledged that it is to get no new ones. The grace period, which the lab keeps, may end before that.
const QUIET: Duration = Duration::from_millis(500);
/// So long after it was told to end, it closes connections on which nothing is asked.
const PATIENCE: Duration = Duration::from_secs(3);

/// What to serve, and as whom.
#[derive(Debug, Args)]
pub struct Options {
    #[arg(long)]
    namespace: String,
    #[arg(long)]
    pod: String,
    #[arg(long)]
    node: String,
    /// A TCP port to serve HTTP on.
    #[arg(long)]
    tcp: Vec<u16>,
    /// A UDP port to answer on.
    #[arg(long)]
    udp: Vec<u16>,
    /// An SCTP port that is declared.
    #[arg(long)]
    sctp: Vec<u16>,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(flatten)]
    crunched: Option<Crunched>,
    pod: &'a str,
    namespace: &'a str,
    node: &'a str,
    client: String,
    client_port: u16,
    port: u16,
}

impl Options {
    fn answer(&self, client: SocketAddr, port: u16, crunched: Option<Crunched>) -> Vec<u8> {
        let answer = Answer {
            crunched,
            pod: &self.pod,
            namespace: &self.namespace,
            node: &self.node,
            // A dual-stack socket sees an IPv4 client as a mapped IPv6 address.
            client: client.ip().to_canonical().to_string(),
            client_port: client.port(),
            port,
        };
        serde_json::to_vec(&answer).expect("strings and numbers are always JSON")
    }
}

/// Serves until told to end.
pub fn serve(options: Options) -> Result<()> {
    raise_file_limit()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve_all(Arc::new(options)))
}

async fn serve_all(options: Arc<Options>) -> Result<()> {
    let activity = Arc::new(Activity::default());
    // Every socket is open before the first request is answered.
    let listeners = options.tcp.iter().map(|&port| http::listen(port)).collect::<Result<Vec<_>>>()?;
    let mut sockets = Vec::new();
    for &port in &options.udp {
        sockets.push(datagram::bind(port).await?);
    }
    for port in &options.sctp {
        eprintln!("SCTP port {port} is not served: this server speaks TCP and UDP only");
    }
    let mut told = signal(SignalKind::terminate())?;
    for listener in listeners {
        tokio::spawn(http::serve(listener, options.clone(), activity.clone()));
    }
    for socket in sockets {
        tokio::spawn(datagram::serve(socket, options.clone(), activity.clone()));
    }
    told.recv().await;
    activity.drain();
    let patient = activity.clone();
    tokio::spawn(async move {
        sleep(PATIENCE).await;
        patient.close_idle();
    });
    while !activity.quiet_for(QUIET) {
        sleep(QUIET / 10).await;
    }
    Ok(())
}

/// Many connections need many descriptors.
fn raise_file_limit() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("file limit")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("file limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_promised_shape() {
        let options = Options {
            namespace: "web".into(),
            pod: "nginx-1".into(),
            node: "n2".into(),
            tcp: vec![80],
            udp: Vec::new(),
            sctp: Vec::new(),
        };
        let answer = |path| {
            let client = "[::ffff:10.244.0.2]:40000".parse().unwrap();
            String::from_utf8(options.answer(client, 80, Crunched::of(path))).unwrap()
        };
        let seen = r#""pod":"nginx-1","namespace":"web","node":"n2","client":"10.244.0.2","clientPort":40000,"port":80}"#;
        assert_eq!(answer("/"), format!("{{{seen}"));
        assert_eq!(answer("/square-root/4"), format!(r#"{{"InputNumber":4,"SquareRoot":2,{seen}"#));
    }
}
