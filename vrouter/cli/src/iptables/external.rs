//! What packets to external addresses and node ports pass on their way to the members.

use ipnet::IpNet;
use vrouter_objects::TrafficPolicy;

use super::Family;
use super::frontend::load_balancer_addresses;
use super::name::MARK_MASQ;
use super::rule::Rule;
use super::service_port::ServicePort;
use super::table::Table;

/// From this node itself.
const FROM_HERE: &str = "addrtype --src-type LOCAL";

/// Who comes from outside gets the members that the policy allows; pods and the node itself get those of all the
/// cluster.
pub(super) fn destinations(port: &ServicePort, nat: &mut Table) {
    let chain = port.name.external_chain();
    let all = port.name.cluster_chain();
    let about = |what: &str| Rule::new().comment(format!("{what} for {} external destinations", port.name));
    let policy = port.service.external_policy;
    match policy {
        // The answer must come back by this node, whichever the member is on.
        TrafficPolicy::Cluster => nat.append(&chain, about("masquerade traffic").then(MARK_MASQ)),
        TrafficPolicy::Local => {
            if let Some(pods) = port.family().pod_prefix(port.node) {
                nat.append(&chain, about("pod traffic").from(pods).then(&all));
            }
            nat.append(&chain, about("masquerade LOCAL traffic").matching(FROM_HERE).then(MARK_MASQ));
            nat.append(&chain, about("route LOCAL traffic").matching(FROM_HERE).then(&all));
        }
    }
    if port.refusal(policy).is_none() {
        nat.append(&chain, Rule::new().then(port.policy_chain(policy)));
    }
}

/// Only who comes from a source range goes on. The node reaches a load balancer's address that is its own from that
/// address.
pub(super) fn firewall(port: &ServicePort, nat: &mut Table) {
    let chain = port.name.firewall_chain();
    let on = |from: IpNet| {
        let rule = Rule::new().from(from).comment(format!("{} loadbalancer IP", port.name));
        rule.then(port.name.external_chain())
    };
    let ranges = &port.service.source_ranges;
    for range in ranges {
        nat.append(&chain, on(*range));
    }
    let own = port.node.addresses.iter().find(|address| Family::of(**address) == port.family());
    if own.is_some_and(|own| ranges.iter().any(|range| range.contains(own))) {
        for address in load_balancer_addresses(port) {
            nat.append(&chain, on(address.into()));
        }
    }
    let rest = format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", port.name);
    nat.append(&chain, Rule::new().comment(rest));
}
