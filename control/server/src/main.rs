//! `vrouter-control`: see the library.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use vrouter_control::args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If even standard error is gone there is nobody left to tell.
            writeln!(std::io::stderr(), "vrouter-control: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
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
