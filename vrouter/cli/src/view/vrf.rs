//! Networks.

use std::collections::HashMap;

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{NetworkKind, RoutingInstance, Subnet};

use crate::client::Client;
use crate::error::CliError;
use crate::output::{Format, Row, rows};
use crate::words::or_dash;

#[derive(Serialize)]
struct Network {
    vrf: u32,
    name: String,
    kind: &'static str,
    vni: u32,
    /// Whose addresses its interfaces have.
    address_space: u32,
    /// The other networks in which they are known by these.
    known_in: Vec<u32>,
    subnets: Vec<SubnetView>,
    interfaces: usize,
    routes: usize,
    floating_ips: usize,
}

#[derive(Serialize)]
struct SubnetView {
    prefix: IpNet,
    gateway: std::net::IpAddr,
}

impl From<&Subnet> for SubnetView {
    fn from(subnet: &Subnet) -> Self {
        Self { prefix: subnet.prefix, gateway: subnet.gateway }
    }
}

impl Row for Network {
    const HEADINGS: &'static [&'static str] = &[
        "VRF",
        "NETWORK",
        "KIND",
        "VNI",
        "SPACE",
        "KNOWN IN",
        "SUBNETS",
        "INTERFACES",
        "ROUTES",
        "FLOATING IPS",
    ];

    fn cells(&self) -> Vec<String> {
        let subnet = |subnet: &SubnetView| format!("{} via {}", subnet.prefix, subnet.gateway);
        vec![
            self.vrf.to_string(),
            self.name.clone(),
            self.kind.to_owned(),
            self.vni.to_string(),
            self.address_space.to_string(),
            or_dash(self.known_in.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
            self.subnets.iter().map(subnet).collect::<Vec<_>>().join(", "),
            self.interfaces.to_string(),
            self.routes.to_string(),
            self.floating_ips.to_string(),
        ]
    }
}

/// Shows the networks, with how much is in each.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    let interfaces = count(client.interfaces().await?.iter().map(|interface| interface.vrf));
    let routes = client.routes().await?;
    let routes = count(routes.iter().filter_map(|route| Some(route.key.as_ref()?.vrf)));
    let floating_ips = count(client.floating_ips().await?.iter().map(|floating_ip| floating_ip.vrf));
    let mut networks = Vec::new();
    for message in client.routing_instances().await? {
        let instance = RoutingInstance::try_from(message)?;
        let vrf = instance.id.get();
        let of = |counts: &HashMap<u32, usize>| counts.get(&vrf).copied().unwrap_or_default();
        networks.push(Network {
            vrf,
            name: instance.name,
            kind: kind(instance.kind),
            vni: instance.vni.get(),
            address_space: instance.address_space.get(),
            known_in: instance.known_in.iter().map(|network| network.get()).collect(),
            subnets: instance.subnets.iter().map(Into::into).collect(),
            interfaces: of(&interfaces),
            routes: of(&routes),
            floating_ips: of(&floating_ips),
        });
    }
    rows(format, &networks)
}

fn kind(kind: NetworkKind) -> &'static str {
    match kind {
        NetworkKind::Overlay => "overlay",
        NetworkKind::Fabric => "fabric",
        NetworkKind::LinkLocal => "link-local",
    }
}

fn count(vrfs: impl Iterator<Item = u32>) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    vrfs.for_each(|vrf| *counts.entry(vrf).or_default() += 1);
    counts
}
