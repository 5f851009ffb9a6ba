//! The steering as a script for `nft`.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;

use vrouter_objects::VXLAN_PORT;

use super::{NodePort, ServicePort, Steered, TABLE};
use crate::host_path::DEVICE;
use crate::host_path::family::Family;
use crate::host_path::marks::Marks;
use crate::host_path::ports::PortRange;

/// The whole table, in place of any there is.
///
/// What the router alone may have is taken: service ports, and the ports of source translation. What may be its own or the
/// node's is offered: errors and echo replies that may be about packets that the router has translated, and fragments,
/// which do not all say what port they are for. It gives back what it does not know.
///
/// Nothing with a loopback address is sent out of the loopback. What comes from `vhost0` has been there already.
///
/// And it keeps out what must not be, however the kernel is set besides. Pods do not speak in our tunnels, to the node or
/// through it, nor in those that its kernel may take (IP in IP, 6in4 and GRE), nor with what the node keeps to itself. What
/// they give to the node does not come back to the router as the node's. And nobody beyond the node passes for it, as the
/// node's own processes reach its pods whatever policies say.
pub(super) fn whole(steered: &Steered, marks: Marks, source_ports: PortRange) -> String {
    let (taken, offered) = (marks.taken(), marks.offered());
    let mut script = format!(
        "add table {TABLE}
delete table {TABLE}
table {TABLE} {{
	set own4 {{ type ipv4_addr; }}
	set own6 {{ type ipv6_addr; }}
	set node_port_addresses4 {{ type ipv4_addr; }}
	set node_port_addresses6 {{ type ipv6_addr; }}
	set node_ports4 {{ type inet_proto . inet_service; }}
	set node_ports6 {{ type inet_proto . inet_service; }}
	set external4 {{ type ipv4_addr; }}
	set external6 {{ type ipv6_addr; }}
	set external_ports4 {{ type ipv4_addr . inet_proto . inet_service; }}
	set external_ports6 {{ type ipv6_addr . inet_proto . inet_service; }}
	chain take {{
		meta mark set meta mark | {taken:#x}
	}}
	chain offer {{
		meta mark set meta mark | {offered:#x}
	}}
	chain to_own4 {{
		ip frag-off & 0x3fff != 0 goto offer
		icmp type {{ destination-unreachable, time-exceeded, parameter-problem }} goto offer
		icmp type echo-reply icmp id {source_ports} goto offer
		meta l4proto {{ tcp, udp, sctp }} th dport {source_ports} goto take
		ip daddr @node_port_addresses4 meta l4proto . th dport @node_ports4 goto take
		ip daddr . meta l4proto . th dport @external_ports4 goto take
	}}
	chain to_own6 {{
		exthdr frag exists goto offer
		icmpv6 type {{ destination-unreachable, packet-too-big, time-exceeded, parameter-problem }} goto offer
		icmpv6 type echo-reply icmpv6 id {source_ports} goto offer
		meta l4proto {{ tcp, udp, sctp }} th dport {source_ports} goto take
		ip6 daddr @node_port_addresses6 meta l4proto . th dport @node_ports6 goto take
		ip6 daddr . meta l4proto . th dport @external_ports6 goto take
	}}
	chain steer {{
		ip daddr @own4 goto to_own4
		ip6 daddr @own6 goto to_own6
		ip daddr @external4 goto take
		ip6 daddr @external6 goto take
		ip daddr . meta l4proto . th dport @external_ports4 goto take
		ip6 daddr . meta l4proto . th dport @external_ports6 goto take
	}}
	chain from_others {{
		type filter hook prerouting priority -110; policy accept;
		iifname != {{ \"lo\", \"{DEVICE}\" }} goto steer
	}}
	chain from_the_node {{
		type route hook output priority -110; policy accept;
		oifname \"{DEVICE}\" accept
		ip saddr 127.0.0.0/8 accept
		ip6 saddr ::1 accept
		goto steer
	}}
	chain from_pods {{
		udp dport {VXLAN_PORT} counter drop
		ip daddr 127.0.0.0/8 counter drop
	}}
	chain to_the_node {{
		type filter hook input priority filter; policy accept;
		iifname \"{DEVICE}\" meta l4proto {{ 4, 41, 47 }} counter drop
		iifname \"{DEVICE}\" goto from_pods
	}}
	chain through_the_node {{
		type filter hook forward priority filter; policy accept;
		oifname \"{DEVICE}\" ip saddr @own4 counter drop
		oifname \"{DEVICE}\" ip6 saddr @own6 counter drop
		iifname \"{DEVICE}\" oifname \"{DEVICE}\" counter drop
		iifname \"{DEVICE}\" goto from_pods
	}}
}}
"
    );
    script.push_str(&difference(&Steered::default(), steered));
    script
}

/// What makes of one the other.
pub(super) fn difference(from: &Steered, to: &Steered) -> String {
    let mut script = String::new();
    compare(&mut script, "own", &from.own, &to.own);
    compare(&mut script, "node_port_addresses", &from.node_port_addresses, &to.node_port_addresses);
    compare(&mut script, "node_ports", &from.node_ports, &to.node_ports);
    compare(&mut script, "external", &from.external, &to.external);
    compare(&mut script, "external_ports", &from.external_ports, &to.external_ports);
    script
}

/// Something that each family has a set of.
trait Element: Ord + Display {
    fn family(&self) -> Family;
}

impl Element for IpAddr {
    fn family(&self) -> Family {
        Family::of(*self)
    }
}

impl Element for NodePort {
    fn family(&self) -> Family {
        self.family
    }
}

impl Element for ServicePort {
    fn family(&self) -> Family {
        Family::of(self.address)
    }
}

fn compare<T: Element>(script: &mut String, set: &str, from: &BTreeSet<T>, to: &BTreeSet<T>) {
    change(script, "delete", set, from.difference(to));
    change(script, "add", set, to.difference(from));
}

fn change<'a, T: Element + 'a>(
    script: &mut String,
    verb: &str,
    set: &str,
    elements: impl Iterator<Item = &'a T>,
) {
    let (v4, v6): (Vec<_>, Vec<_>) = elements.partition(|element| element.family() == Family::V4);
    for (family, elements) in [(4, v4), (6, v6)] {
        let elements: Vec<_> = elements.iter().map(ToString::to_string).collect();
        if !elements.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(script, "{verb} element {TABLE} {set}{family} {{ {} }}", elements.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Port, ServiceProtocol};

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn node_port(family: Family, port: i64) -> NodePort {
        NodePort { family, protocol: ServiceProtocol::Tcp, port: Port::new(port).unwrap() }
    }

    fn steered() -> Steered {
        let at =
            |address, protocol| ServicePort { address: ip(address), protocol, port: Port::new(53).unwrap() };
        Steered {
            own: ["10.0.0.1", "fd00::1"].map(ip).into(),
            node_port_addresses: ["10.0.0.1"].map(ip).into(),
            node_ports: [node_port(Family::V4, 30_080), node_port(Family::V6, 30_081)].into(),
            external: ["203.0.113.7"].map(ip).into(),
            external_ports: [at("10.0.0.1", ServiceProtocol::Udp), at("fd00::1", ServiceProtocol::Sctp)]
                .into(),
        }
    }

    fn lines(script: &str) -> Vec<&str> {
        script.lines().filter(|line| line.contains(" element ")).collect()
    }

    #[test]
    fn the_whole_table_takes_the_place_of_any_there_is() {
        let script = whole(&steered(), Marks::DEFAULT, PortRange::SOURCE_PORTS);
        assert!(script.starts_with("add table inet vrouter_host\ndelete table inet vrouter_host\ntable "));
        assert_eq!(
            lines(&script),
            [
                "add element inet vrouter_host own4 { 10.0.0.1 }",
                "add element inet vrouter_host own6 { fd00::1 }",
                "add element inet vrouter_host node_port_addresses4 { 10.0.0.1 }",
                "add element inet vrouter_host node_ports4 { 6 . 30080 }",
                "add element inet vrouter_host node_ports6 { 6 . 30081 }",
                "add element inet vrouter_host external4 { 203.0.113.7 }",
                "add element inet vrouter_host external_ports4 { 10.0.0.1 . 17 . 53 }",
                "add element inet vrouter_host external_ports6 { fd00::1 . 132 . 53 }",
            ]
        );
        for rule in [
            "meta mark set meta mark | 0x30000000",
            "meta l4proto { tcp, udp, sctp } th dport 61000-65535 goto take",
            "icmp type echo-reply icmp id 61000-65535 goto offer",
            "iifname != { \"lo\", \"vhost0\" } goto steer",
        ] {
            assert!(script.contains(rule), "{script}");
        }
    }

    #[test]
    fn tpol_17_the_same_node_port_is_another_in_each_family() {
        let both = Steered {
            node_ports: Family::ALL.map(|family| node_port(family, 8443)).into(),
            ..Steered::default()
        };
        assert_eq!(
            lines(&difference(&Steered::default(), &both)),
            [
                "add element inet vrouter_host node_ports4 { 6 . 8443 }",
                "add element inet vrouter_host node_ports6 { 6 . 8443 }",
            ]
        );
    }

    #[test]
    fn only_what_changed_is_written() {
        let before = steered();
        assert_eq!(difference(&before, &before), "");
        let mut after = before.clone();
        after.node_ports.remove(&node_port(Family::V4, 30_080));
        after.node_ports.insert(node_port(Family::V4, 30_090));
        after.external.clear();
        assert_eq!(
            lines(&difference(&before, &after)),
            [
                "delete element inet vrouter_host node_ports4 { 6 . 30080 }",
                "add element inet vrouter_host node_ports4 { 6 . 30090 }",
                "delete element inet vrouter_host external4 { 203.0.113.7 }",
            ]
        );
    }
}
