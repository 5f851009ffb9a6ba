//! The operator's tool.

use std::process::ExitCode;

use clap::Parser;
use vrctl::{Arguments, CliError, Outcome};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let on_error = arguments.outcome_of_error();
    match run(arguments) {
        Ok(outcome) => outcome.into(),
        // Whoever reads has seen enough, as `head` does.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vrctl: {error}");
            on_error.into()
        }
    }
}

fn run(arguments: Arguments) -> Result<Outcome, CliError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(vrctl::run(arguments))
}
