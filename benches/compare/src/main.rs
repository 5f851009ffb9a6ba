//! The benchmark's command.

use std::process::ExitCode;

use clap::Parser;
use vrouter_bench::arguments::Arguments;
use vrouter_bench::run;

fn main() -> ExitCode {
    match run::run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
