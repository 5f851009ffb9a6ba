//! The operator's tool: shows the tables of a node's vRouter, and the controller's objects behind them.

mod arguments;
mod client;
mod error;
mod names;
mod output;
mod view;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use client::Client;
use error::CliError;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough, as `head` does.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vrctl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), CliError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(async {
        let mut client = Client::connect(&arguments.socket).await?;
        let format = arguments.output;
        match arguments.command {
            Command::Vif => view::vif::show(&mut client, format).await,
            Command::Vrf => view::vrf::show(&mut client, format).await,
            Command::Route(filter) => view::route::show(&mut client, format, &filter).await,
            Command::Nh => view::nh::show(&mut client, format).await,
            Command::Vxlan => view::vxlan::show(&mut client, format).await,
            Command::Fip { name } => view::fip::show(&mut client, format, name.as_deref()).await,
            Command::Flow(filter) => view::flow::show(&mut client, format, &filter).await,
            Command::Drops { all } => view::drops::show(&mut client, format, all).await,
            Command::Get { object, name } => view::get::show(&mut client, format, object, name).await,
            Command::Status => view::status::show(&mut client, format).await,
        }
    })
}
