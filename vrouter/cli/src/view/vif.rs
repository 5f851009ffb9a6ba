//! Interfaces.

use serde::Serialize;
use vrouter_objects::VmiId;
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;
use crate::names::{address, mac};
use crate::output::{Format, Row, bytes, rows};
use crate::words::or_dash;

#[derive(Serialize)]
struct Interface {
    vmi: u32,
    name: String,
    kind: &'static str,
    vrf: u32,
    network: String,
    device: String,
    up: bool,
    mac: String,
    addresses: Vec<String>,
    /// By which this node reaches it.
    link_local: Vec<String>,
    mtu: u32,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    drops: u64,
    flows: u32,
    container_id: String,
}

impl From<v1::Interface> for Interface {
    fn from(message: v1::Interface) -> Self {
        Self {
            vmi: message.vmi,
            kind: kind(message.kind()),
            name: message.name,
            vrf: message.vrf,
            network: message.network,
            device: message.device,
            up: message.up,
            mac: mac(&message.mac),
            addresses: message.addresses.iter().map(|own| address(Some(own))).collect(),
            link_local: message.link_local.iter().map(|own| address(Some(own))).collect(),
            mtu: message.mtu,
            rx_packets: message.rx_packets,
            rx_bytes: message.rx_bytes,
            tx_packets: message.tx_packets,
            tx_bytes: message.tx_bytes,
            drops: message.drops,
            flows: message.flows,
            container_id: message.container_id,
        }
    }
}

fn kind(kind: v1::InterfaceKind) -> &'static str {
    match kind {
        v1::InterfaceKind::Pod => "pod",
        v1::InterfaceKind::Host => "host",
        v1::InterfaceKind::Unspecified => "unknown",
    }
}

impl Row for Interface {
    const HEADINGS: &'static [&'static str] = &[
        "VIF",
        "NAME",
        "KIND",
        "STATE",
        "ADDRESSES",
        "LINK-LOCAL",
        "MAC",
        "MTU",
        "VRF",
        "RX PACKETS",
        "RX",
        "TX PACKETS",
        "TX",
        "DROPS",
        "FLOWS",
    ];

    fn cells(&self) -> Vec<String> {
        // The node's own has the same number on every node, which says nothing.
        let number = if self.vmi == VmiId::HOST.get() { "-".to_owned() } else { self.vmi.to_string() };
        vec![
            number,
            self.name.clone(),
            self.kind.to_owned(),
            if self.up { "up" } else { "down" }.to_owned(),
            self.addresses.join(" "),
            or_dash(self.link_local.join(" ")),
            self.mac.clone(),
            self.mtu.to_string(),
            format!("{} ({})", self.vrf, self.network),
            self.rx_packets.to_string(),
            bytes(self.rx_bytes),
            self.tx_packets.to_string(),
            bytes(self.tx_bytes),
            self.drops.to_string(),
            self.flows.to_string(),
        ]
    }
}

/// Shows the interfaces.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    let interfaces: Vec<_> = client.interfaces().await?.into_iter().map(Interface::from).collect();
    rows(format, &interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_shows_what_its_node_reaches_it_by() {
        let ip = |text: &str| text.parse::<std::net::IpAddr>().unwrap().into();
        let message = v1::Interface {
            vmi: 7,
            name: "blue/web".to_owned(),
            addresses: vec![ip("10.0.0.5"), ip("fd00::5")],
            link_local: vec![ip("169.254.64.7"), ip("fd00:169:254::7")],
            ..Default::default()
        };
        let interface = Interface::from(message);
        let document = serde_json::to_value(&interface).unwrap();
        assert_eq!(document["link_local"], serde_json::json!(["169.254.64.7", "fd00:169:254::7"]));
        let cell = Interface::HEADINGS.iter().position(|heading| *heading == "LINK-LOCAL").unwrap();
        assert_eq!(interface.cells()[cell], "169.254.64.7 fd00:169:254::7");
        assert_eq!(Interface::from(v1::Interface::default()).cells()[cell], "-");
    }
}
