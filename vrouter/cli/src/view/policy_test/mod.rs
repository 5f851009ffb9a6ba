//! Whether network policy allows a connection, and by which rule, as far as this node decides it.

mod answer;
mod elsewhere;
mod places;
mod question;
#[cfg(test)]
mod tests;
mod text;

use std::net::IpAddr;

use vrouter_objects::{FloatingIp, PodName};

use crate::arguments::PolicyTest;
use crate::client::Client;
use crate::end::{Party, Target};
use crate::error::CliError;
use crate::outcome::Outcome;
use crate::output::{Format, document, print};
use answer::Answer;
use places::{End, Places};
use question::Question;

/// Shows it.
pub async fn show(client: &mut Client, format: Format, test: &PolicyTest) -> Result<Outcome, CliError> {
    let places = Places::ask(client).await?;
    let aim = aim(client, &places, &test.to).await?;
    let from = sender(client, &places, test, &aim).await?;
    let mut question = Question { client, places: &places, from: &from, port: test.port };
    let connections = question.connections(&aim).await?;
    if connections.is_empty() {
        return Err(CliError::NoCommonFamily { from: test.from.to_string(), to: test.to.to_string() });
    }
    let answer = Answer::of(&from, test, connections);
    match format {
        Format::Table => print(&text::text(&answer))?,
        Format::Json | Format::Yaml => document(format, &answer)?,
    }
    Ok(answer.outcome())
}

/// Whom a connection is to.
enum Aim {
    Pod(End),
    /// One per family.
    Service(Vec<FloatingIp>),
    Address(IpAddr),
}

async fn aim(client: &mut Client, places: &Places, target: &Target) -> Result<Aim, CliError> {
    Ok(match target {
        Target::Service(name) => Aim::Service(places.service(name)?),
        Target::Party(Party::Pod(name)) => Aim::Pod(pod(client, places, name).await?),
        Target::Party(Party::Address(address)) => Aim::Address(*address),
    })
}

async fn sender(client: &mut Client, places: &Places, test: &PolicyTest, aim: &Aim) -> Result<End, CliError> {
    let peer = match aim {
        Aim::Pod(end) => end.network.vrf,
        Aim::Service(_) | Aim::Address(_) => None,
    };
    match (&test.from, &test.vrf) {
        (Party::Pod(name), _) => pod(client, places, name).await,
        (Party::Address(address), Some(network)) => Ok(places.in_network(*address, places.find(network)?)),
        (Party::Address(address), None) => places.whose(*address, peer),
    }
}

async fn pod(client: &mut Client, places: &Places, name: &PodName) -> Result<End, CliError> {
    match places.pod(name) {
        Some(end) => Ok(end),
        None => elsewhere::pod(client, places, name).await,
    }
}
