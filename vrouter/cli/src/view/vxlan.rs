//! VXLAN: network identifiers and tunnel ends.

use serde::Serialize;

use crate::client::{Client, Report};
use crate::error::CliError;
use crate::names::{address, mac};
use crate::output::{Format, Row, document, print, table};

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
    address: String,
    mac: String,
    local: bool,
}

impl Row for Vni {
    const HEADINGS: &'static [&'static str] = &["VNI", "VRF", "NETWORK"];

    fn cells(&self) -> Vec<String> {
        vec![self.vni.to_string(), self.vrf.to_string(), self.network.clone()]
    }
}

impl Row for Vtep {
    const HEADINGS: &'static [&'static str] = &["NODE", "VTEP", "ROUTER MAC", "ID", ""];

    fn cells(&self) -> Vec<String> {
        let note = if self.local { "this node" } else { "" };
        vec![self.node.clone(), self.address.clone(), self.mac.clone(), self.id.to_string(), note.to_owned()]
    }
}

/// Shows which VNI is which network, and which node is where.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    let own = match client.status().await? {
        Report::Node(report) => report.node,
        Report::Controller(_) => String::new(),
    };
    let vnis = client.routing_instances().await?.into_iter();
    let vteps = client.virtual_routers().await?.into_iter();
    let vxlan = Vxlan {
        vnis: vnis.map(|network| Vni { vni: network.vni, vrf: network.id, network: network.name }).collect(),
        vteps: vteps
            .map(|router| Vtep {
                id: router.id,
                local: router.name == own,
                node: router.name,
                address: address(router.address.as_ref()),
                mac: mac(&router.mac),
            })
            .collect(),
    };
    match format {
        Format::Table => print(&format!("{}\n\n{}", table(&vxlan.vnis), table(&vxlan.vteps))),
        Format::Json | Format::Yaml => document(format, &vxlan),
    }
}
