//! The CNI plugin: attaches pods to the node's vRouter (CNI specification 1.1.0).
//!
//! It is called once per operation, with its parameters in the environment and its configuration on standard input. The
//! vRouter chooses addresses and makes the interface; the plugin brings it up inside the pod and says what came out.

mod command;
mod configuration;
mod error;
mod invocation;
mod netns;
mod node;
mod pod;
mod result;
mod version;

use std::io::{Read, Write};
use std::process::ExitCode;

use error::{CniError, Failure};
use invocation::Operation;
use version::SpecVersion;

fn main() -> ExitCode {
    let (version, outcome) = run();
    let (document, code) = match outcome {
        Ok(document) => (document, ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("vrouter-cni: {error}");
            (Some(Failure::new(version, &error).to_json()), ExitCode::FAILURE)
        }
    };
    match document.map_or(Ok(()), |document| std::io::stdout().write_all(document.to_string().as_bytes())) {
        Ok(()) => code,
        Err(error) => {
            eprintln!("vrouter-cni: standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what is asked. The version is that of the answer, also where it is an error.
fn run() -> (SpecVersion, Result<Option<serde_json::Value>, CniError>) {
    let mut input = String::new();
    if let Err(error) = std::io::stdin().read_to_string(&mut input) {
        return (SpecVersion::LATEST, Err(CniError::Input(error)));
    }
    let operation = match Operation::from_environment(|name| std::env::var(name).ok()) {
        Ok(operation) => operation,
        Err(error) => return (SpecVersion::LATEST, Err(error)),
    };
    if matches!(operation, Operation::Version) {
        return (SpecVersion::LATEST, version::report(&input).map(Some));
    }
    match configuration::Configuration::read(&input) {
        Ok(configuration) => (configuration.version, command::execute(operation, &configuration)),
        Err(error) => (SpecVersion::LATEST, Err(error)),
    }
}
