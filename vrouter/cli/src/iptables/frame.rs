//! What is there whatever services there are: the way into kube-proxy's chains, and what becomes of marked packets.

use super::Family;
use super::name::{EXTERNAL_SERVICES, FIREWALL, FORWARD, MARK_MASQ, NODE_PORTS, POSTROUTING, SERVICES};
use super::rule::Rule;
use super::table::{Table, Tables};
use crate::service::OwnNode;

/// Only the first packet of a connection looks.
const NEW: &str = "conntrack --ctstate NEW";
/// Of who is to be answered by way of this node.
const MARK: &str = "0x4000";

/// Everything that comes before services.
pub(super) fn begin(tables: &mut Tables) {
    let filter = &mut tables.filter;
    for chain in [SERVICES, EXTERNAL_SERVICES, FORWARD, NODE_PORTS, FIREWALL] {
        filter.chain(chain);
    }
    for hook in ["INPUT", "FORWARD", "OUTPUT"] {
        filter.append(hook, new(FIREWALL, "kubernetes load balancer firewall"));
    }
    jump(filter, "INPUT", NODE_PORTS, "kubernetes health check service ports");
    jump(filter, "FORWARD", FORWARD, "kubernetes forwarding rules");
    for hook in ["FORWARD", "OUTPUT"] {
        filter.append(hook, new(SERVICES, "kubernetes service portals"));
    }
    for hook in ["INPUT", "FORWARD"] {
        filter.append(hook, new(EXTERNAL_SERVICES, "kubernetes externally-visible service portals"));
    }
    forwarding(filter);

    let nat = &mut tables.nat;
    for chain in [SERVICES, NODE_PORTS] {
        nat.chain(chain);
    }
    for hook in ["PREROUTING", "OUTPUT"] {
        jump(nat, hook, SERVICES, "kubernetes service portals");
    }
    jump(nat, "POSTROUTING", POSTROUTING, "kubernetes postrouting rules");
    masquerading(nat);
}

/// Everything that comes after them: node ports are looked for last.
pub(super) fn end(tables: &mut Tables, node: &OwnNode, family: Family) {
    let last =
        |to: Rule| to.comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain");
    if node.node_port_addresses.is_empty() {
        let rule = last(Rule::new().not_to(family.loopback())).matching("addrtype --dst-type LOCAL");
        tables.nat.append(SERVICES, rule.then(NODE_PORTS));
        return;
    }
    for address in &node.addresses {
        if Family::of(*address) == family && node.serves_node_ports_at(*address) {
            tables.nat.append(SERVICES, last(Rule::new().to(*address)).then(NODE_PORTS));
        }
    }
}

fn jump(table: &mut Table, hook: &str, chain: &str, comment: &str) {
    table.append(hook, Rule::new().comment(comment).then(chain));
}

fn new(chain: &str, comment: &str) -> Rule {
    Rule::new().matching(NEW).comment(comment).then(chain)
}

fn forwarding(filter: &mut Table) {
    let marked = format!("mark --mark {MARK}/{MARK}");
    for rule in [
        Rule::new().matching("conntrack --ctstate INVALID").then("DROP"),
        Rule::new().comment("kubernetes forwarding rules").matching(marked).then("ACCEPT"),
        Rule::new()
            .comment("kubernetes forwarding conntrack rule")
            .matching("conntrack --ctstate RELATED,ESTABLISHED")
            .then("ACCEPT"),
    ] {
        filter.append(FORWARD, rule);
    }
}

fn masquerading(nat: &mut Table) {
    nat.append(MARK_MASQ, Rule::new().then(format!("MARK --set-xmark {MARK}/{MARK}")));
    for rule in [
        Rule::new().matching(format!("mark ! --mark {MARK}/{MARK}")).then("RETURN"),
        // The mark is taken off again.
        Rule::new().then(format!("MARK --set-xmark {MARK}/0x0")),
        Rule::new().comment("kubernetes service traffic requiring SNAT").then("MASQUERADE --random-fully"),
    ] {
        nat.append(POSTROUTING, rule);
    }
}
