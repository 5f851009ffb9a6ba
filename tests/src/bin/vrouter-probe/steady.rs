//! One socket that asks by datagrams, one at a time, for as long as it is told to.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use vrouter_tests::report::Steady;

use crate::http::{Member, member};
use crate::source;
use crate::until_told::UntilTold;

/// Whom to ask, and how.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    /// Milliseconds between two questions.
    #[arg(long, default_value_t = 10)]
    pause: u64,
    /// Milliseconds to wait for an answer.
    #[arg(long, default_value_t = 1000)]
    patience: u64,
    /// Send from this port.
    #[arg(long, default_value_t = 0)]
    source_port: u16,
}

/// Asks until told to stop.
pub fn run(options: &Options) -> Result<Steady> {
    let socket = UdpSocket::bind(source(options.target, options.source_port)).context("source port")?;
    socket.connect(options.target).context("connect")?;
    let told = UntilTold::begin()?;
    let mut report = Steady::default();
    let mut unanswered = 0;
    while !told.is_over() {
        report.sent += 1;
        match ask(&socket, Duration::from_millis(options.patience)) {
            Some(member) => {
                unanswered = 0;
                report.answered += 1;
                *report.members.entry(member.pod).or_default() += 1;
                *report.clients.entry(member.client).or_default() += 1;
            }
            None => {
                unanswered += 1;
                report.unanswered_in_a_row = report.unanswered_in_a_row.max(unanswered);
            }
        }
        thread::sleep(Duration::from_millis(options.pause));
    }
    Ok(report)
}

/// `None`: no answer in time, or an error instead of one.
fn ask(socket: &UdpSocket, patience: Duration) -> Option<Member> {
    let deadline = Instant::now() + patience;
    socket.send(b"?").ok()?;
    let mut answer = vec![0; 1 << 16];
    let rest = deadline.saturating_duration_since(Instant::now());
    socket.set_read_timeout(Some(rest.max(Duration::from_millis(1)))).ok()?;
    let length = socket.recv(&mut answer).ok()?;
    member(&answer[..length]).ok()
}
