//! Many requests, each on a connection or socket of its own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use vrouter_tests::report::Tally;

use crate::http::{self, After, Connection, Member};
use crate::source;

const PATIENCE: Duration = Duration::from_secs(5);
const EXAMPLES: usize = 5;

/// What to ask, and how.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// How many at a time.
    #[arg(long, default_value_t = 1)]
    parallel: u64,
    #[arg(long, value_enum, default_value_t = Protocol::Tcp)]
    protocol: Protocol,
    /// Send from this port; not for many at a time.
    #[arg(long, default_value_t = 0)]
    source_port: u16,
}

/// A protocol of requests.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Protocol {
    /// HTTP.
    Tcp,
    /// A datagram, answered by one.
    Udp,
}

/// Sends them all.
pub fn run(options: &Options) -> Result<Tally> {
    let tally = Mutex::new(Tally::default());
    let begun = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..options.parallel {
            scope.spawn(|| {
                while begun.fetch_add(1, Ordering::Relaxed) < options.count {
                    let outcome = match options.protocol {
                        Protocol::Tcp => fresh(options.target, options.source_port),
                        Protocol::Udp => datagram(options.target, options.source_port, PATIENCE),
                    };
                    count(&mut tally.lock().expect("no thread panics while it counts"), &outcome);
                }
            });
        }
    });
    tally.into_inner().map_err(|_| anyhow!("a client panicked"))
}

/// One request on a connection of its own; returns who answered.
pub fn fresh(target: SocketAddr, source_port: u16) -> Result<Member> {
    Ok(Connection::open(target, source_port)?.ask(After::Close)?.member)
}

/// One datagram from a socket of its own; returns who answered.
pub fn datagram(target: SocketAddr, source_port: u16, patience: Duration) -> Result<Member> {
    let socket = UdpSocket::bind(source(target, source_port))?;
    socket.connect(target).context("connect")?;
    socket.set_read_timeout(Some(patience))?;
    socket.send(b"?").context("request")?;
    let mut answer = vec![0; 1 << 16];
    let length = socket.recv(&mut answer).context("answer")?;
    http::member(&answer[..length])
}

/// Adds a request to the tally.
pub fn count(tally: &mut Tally, outcome: &Result<Member>) {
    tally.requests += 1;
    match outcome {
        Ok(member) => {
            *tally.members.entry(member.pod.clone()).or_default() += 1;
            *tally.clients.entry(member.client).or_default() += 1;
        }
        Err(error) => {
            tally.failed += 1;
            tally.resets += u64::from(is_reset(error));
            if tally.errors.len() < EXAMPLES {
                tally.errors.push(format!("{error:#}"));
            }
        }
    }
}

fn is_reset(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::ConnectionReset)
}
