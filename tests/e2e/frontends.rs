//! Services as clients outside the cluster reach them: node ports, load balancers, external addresses; and what nobody
//! reaches.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{
    ECHO, Endpoints, ServicePort, echo_pod, idle_pod, of_app, on_host_network, server_pod, service, with_spec,
};
use vrouter_tests::report::{Associations, Outcome};

use crate::group::{Group, cases};
use crate::load::{Protocol, ask_from, ask_seen_as, each, expect, node_port};
use crate::way::Way;

pub const GROUP: Group = Group {
    name: "frontends",
    shape: Shape { nodes: 3, kernel_nodes: 0 },
    objects,
    cases: cases![
        node_ports_at_every_node,
        a_load_balancer_by_way_of_every_node,
        a_load_balancer_from_beyond_the_router,
        sctp_from_outside,
        external_addresses,
        tpol_9_an_external_address_that_is_a_nodes_own,
        tpol_4_nobody_there_is_said_at_once,
        tpol_6_other_ports_are_refused,
        tpol_7_a_nodes_servers_are_not_at_service_addresses,
        tpol_8_node_ports_are_at_node_addresses_alone,
        tpol_11_source_ranges_guard_the_load_balancer_alone,
        tpol_13_pods_are_guarded_against_too,
        tpol_14_node_ports_are_not_at_loopback,
    ],
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const WEB: u16 = 8080;
const NAMES: u16 = 8053;
/// A server of a node's own.
const OWN: u16 = 8090;
const EXTERNAL: [&str; 2] = ["172.30.254.10", "fd00:30:254::10"];

fn objects(programs: &Programs) -> Vec<Value> {
    let tcp = ServicePort { protocol: "TCP", port: WEB, target: 80 };
    let udp = ServicePort { protocol: "UDP", port: NAMES, target: 53 };
    let on_nodes = ServicePort { protocol: "TCP", port: 8081, target: 80 };
    let sctp = ServicePort { protocol: "SCTP", port: 9000, target: ECHO };
    let web = |name| {
        of_app(
            "web",
            server_pod(name, if name == "web-1" { "n1" } else { "n2" }, &[("TCP", 80), ("UDP", 53)]),
        )
    };
    let of_web =
        |name, ports: &[ServicePort], spec| with_spec(service(name, Endpoints::OfApp("web"), ports), spec);
    vec![
        web("web-1"),
        web("web-2"),
        echo_pod("echo", "n2", programs.probe()),
        idle_pod("near", "n1"),
        idle_pod("away", "n3"),
        on_host_network(server_pod("own", "n2", &[("TCP", OWN)])),
        of_web("web", &[tcp, udp], json!({"type": "LoadBalancer"})),
        of_web("external", &[tcp, udp], json!({"externalIPs": EXTERNAL})),
        of_web("on-node", &[on_nodes], json!({"externalIPs": ["172.30.0.2", "fd00:30::2"]})),
        of_web(
            "guarded",
            &[tcp],
            json!({
                "type": "LoadBalancer",
                "loadBalancerSourceRanges": ["172.30.0.251/32", "fd00:30::fb/128"],
                "externalIPs": ["172.30.254.11", "fd00:30:254::11"],
            }),
        ),
        with_spec(
            service("nobody", Endpoints::OfApp("nobody"), &[tcp, udp]),
            json!({"type": "LoadBalancer", "externalIPs": ["172.30.254.12", "fd00:30:254::12"]}),
        ),
        with_spec(service("sctp", Endpoints::OfApp("echo"), &[sctp]), json!({"type": "LoadBalancer"})),
    ]
}

/// The port of this Service that speaks a protocol.
fn port(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Tcp => WEB,
        Protocol::Udp => NAMES,
    }
}

fn external(address: [&str; 2], family: Family, port: u16) -> Result<SocketAddr> {
    let address: IpAddr = address[usize::from(family == Family::V6)].parse()?;
    Ok(SocketAddr::new(address, port))
}

fn node_ports_at_every_node(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        for from in [Place::Client, Place::SecondClient, Place::Internet] {
            let own = lab.address(from, family)?;
            for node in NODES {
                let target = node_port(lab, ("web", port(protocol)), node, family, protocol)?;
                ask_seen_as(lab, from, protocol, target, own)?;
            }
        }
        // With twelve questions one member alone may answer now and then.
        let tally = ask_from(
            lab,
            Place::Client,
            protocol,
            node_port(lab, ("web", port(protocol)), "n3", family, protocol)?,
            60,
        )?;
        ensure!(tally.members.len() == 2, "not both members answer: {tally:?}");
        Ok(())
    })
}

fn a_load_balancer_by_way_of_every_node(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let target = lab.ingress("web", family, port(protocol))?;
        let own = lab.address(Place::SecondClient, family)?;
        for node in NODES {
            let _way = Way::by(lab, target.ip(), node)?;
            ask_seen_as(lab, Place::SecondClient, protocol, target, own)?;
        }
        let tally = ask_from(lab, Place::Client, protocol, target, 60)?;
        let own = lab.address(Place::Client, family)?;
        ensure!(tally.members.len() == 2 && tally.clients.keys().eq([&own]), "by all at once: {tally:?}");
        Ok(())
    })
}

fn a_load_balancer_from_beyond_the_router(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let own = lab.address(Place::Internet, family)?;
        let target = lab.ingress("web", family, port(protocol))?;
        ask_seen_as(lab, Place::Internet, protocol, target, own).map(drop)
    })
}

fn sctp_from_outside(lab: &Lab) -> Result<()> {
    let node_port = lab.node_port("sctp", "SCTP", 9000)?;
    for family in Family::BOTH {
        let mut targets = vec![lab.ingress("sctp", family, 9000)?];
        for node in NODES {
            targets.push(SocketAddr::new(lab.address(Place::Node(node), family)?, node_port));
        }
        for target in targets {
            let words = ["sctp", &target.to_string(), "--count", "5"];
            let report: Associations = lab.probe(Place::Client, &words)?;
            ensure!(report == Associations { sent: 5, answered: 5 }, "{target}: {report:?}");
        }
    }
    Ok(())
}

fn external_addresses(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let target = external(EXTERNAL, family, port(protocol))?;
        for from in [Place::Client, Place::Pod("near"), Place::Pod("away")] {
            ask_seen_as(lab, from, protocol, target, lab.address(from, family)?)?;
        }
        Ok(())
    })
}

/// The Service has one port of that address, and the node everything else.
fn tpol_9_an_external_address_that_is_a_nodes_own(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let node = lab.address(Place::Node("n2"), family)?;
        for from in [Place::Client, Place::Pod("near"), Place::Node("n1")] {
            let tally = ask_from(lab, from, Protocol::Tcp, SocketAddr::new(node, 8081), 20)?;
            ensure!(tally.members.keys().all(|pod| pod.starts_with("web-")), "{from:?}: {tally:?}");
            let tally = ask_from(lab, from, Protocol::Tcp, SocketAddr::new(node, OWN), 5)?;
            ensure!(tally.members.keys().eq(["own"]), "{from:?}: {tally:?}");
            let words = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "2", &node.to_string()];
            lab.exec(from, &words)?.success()?;
        }
    }
    Ok(())
}

fn tpol_4_nobody_there_is_said_at_once(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let targets = [
            lab.service_address("nobody", family, port(protocol))?,
            lab.ingress("nobody", family, port(protocol))?,
            external(["172.30.254.12", "fd00:30:254::12"], family, port(protocol))?,
            node_port(lab, ("nobody", port(protocol)), "n1", family, protocol)?,
            node_port(lab, ("nobody", port(protocol)), "n3", family, protocol)?,
        ];
        for target in targets {
            for from in [Place::Pod("near"), Place::Node("n1")] {
                expect(lab, from, protocol, target, Outcome::Refused)?;
            }
        }
        for target in &targets[1..] {
            expect(lab, Place::Client, protocol, *target, Outcome::Refused)?;
        }
        Ok(())
    })
}

fn tpol_6_other_ports_are_refused(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let inside = lab.service_address("web", family, 81)?;
        let outside = lab.ingress("web", family, 81)?;
        for (from, target) in [
            (Place::Pod("near"), inside),
            (Place::Node("n1"), inside),
            (Place::Pod("near"), outside),
            (Place::Node("n1"), outside),
            (Place::Client, outside),
        ] {
            expect(lab, from, protocol, target, Outcome::Refused)?;
        }
        Ok(())
    })
}

fn tpol_7_a_nodes_servers_are_not_at_service_addresses(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        for target in [lab.service_address("web", family, OWN)?, lab.ingress("web", family, OWN)?] {
            // A pod of the node whose server it is.
            expect(lab, Place::Pod("web-2"), Protocol::Tcp, target, Outcome::Refused)?;
            expect(lab, Place::Node("n2"), Protocol::Tcp, target, Outcome::Refused)?;
        }
        let _way = Way::by(lab, lab.ingress("web", family, OWN)?.ip(), "n2")?;
        expect(lab, Place::SecondClient, Protocol::Tcp, lab.ingress("web", family, OWN)?, Outcome::Refused)?;
    }
    Ok(())
}

fn tpol_8_node_ports_are_at_node_addresses_alone(lab: &Lab) -> Result<()> {
    each(|family, protocol| {
        let target = lab.ingress(
            "web",
            family,
            node_port(lab, ("web", port(protocol)), "n1", family, protocol)?.port(),
        )?;
        for from in [Place::Client, Place::Pod("near"), Place::Node("n1")] {
            expect(lab, from, protocol, target, Outcome::Refused)?;
        }
        Ok(())
    })
}

fn tpol_11_source_ranges_guard_the_load_balancer_alone(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let balanced = lab.ingress("guarded", family, WEB)?;
        ask_from(lab, Place::Client, Protocol::Tcp, balanced, 5)?;
        expect(lab, Place::SecondClient, Protocol::Tcp, balanced, Outcome::Silent)?;
        let others = [
            node_port(lab, ("guarded", port(Protocol::Tcp)), "n1", family, Protocol::Tcp)?,
            external(["172.30.254.11", "fd00:30:254::11"], family, WEB)?,
        ];
        for target in others {
            ask_from(lab, Place::SecondClient, Protocol::Tcp, target, 5)?;
        }
    }
    Ok(())
}

fn tpol_13_pods_are_guarded_against_too(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let balanced = lab.ingress("guarded", family, WEB)?;
        expect(lab, Place::Pod("near"), Protocol::Tcp, balanced, Outcome::Silent)?;
        let inside = lab.service_address("guarded", family, WEB)?;
        ask_from(lab, Place::Pod("near"), Protocol::Tcp, inside, 5)?;
    }
    Ok(())
}

fn tpol_14_node_ports_are_not_at_loopback(lab: &Lab) -> Result<()> {
    let port = lab.node_port("web", "TCP", WEB)?;
    for loopback in ["127.0.0.1", "::1"] {
        let target = SocketAddr::new(loopback.parse()?, port);
        expect(lab, Place::Node("n1"), Protocol::Tcp, target, Outcome::Refused)?;
    }
    Ok(())
}
