//! What each command of the lab does.

pub mod inside;
pub mod lifecycle;
pub mod objects;

use anyhow::Result;

use crate::cli::{Cli, Command, Output};
use crate::demo;
use crate::lab;
use crate::outside::Outsider;
use crate::status::Status;

/// Carries a command line out.
pub fn run(cli: Cli) -> Result<()> {
    let name = cli.name;
    match cli.command {
        Command::Up(up) => lifecycle::up(name, &up),
        Command::Down => lifecycle::down(&name),
        Command::Status { output } => {
            let status = Status::of(&name, &lab::load(&name)?)?;
            match output {
                Output::Table => println!("{}", status.tables()),
                Output::Json => println!("{}", serde_json::to_string(&status)?),
            }
            Ok(())
        }
        Command::Apply { files } => objects::apply(name, &files),
        Command::Delete(delete) => objects::delete(name, &delete),
        Command::Scale { workload, replicas } => objects::scale(name, &workload, replicas),
        Command::Restart { workload } => objects::restart(name, &workload),
        Command::Ready { pod, readiness } => objects::ready(name, &pod, readiness),
        Command::Stop { what } => lifecycle::stop(name, &what),
        Command::Start { what } => lifecycle::start(name, &what),
        Command::Kill { what } => lifecycle::kill(name, &what),
        Command::Exec { pod, command } => inside::pod(&name, &pod, &command),
        Command::Node { node, command } => inside::node(&name, &node, &command),
        Command::Client { command } => inside::outside(&name, Outsider::Client, &command),
        Command::Client2 { command } => inside::outside(&name, Outsider::SecondClient, &command),
        Command::Internet { command } => inside::outside(&name, Outsider::Internet, &command),
        Command::Vrctl { node, arguments } => inside::vrctl(&name, &node, &arguments),
        Command::Demo(options) => demo::run(name, &options),
    }
}
