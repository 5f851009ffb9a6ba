//! VXLAN: network identifiers and tunnel ends.

use std::net::IpAddr;

use serde::Serialize;
use vrouter_objects::{RouterKind, VirtualRouter};

use crate::client::{Client, Report};
use crate::error::CliError;
use crate::output::{Format, Row, document, print, table};
use crate::words::or_dash;

#[derive(Serialize)]
struct Vxlan {
    vnis: Vec<Vni>,
    vteps: Vec<Vtep>,
}

#[derive(Serialize)]
struct Vni {
    vni: u32,
    vrf: u32,
    network: String,
}

#[derive(Serialize)]
struct Vtep {
    id: u32,
    node: String,
    address: IpAddr,
    mac: String,
    addresses: Vec<IpAddr>,
    zone: String,
    kind: &'static str,
    local: bool,
}

impl Row for Vni {
    const HEADINGS: &'static [&'static str] = &["VNI", "VRF", "NETWORK"];

    fn cells(&self) -> Vec<String> {
        vec![self.vni.to_string(), self.vrf.to_string(), self.network.clone()]
    }
}

impl Row for Vtep {
    const HEADINGS: &'static [&'static str] =
        &["NODE", "VTEP", "ROUTER MAC", "ID", "KIND", "ZONE", "ADDRESSES", ""];

    fn cells(&self) -> Vec<String> {
        let note = if self.local { "this node" } else { "" };
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        vec![
            self.node.clone(),
            self.address.to_string(),
            self.mac.clone(),
            self.id.to_string(),
            self.kind.to_owned(),
            or_dash(self.zone.clone()),
            addresses.join(" "),
            note.to_owned(),
        ]
    }
}

/// Shows which VNI is which network, and which node is where.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    let own = match client.status().await? {
        Report::Node(report) => report.node,
        Report::Controller(_) => String::new(),
    };
    let vnis = client.routing_instances().await?.into_iter();
    let routers = client.virtual_routers().await?.into_iter().map(VirtualRouter::try_from);
    let routers = routers.collect::<Result<Vec<_>, _>>()?;
    let vxlan = Vxlan {
        vnis: vnis.map(|network| Vni { vni: network.vni, vrf: network.id, network: network.name }).collect(),
        vteps: routers.into_iter().map(|router| vtep(router, &own)).collect(),
    };
    match format {
        Format::Table => print(&format!("{}\n\n{}", table(&vxlan.vnis), table(&vxlan.vteps))),
        Format::Json | Format::Yaml => document(format, &vxlan),
    }
}

fn vtep(router: VirtualRouter, own: &str) -> Vtep {
    Vtep {
        id: router.id.get(),
        local: router.name == own,
        node: router.name,
        address: router.address,
        mac: router.mac.to_string(),
        addresses: router.addresses,
        zone: router.zone,
        kind: match router.kind {
            RouterKind::Vrouter => "vrouter",
            RouterKind::Kernel => "kernel",
        },
    }
}
