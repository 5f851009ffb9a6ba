//! `vrouter-control`: see the library.

use std::io::Write;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use vrouter_control::args::Args;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_new(&args.log).context("--log")?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();

    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT handler")?;
    let mut running = vrouter_control::start(&args).await?;
    writeln!(std::io::stdout(), "vrouter-control ready").context("stdout")?;
    let failure = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        failure = running.failed() => Some(failure),
    };
    running.stop().await;
    match failure {
        Some(what) => anyhow::bail!("{what} ended"),
        None => Ok(()),
    }
}
