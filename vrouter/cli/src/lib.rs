//! The operator's tool: shows the tables of a node's vRouter, and the controller's objects behind them.
//!
//! As a library it is what renders services as kube-proxy would ([`iptables`]), for tests that hold the two worlds
//! against each other.

mod arguments;
mod client;
mod error;
pub mod iptables;
mod names;
mod output;
pub mod service;
mod view;
mod words;

pub use arguments::Arguments;
pub use error::CliError;

use arguments::Command;
use client::Client;

/// Shows what was asked for.
pub async fn run(arguments: Arguments) -> Result<(), CliError> {
    let mut client = Client::connect(&arguments.socket).await?;
    let format = arguments.output;
    match arguments.command {
        Command::Vif => view::vif::show(&mut client, format).await,
        Command::Vrf => view::vrf::show(&mut client, format).await,
        Command::Route(filter) => view::route::show(&mut client, format, &filter).await,
        Command::Nh => view::nh::show(&mut client, format).await,
        Command::Vxlan => view::vxlan::show(&mut client, format).await,
        Command::Fip { name } => view::fip::show(&mut client, format, name.as_deref()).await,
        Command::Service { name, form } => view::service::show(&mut client, format, &name, &form).await,
        Command::Services { form } => view::services::show(&mut client, format, &form).await,
        Command::Flow(filter) => view::flow::show(&mut client, format, &filter).await,
        Command::Drops { all } => view::drops::show(&mut client, format, all).await,
        Command::Get { object, name } => view::get::show(&mut client, format, object, name).await,
        Command::Status => view::status::show(&mut client, format).await,
    }
}
