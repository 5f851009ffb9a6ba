//! Speaks and listens inside the pods of the end-to-end tests, and prints what it saw as JSON.
//!
//! A probe that is to go on until it is told to finish says `started` first, and finishes when its standard input ends:
//! so it never outlives the test that started it.

mod bulk;
mod datagrams;
mod echo;
mod fragments;
mod frames;
mod http;
mod knock;
mod load;
mod requests;
mod sctp;
mod steady;
mod survey;
mod until_told;
mod wrk;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use serde::Serialize;

#[derive(Debug, Parser)]
#[command(name = "vrouter-probe", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Give back what comes in on a port, over TCP, UDP and SCTP, until killed.
    Echo { port: u16 },
    /// Send many requests and count who answers.
    Requests(requests::Options),
    /// Send requests on kept and on fresh connections until standard input ends.
    Load(load::Options),
    /// Send requests with wrk until standard input ends.
    Wrk(wrk::Options),
    /// Ask by datagrams from one socket until standard input ends.
    Steady(steady::Options),
    /// Send datagrams to an echo server and count what comes back.
    Datagrams(datagrams::Options),
    /// Send a datagram to an echo server in fragments of one's own making.
    Fragments(fragments::Options),
    /// Send a stream of bytes to an echo server and compare what comes back.
    Bulk {
        target: SocketAddr,
        /// How many bytes.
        #[arg(long)]
        bytes: u64,
    },
    /// Ask an SCTP echo server to begin associations.
    Sctp {
        target: SocketAddr,
        /// How many.
        #[arg(long)]
        count: u16,
    },
    /// Answer whoever begins an SCTP association with a port, until standard input ends.
    AnswerSctp { port: u16 },
    /// Find out how a port answers.
    Knock(knock::Options),
    /// Ask at many ports at a time: one a line of standard input.
    Survey,
    /// Bind and listen on an address.
    Bind { address: IpAddr },
    /// Send frames from an interface: one a line of standard input, as hexadecimal digits.
    Send { interface: String },
    /// Send UDP datagrams: one a line of standard input, as hexadecimal digits.
    SendUdp { target: SocketAddr },
    /// Print the frames seen on an interface until standard input ends.
    Capture { interface: String },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vrouter-probe: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Echo { port } => echo::serve(port),
        Command::Requests(options) => print(&requests::run(&options)?),
        Command::Load(options) => print(&load::run(&options)?),
        Command::Wrk(options) => print(&wrk::run(&options)?),
        Command::Steady(options) => print(&steady::run(&options)?),
        Command::Datagrams(options) => print(&datagrams::run(&options)?),
        Command::Fragments(options) => print(&fragments::run(&options)?),
        Command::Bulk { target, bytes } => print(&bulk::run(target, bytes)?),
        Command::Sctp { target, count } => print(&sctp::ask(target, count)?),
        Command::AnswerSctp { port } => print(&sctp::answer_until_told(port)?),
        Command::Knock(options) => print(&knock::run(&options)?),
        Command::Survey => print(&survey::run()?),
        Command::Bind { address } => {
            TcpListener::bind((address, 0)).with_context(|| address.to_string())?;
            print(&address)
        }
        Command::Send { interface } => print(&frames::send_given(&interface)?),
        Command::SendUdp { target } => print(&datagrams::send_given(target)?),
        Command::Capture { interface } => print(&frames::capture(&interface)?),
    }
}

/// Where to send from: any address of the target's family, and this port, or any where it is 0.
fn source(target: SocketAddr, port: u16) -> SocketAddr {
    match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

fn print(report: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
