//! What runs inside the lab's pods: the server that stands in for images, and a client that counts who answers.

use anyhow::Result;
use clap::{Parser, Subcommand};
use vrouter_lab::load;
use vrouter_lab::pod_server;

/// The lab's server and client.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer on every given port with what is seen of the client.
    Serve(pod_server::Options),
    /// Ask a service again and again; print who answered, and what failed, as JSON.
    Load(load::Options),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Serve(options) => pod_server::serve(options),
        Command::Load(options) => load::run(&options),
    }
}
