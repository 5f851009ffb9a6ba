//! Routes.

use std::cmp::Reverse;

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::RouteKey;
use vrouter_proto::v1;

use crate::arguments::RouteFilter;
use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, Row, rows};

#[derive(Serialize)]
struct Route {
    vrf: u32,
    network: String,
    prefix: IpNet,
    next_hop: String,
}

impl Row for Route {
    const HEADINGS: &'static [&'static str] = &["VRF", "PREFIX", "NEXT HOP"];

    fn cells(&self) -> Vec<String> {
        vec![format!("{} ({})", self.vrf, self.network), self.prefix.to_string(), self.next_hop.clone()]
    }
}

/// Shows the routes of all networks or of one, those that match an address with the deciding one first.
pub async fn show(client: &mut Client, format: Format, filter: &RouteFilter) -> Result<(), CliError> {
    let names = Names::of_next_hops(client).await?;
    let vrf = filter.vrf.as_deref().map(|vrf| names.find_network(vrf)).transpose()?;
    let mut routes = Vec::new();
    for message in client.routes().await? {
        let route = read(message, &names)?;
        let in_vrf = vrf.is_none_or(|vrf| route.vrf == vrf);
        if in_vrf && filter.address.is_none_or(|address| route.prefix.contains(&address)) {
            routes.push(route);
        }
    }
    match filter.address {
        Some(_) => routes.sort_by_key(|route| (route.vrf, Reverse(route.prefix.prefix_len()))),
        None => routes.sort_by_key(|route| (route.vrf, route.prefix)),
    }
    rows(format, &routes)
}

fn read(message: v1::Route, names: &Names) -> Result<Route, CliError> {
    let next_hop = names.next_hop(message.next_hop.as_ref());
    let RouteKey { vrf, prefix } = message.key.unwrap_or_default().try_into()?;
    Ok(Route { vrf: vrf.get(), network: names.network(vrf.get()), prefix, next_hop })
}
