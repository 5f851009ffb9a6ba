//! Whole services: against what is written down, and against the kernel.

mod kernel;

use vrouter_objects::MemberState::{Ready, Serving};
use vrouter_objects::{AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, TrafficPolicy};

use super::{Family, rules};
use crate::service::OwnNode;
use crate::service::testing::{ip, listener, member, node, number, service};

/// The rules in which this occurs, in the order of the tables.
fn found(services: &[FloatingIp], node: &OwnNode, family: Family, what: &str) -> Vec<String> {
    let text = rules(services, node, family);
    text.lines().filter(|line| line.starts_with("-A") && line.contains(what)).map(str::to_owned).collect()
}

/// Two pods on two of three nodes.
fn number_crunch() -> FloatingIp {
    let members = vec![member(1, "10.244.1.2", 1, Ready), member(2, "10.244.3.2", 3, Ready)];
    let mut listener = listener("", 80, members);
    listener.node_port = Some(number(32_155));
    service("default/number-crunch", "10.96.17.4", vec![listener])
}

/// With everything that there is.
fn shop() -> FloatingIp {
    let members = || {
        vec![
            member(1, "10.244.1.10", 1, Ready),
            member(2, "10.244.2.9", 2, Ready),
            member(3, "10.244.3.7", 3, Ready),
            member(4, "10.244.1.11", 1, Serving),
        ]
    };
    let mut http = listener("http", 80, members());
    http.node_port = Some(number(30_080));
    let metrics = listener("metrics", 9090, vec![]);
    let mut shop = service("shop/front", "10.96.0.20", vec![http, metrics]);
    let external = |address, kind| ExternalAddress { address: ip(address), kind };
    shop.external = vec![
        external("203.0.113.20", ExternalKind::ExternalIp),
        external("198.51.100.20", ExternalKind::LoadBalancer),
    ];
    shop.external_policy = TrafficPolicy::Local;
    shop.affinity = Some(AffinityTimeout::new(AffinityTimeout::DEFAULT_SECONDS).unwrap());
    shop.source_ranges = vec!["192.0.2.0/24".parse().unwrap(), "172.30.0.0/16".parse().unwrap()];
    shop.health_check_port = Some(number(32_000));
    shop
}

#[test]
fn a_node_port_on_three_nodes() {
    let text = rules(&[number_crunch()], &node(), Family::Ipv4);
    assert_eq!(text, include_str!("golden/number-crunch.iptables"));
}

#[test]
fn a_load_balancer_with_everything() {
    let text = rules(&[shop()], &node(), Family::Ipv4);
    assert_eq!(text, include_str!("golden/shop-front.iptables"));
}

#[test]
fn each_family_has_its_own_services() {
    let six = service("default/six", "fd00:10:96::5", vec![listener("", 80, vec![])]);
    let services = [number_crunch(), six];
    assert!(found(&services, &node(), Family::Ipv4, "default/six").is_empty());
    assert_eq!(
        found(&services, &node(), Family::Ipv6, "default/"),
        [
            "-A KUBE-SERVICES -d fd00:10:96::5/128 -p tcp -m comment --comment \"default/six has no endpoints\" \
          -m tcp --dport 80 -j REJECT --reject-with icmp6-port-unreachable"
        ]
    );
}

#[test]
fn an_internal_policy_that_leads_to_nobody_here_drops() {
    let mut service = number_crunch();
    service.internal_policy = TrafficPolicy::Local;
    service.listeners[0].members.remove(0);
    assert_eq!(
        found(&[service], &node(), Family::Ipv4, "-d 10.96.17.4/32"),
        [
            "-A KUBE-SERVICES -d 10.96.17.4/32 -p tcp -m comment --comment \"default/number-crunch has no local \
          endpoints\" -m tcp --dport 80 -j DROP"
        ]
    );
}

#[test]
fn an_external_policy_that_leads_to_nobody_here_spares_pods_and_the_node() {
    let mut service = number_crunch();
    service.external_policy = TrafficPolicy::Local;
    service.listeners[0].members.remove(0);
    let services = [service];
    assert_eq!(
        found(&services, &node(), Family::Ipv4, "--dport 32155"),
        [
            "-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"default/number-crunch has no local endpoints\" \
             -m addrtype --dst-type LOCAL -m tcp --dport 32155 -j DROP",
            "-A KUBE-NODEPORTS -p tcp -m comment --comment \"default/number-crunch\" -m tcp --dport 32155 \
             -j KUBE-EXT-4QATPDM5IMUWKNZK",
        ]
        .map(str::to_owned)
    );
    let ways = found(&services, &node(), Family::Ipv4, "-A KUBE-EXT-");
    let targets: Vec<_> = ways.iter().filter_map(|rule| rule.rsplit(' ').next()).collect();
    assert_eq!(targets, ["KUBE-SVC-4QATPDM5IMUWKNZK", "KUBE-MARK-MASQ", "KUBE-SVC-4QATPDM5IMUWKNZK"]);
}

#[test]
fn node_ports_are_served_where_they_are_to_be() {
    let last = |node: &OwnNode, family| {
        let rules = found(&[], node, family, "NOTE: this must be the last");
        rules
            .iter()
            .map(|rule| {
                rule.replace(
                    " -m comment --comment \"kubernetes service nodeports; NOTE: this \
            must be the last rule in this chain\"",
                    "",
                )
            })
            .collect::<Vec<_>>()
    };
    let mut node = node();
    let anywhere = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS";
    assert_eq!(last(&node, Family::Ipv4), [format!("-A KUBE-SERVICES ! -d 127.0.0.0/8 {anywhere}")]);
    assert_eq!(last(&node, Family::Ipv6), [format!("-A KUBE-SERVICES ! -d ::1/128 {anywhere}")]);
    node.addresses.extend([ip("10.0.0.1"), ip("127.0.0.1")]);
    node.node_port_addresses = vec!["172.16.0.0/12".parse().unwrap(), "127.0.0.0/8".parse().unwrap()];
    assert_eq!(last(&node, Family::Ipv4), ["-A KUBE-SERVICES -d 172.30.0.1/32 -j KUBE-NODEPORTS"]);
    assert!(last(&node, Family::Ipv6).is_empty());
}
