//! The lab's command.

use std::process::ExitCode;

use clap::Parser;
use vrouter_lab::cli::Cli;
use vrouter_lab::commands;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
