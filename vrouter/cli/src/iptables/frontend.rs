//! What catches packets to a service: at its cluster address, its external addresses and its node port.

use std::net::IpAddr;

use vrouter_objects::ExternalKind;

use super::name::{EXTERNAL_SERVICES, FIREWALL, MARK_MASQ, NODE_PORTS, SERVICES};
use super::rule::Rule;
use super::service_port::ServicePort;
use super::table::{Table, Tables};

pub(super) fn cluster_address(port: &ServicePort, tables: &mut Tables) {
    let policy = port.service.internal_policy;
    let address = port.service.address;
    if let Some(refusal) = port.refusal(policy) {
        let rule = port.to(address, refusal.comment());
        tables.filter.append(SERVICES, refusal.of(rule));
        return;
    }
    let chain = port.policy_chain(policy);
    let to = port.to(address, &format!("{} cluster IP", port.name));
    if let Some(pods) = port.family().pod_prefix(port.node) {
        tables.nat.append(&chain, to.clone().not_from(pods).then(MARK_MASQ));
    }
    tables.nat.append(SERVICES, to.then(chain));
}

pub(super) fn external_addresses(port: &ServicePort, tables: &mut Tables) {
    for external in &port.service.external {
        let is_balanced = external.kind == ExternalKind::LoadBalancer;
        let what = if is_balanced { "loadbalancer IP" } else { "external IP" };
        let chain = if is_balanced && port.has_firewall() {
            let comment = format!("{} traffic not accepted by {}", port.name, port.name.firewall_chain());
            tables.filter.append(FIREWALL, port.to(external.address, &comment).then("DROP"));
            port.name.firewall_chain()
        } else {
            port.name.external_chain()
        };
        if port.scopes.is_usable {
            let rule = port.to(external.address, &format!("{} {what}", port.name));
            tables.nat.append(SERVICES, rule.then(chain));
        }
        if let Some(refusal) = port.refusal(port.service.external_policy) {
            let rule = port.to(external.address, refusal.comment());
            tables.filter.append(EXTERNAL_SERVICES, refusal.of(rule));
        }
    }
}

pub(super) fn node_port(port: &ServicePort, tables: &mut Tables) {
    let Some(number) = port.listener.node_port else { return };
    let protocol = port.name.protocol();
    if port.scopes.is_usable {
        let rule = Rule::new().comment(&port.name).port(protocol, number);
        tables.nat.append(NODE_PORTS, rule.then(port.name.external_chain()));
    }
    if let Some(refusal) = port.refusal(port.service.external_policy) {
        let rule = Rule::new()
            .comment(refusal.comment())
            .matching("addrtype --dst-type LOCAL")
            .port(protocol, number);
        tables.filter.append(EXTERNAL_SERVICES, refusal.of(rule));
    }
}

/// The node answers there, whether it has members or not.
pub(super) fn health_check(port: &ServicePort, filter: &mut Table) {
    if let Some(number) = port.service.health_check_port {
        let comment = format!("{} health check node port", port.name);
        filter.append(NODE_PORTS, Rule::new().comment(comment).port("tcp", number).then("ACCEPT"));
    }
}

/// The addresses that source ranges guard.
pub(super) fn load_balancer_addresses(port: &ServicePort) -> impl Iterator<Item = IpAddr> {
    let external = port.service.external.iter();
    external.filter(|external| external.kind == ExternalKind::LoadBalancer).map(|external| external.address)
}
