//! The host path in network namespaces of the tests' own: real packets, of which those that are steered are seen at the
//! other end of `vhost0`. Needs root.

mod addresses;
mod guard;
mod router;
mod stage;
mod steering;
mod upkeep;

use std::net::IpAddr;
use std::sync::Arc;

use vrouter_daemon::host_path::{Family, HostDevice, HostPath, NodePort, ServicePort, Steered};
use vrouter_objects::{Port, ServiceProtocol};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(number: i64) -> Port {
    Port::new(number).unwrap()
}

/// The node is 172.30.0.1 and fd00::1. Its node ports are UDP 30053 and TCP 30080, a service has 203.0.113.7 for
/// itself, another the node's UDP port 5353.
fn path() -> HostPath {
    let node_port = |family, protocol, number| NodePort { family, protocol, port: port(number) };
    let own = ["172.30.0.1", "fd00::1"].map(ip);
    let steered = Steered {
        own: own.into(),
        node_port_addresses: own.into(),
        node_ports: [
            node_port(Family::V4, ServiceProtocol::Udp, 30_053),
            node_port(Family::V4, ServiceProtocol::Tcp, 30_080),
            node_port(Family::V6, ServiceProtocol::Udp, 30_053),
        ]
        .into(),
        external: ["203.0.113.7"].map(ip).into(),
        external_ports: own
            .map(|address| ServicePort { address, protocol: ServiceProtocol::Udp, port: port(5353) })
            .into(),
    };
    let routes = [("10.244.0.0/16", own[0]), ("10.96.0.0/12", own[0]), ("fd00:10:244::/48", own[1])];
    HostPath {
        device: HostDevice { mac: router::MAC, mtu: 1500 },
        routes: routes.map(|(prefix, source)| (prefix.parse().unwrap(), source)).into(),
        steered: Arc::new(steered),
    }
}
