//! How a port answers.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use vrouter_tests::report::{Knock, Outcome};

use crate::source;

/// Where to knock.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Milliseconds to wait for an answer.
    #[arg(long, default_value_t = 3000)]
    patience: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
}

/// Knocks once.
pub fn run(options: &Options) -> Result<Knock> {
    let patience = Duration::from_millis(options.patience);
    let start = Instant::now();
    let answer = match options.protocol {
        Protocol::Tcp => TcpStream::connect_timeout(&options.target, patience).map(drop),
        Protocol::Udp => datagram(options.target, patience),
    };
    let milliseconds = start.elapsed().as_millis().try_into()?;
    let outcome = match answer {
        Ok(()) => Outcome::Open,
        Err(error) => outcome(&error)?,
    };
    Ok(Knock { outcome, milliseconds })
}

fn datagram(target: SocketAddr, patience: Duration) -> std::io::Result<()> {
    let socket = UdpSocket::bind(source(target, 0))?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(patience))?;
    socket.send(b"?")?;
    socket.recv(&mut [0; 1 << 11]).map(drop)
}

fn outcome(error: &Error) -> Result<Outcome> {
    Ok(match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Outcome::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Outcome::Unreachable,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Outcome::Silent,
        _ => bail!("{error}"),
    })
}
