//! Datagrams to an echo server.

use std::collections::BTreeSet;
use std::io::stdin;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::socket::{setsockopt, sockopt};
use vrouter_tests::frame::from_hex;
use vrouter_tests::report::Datagrams;

use crate::source;
use crate::until_told::UntilTold;

/// How long to wait for answers after the last datagram.
const LINGER: Duration = Duration::from_secs(1);
const NUMBER: usize = 8;

/// What to send, and how.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    /// Bytes of each, the number in front included.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// How many; without it, until standard input ends.
    #[arg(long)]
    count: Option<u64>,
    /// Milliseconds between two of them.
    #[arg(long, default_value_t = 2)]
    pause: u64,
    /// Hand them to the kernel in runs of so many, as one super-frame.
    #[arg(long, default_value_t = 1)]
    run: u64,
}

struct Exchange {
    socket: UdpSocket,
    size: usize,
    seen: BTreeSet<u64>,
    report: Datagrams,
}

/// Sends them all and counts what comes back.
pub fn run(options: &Options) -> Result<Datagrams> {
    let socket = UdpSocket::bind(source(options.target, 0))?;
    socket.connect(options.target).context("connect")?;
    if options.run > 1 {
        let segment = options.size.try_into().context("--size")?;
        setsockopt(&socket, sockopt::UdpGsoSegment, &segment).context("UDP_SEGMENT")?;
    }
    let size = options.size.max(NUMBER);
    let mut exchange = Exchange { socket, size, seen: BTreeSet::new(), report: Datagrams::default() };
    let told = match options.count {
        None => Some(UntilTold::begin()?),
        Some(_) => None,
    };
    let goes_on = |sent: u64| match (&told, options.count) {
        (Some(told), _) => !told.is_over(),
        (None, count) => Some(sent) < count,
    };
    while goes_on(exchange.report.sent) {
        exchange.send(options.run);
        exchange.receive_until(Instant::now() + Duration::from_millis(options.pause));
    }
    let deadline = Instant::now() + LINGER;
    while exchange.report.lost() > 0 && Instant::now() < deadline {
        exchange.receive_until(Instant::now() + Duration::from_millis(20));
    }
    Ok(exchange.report)
}

impl Exchange {
    fn send(&mut self, run: u64) {
        let first = self.report.sent;
        let bytes: Vec<u8> = (first..first + run).flat_map(|number| datagram(number, self.size)).collect();
        match self.socket.send(&bytes) {
            Ok(_) => self.report.sent += run,
            // An ICMP error to an earlier one is told here.
            Err(_) => self.report.refused += 1,
        }
    }

    fn receive_until(&mut self, deadline: Instant) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            match self.socket.set_read_timeout(Some(rest)).and_then(|()| self.socket.recv(&mut buffer)) {
                Ok(length) => self.take(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.report.refused += 1;
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let number = bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        match number.filter(|number| datagram(*number, self.size) == bytes) {
            None => self.report.damaged += 1,
            Some(number) if self.seen.insert(number) => self.report.answered += 1,
            Some(_) => self.report.repeated += 1,
        }
    }
}

/// A number, and bytes that follow from it.
fn datagram(number: u64, size: usize) -> Vec<u8> {
    let pattern = |at: usize| (number as usize).wrapping_mul(31).wrapping_add(at * 7) as u8;
    let mut bytes: Vec<u8> = (0..size).map(pattern).collect();
    bytes[..NUMBER].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Sends what standard input says and returns how many datagrams that were.
pub fn send_given(target: SocketAddr) -> Result<usize> {
    let socket = UdpSocket::bind(source(target, 0))?;
    let mut sent = 0;
    for line in stdin().lines() {
        socket.send_to(&from_hex(&line?)?, target)?;
        sent += 1;
    }
    Ok(sent)
}
