//! The operator's tool: shows the tables of a node's vRouter, and the controller's objects behind them.
//!
//! As a library it is what renders services as kube-proxy would ([`iptables`]), for tests that hold the two worlds
//! against each other.

mod arguments;
mod client;
mod end;
mod error;
pub mod iptables;
mod names;
mod near;
mod outcome;
mod output;
mod policy;
pub mod service;
mod view;
mod words;

pub use arguments::Arguments;
pub use error::CliError;
pub use outcome::Outcome;

use arguments::{Command, PolicyQuestion};
use client::Client;

/// Shows what was asked for.
pub async fn run(arguments: Arguments) -> Result<Outcome, CliError> {
    let mut client = Client::connect(&arguments.socket).await?;
    let format = arguments.output;
    let shown = match arguments.command {
        Command::Policy(of) => match of.question {
            Some(PolicyQuestion::Test(test)) => {
                return view::policy_test::show(&mut client, format, &test).await;
            }
            None => view::policy::show(&mut client, format, of.name.as_deref()).await,
        },
        Command::Policies => view::policies::show(&mut client, format).await,
        Command::Peerset { set } => view::peerset::show(&mut client, format, set.as_deref()).await,
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
    };
    shown.map(|()| Outcome::Shown)
}
