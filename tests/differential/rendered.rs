//! The rules that `vrctl services --as-iptables` shows of the node's tables.

use vrctl::service::OwnNode;
use vrouter_objects::{IpNet, Object};
use vrouter_tests::lab::Family;

use crate::control::Tables;
use crate::kernel::Ruleset;
use crate::place::{NodePortAddresses, OWN, by_family, pod_prefix};

/// The rules of both families.
pub fn ruleset(tables: &Tables, node_ports: NodePortAddresses) -> anyhow::Result<Ruleset> {
    let node = own_node(tables, node_ports)?;
    let services = || {
        tables.values().filter_map(|object| match object {
            Object::FloatingIp(service) => Some(service),
            _ => None,
        })
    };
    let rules = |family| vrctl::iptables::rules(services(), &node, family);
    let [v4, v6] = Family::BOTH
        .map(|family| rules(by_family(family, vrctl::iptables::Family::Ipv4, vrctl::iptables::Family::Ipv6)));
    Ok(Ruleset { v4, v6 })
}

fn own_node(tables: &Tables, node_ports: NodePortAddresses) -> anyhow::Result<OwnNode> {
    let own = tables.values().find_map(|object| match object {
        Object::VirtualRouter(router) if router.name == OWN.name() => Some(router.id),
        _ => None,
    });
    let prefixes = Family::BOTH.into_iter().map(|family| pod_prefix(family).parse::<IpNet>());
    Ok(OwnNode {
        router: own,
        zone: OWN.zone.to_owned(),
        addresses: Family::BOTH.into_iter().flat_map(|family| OWN.addresses(family)).collect(),
        node_port_addresses: node_ports.prefixes(),
        pod_prefixes: prefixes.collect::<Result<_, _>>()?,
    })
}
