//! The node process.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use vrouter_daemon::config::{Args, Config, ConfigError};
use vrouter_daemon::node;

#[tokio::main]
async fn main() -> ExitCode {
    let config = match configure() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("vrouter: {error}");
            return ExitCode::from(2);
        }
    };
    match node::run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vrouter: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn configure() -> Result<Config, ConfigError> {
    let config = Args::parse().resolve()?;
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| ConfigError::Value { flag: "log", problem: error.to_string() })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(config)
}
