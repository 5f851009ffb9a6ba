//! Frontends as chains, in the form that iptables-restore reads.

use std::net::IpAddr;

use vrouter_tests::lab::Family;

use super::endpoints::Usable;
use super::frontend::{Endpoint, Frontend, Policy, frontends};
use super::table::Table;
use crate::objects::Objects;
use crate::place::{NodePortAddresses, OWN, family_of, pod_prefix};

const SERVICES: &str = "KUBE-SERVICES";
const NODE_PORTS: &str = "KUBE-NODEPORTS";
const POSTROUTING: &str = "KUBE-POSTROUTING";
const MASQUERADE: &str = "KUBE-MARK-MASQ";
const EXTERNAL: &str = "KUBE-EXTERNAL-SERVICES";
const FIREWALL: &str = "KUBE-PROXY-FIREWALL";
const FORWARD: &str = "KUBE-FORWARD";

/// The rules of the own node for these objects.
pub fn rules(objects: &Objects, node_ports: NodePortAddresses, family: Family) -> String {
    let mut rules = Rules { nat: Table::new("nat"), filter: Table::new("filter") };
    rules.frame();
    for frontend in frontends(objects, family) {
        rules.frontend(&frontend);
    }
    rules.node_ports(node_ports, family);
    format!("{}{}", rules.filter, rules.nat)
}

#[derive(Debug)]
struct Rules {
    nat: Table,
    filter: Table,
}

/// Where a policy leads on this node.
#[derive(Debug)]
enum Lead {
    Chain(String),
    /// Somebody elsewhere would answer.
    Drop,
    /// Nobody anywhere would.
    Reject,
}

impl Lead {
    fn of(policy: Policy, frontend: &Frontend, usable: &Usable) -> Self {
        match policy {
            _ if !usable.anywhere => Self::Reject,
            Policy::Local if usable.local.is_empty() => Self::Drop,
            Policy::Local => Self::Chain(chain("SVL", frontend)),
            Policy::Cluster => Self::Chain(chain("SVC", frontend)),
        }
    }

    /// What the filter does; `None`: the packet was translated.
    fn filter(&self) -> Option<&'static str> {
        match self {
            Self::Chain(_) => None,
            Self::Drop => Some("DROP"),
            Self::Reject => Some("REJECT"),
        }
    }
}

impl Rules {
    /// What is there without any service.
    fn frame(&mut self) {
        let nat = &mut self.nat;
        [SERVICES, NODE_PORTS, POSTROUTING, MASQUERADE].into_iter().for_each(|chain| nat.chain(chain));
        nat.rule("PREROUTING", &format!("-j {SERVICES}"));
        nat.rule("OUTPUT", &format!("-j {SERVICES}"));
        nat.rule("POSTROUTING", &format!("-j {POSTROUTING}"));
        nat.rule(POSTROUTING, "-m mark ! --mark 0x4000/0x4000 -j RETURN");
        nat.rule(POSTROUTING, "-j MARK --xor-mark 0x4000");
        nat.rule(POSTROUTING, "-j MASQUERADE --random-fully");
        nat.rule(MASQUERADE, "-j MARK --or-mark 0x4000");
        let filter = &mut self.filter;
        [SERVICES, EXTERNAL, FIREWALL, FORWARD].into_iter().for_each(|chain| filter.chain(chain));
        let new = "-m conntrack --ctstate NEW -j";
        filter.rule("INPUT", &format!("{new} {FIREWALL}"));
        filter.rule("INPUT", &format!("{new} {EXTERNAL}"));
        filter.rule("FORWARD", &format!("{new} {FIREWALL}"));
        filter.rule("FORWARD", &format!("-j {FORWARD}"));
        filter.rule("FORWARD", &format!("{new} {SERVICES}"));
        filter.rule("FORWARD", &format!("{new} {EXTERNAL}"));
        filter.rule("OUTPUT", &format!("{new} {FIREWALL}"));
        filter.rule("OUTPUT", &format!("{new} {SERVICES}"));
        filter.rule(FORWARD, "-m conntrack --ctstate INVALID -j DROP");
        filter.rule(FORWARD, "-m mark --mark 0x4000/0x4000 -j ACCEPT");
        filter.rule(FORWARD, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
    }

    /// Node ports come last.
    fn node_ports(&mut self, at: NodePortAddresses, family: Family) {
        self.nat.comment("node ports");
        let own = OWN.addresses(family).into_iter().filter(|address| at.include(*address));
        let matched = match at {
            NodePortAddresses::All if family == Family::V4 => vec!["-m addrtype --dst-type LOCAL".to_owned()],
            NodePortAddresses::All => vec!["-m addrtype --dst-type LOCAL ! -d ::1/128".to_owned()],
            NodePortAddresses::First => own.map(|address| format!("-d {address}")).collect(),
        };
        for matched in matched {
            self.nat.rule(SERVICES, &format!("{matched} -j {NODE_PORTS}"));
        }
    }

    fn frontend(&mut self, frontend: &Frontend) {
        self.nat.comment(&frontend.name);
        self.filter.comment(&frontend.name);
        let usable = Usable::of(frontend);
        self.cluster_ip(frontend, &Lead::of(frontend.internal, frontend, &usable));
        if frontend.is_external() {
            let lead = Lead::of(frontend.external, frontend, &usable);
            self.external(frontend, &lead);
            self.filter_external(frontend, &lead);
        }
        self.balance(frontend, &chain("SVC", frontend), &usable.cluster);
        self.balance(frontend, &chain("SVL", frontend), &usable.local);
        for endpoint in usable.all() {
            self.endpoint(frontend, endpoint);
        }
    }

    fn cluster_ip(&mut self, frontend: &Frontend, lead: &Lead) {
        let matched = to(frontend, frontend.cluster_ip);
        match lead {
            Lead::Chain(chain) => {
                self.nat.rule(SERVICES, &format!("{matched} -j {chain}"));
                // Who is no pod may not be able to take the answer but from this node.
                let pods = pod_prefix(family_of(frontend.cluster_ip));
                self.nat.rule(chain, &format!("{matched} ! -s {pods} -j {MASQUERADE}"));
            }
            Lead::Drop => self.filter.rule(SERVICES, &format!("{matched} -j DROP")),
            Lead::Reject => self.filter.rule(SERVICES, &format!("{matched} -j REJECT")),
        }
    }

    /// External destinations meet in one chain, which knows who is of the cluster.
    fn external(&mut self, frontend: &Frontend, lead: &Lead) {
        if matches!(lead, Lead::Reject) {
            return;
        }
        let external = chain("EXT", frontend);
        self.nat.chain(&external);
        for &address in &frontend.external_ips {
            self.nat.rule(SERVICES, &format!("{} -j {external}", to(frontend, address)));
        }
        self.load_balancer(frontend, &external);
        if let Some(port) = frontend.node_port {
            self.nat.rule(NODE_PORTS, &format!("{} -j {external}", at(frontend, port)));
        }
        match frontend.external {
            Policy::Cluster => self.nat.rule(&external, &format!("-j {MASQUERADE}")),
            Policy::Local => {
                let (all, pods) = (chain("SVC", frontend), pod_prefix(family_of(frontend.cluster_ip)));
                self.nat.rule(&external, &format!("-s {pods} -j {all}"));
                self.nat.rule(&external, &format!("-m addrtype --src-type LOCAL -j {MASQUERADE}"));
                self.nat.rule(&external, &format!("-m addrtype --src-type LOCAL -j {all}"));
            }
        }
        if let Lead::Chain(chain) = lead {
            self.nat.rule(&external, &format!("-j {chain}"));
        }
    }

    /// What source ranges keep out is not translated, and so meets the filter.
    fn load_balancer(&mut self, frontend: &Frontend, external: &str) {
        let is_open = frontend.source_ranges.is_empty();
        let firewall = chain("FW", frontend);
        let target = if is_open { external } else { &firewall };
        for &address in &frontend.load_balancer_ips {
            let matched = to(frontend, address);
            self.nat.rule(SERVICES, &format!("{matched} -j {target}"));
            if !is_open {
                self.filter.rule(FIREWALL, &format!("{matched} -j DROP"));
            }
        }
        if is_open || frontend.load_balancer_ips.is_empty() {
            return;
        }
        self.nat.chain(&firewall);
        for range in &frontend.source_ranges {
            self.nat.rule(&firewall, &format!("-s {range} -j {external}"));
        }
        // Where the node itself is allowed, what it sends to the address may bear that as its source.
        if frontend.source_ranges.iter().any(|range| contains_node(range, frontend)) {
            for address in &frontend.load_balancer_ips {
                self.nat.rule(&firewall, &format!("-s {address} -j {external}"));
            }
        }
    }

    fn filter_external(&mut self, frontend: &Frontend, lead: &Lead) {
        let Some(target) = lead.filter() else { return };
        for &address in frontend.external_ips.iter().chain(&frontend.load_balancer_ips) {
            self.filter.rule(EXTERNAL, &format!("{} -j {target}", to(frontend, address)));
        }
        if let Some(port) = frontend.node_port {
            let matched = at(frontend, port);
            self.filter.rule(EXTERNAL, &format!("-m addrtype --dst-type LOCAL {matched} -j {target}"));
        }
    }

    /// One of the endpoints: the client's last one where there is affinity, else any.
    fn balance(&mut self, frontend: &Frontend, name: &str, endpoints: &[Endpoint]) {
        if endpoints.is_empty() {
            return;
        }
        self.nat.chain(name);
        for endpoint in endpoints {
            if let Some(seconds) = frontend.affinity {
                let chain = endpoint_chain(frontend, endpoint);
                let recent = format!("-m recent --name {chain} --rcheck --seconds {seconds} --reap");
                self.nat.rule(name, &format!("{recent} -j {chain}"));
            }
        }
        for (number, endpoint) in endpoints.iter().enumerate() {
            let chain = endpoint_chain(frontend, endpoint);
            let left = endpoints.len() - number;
            if left == 1 {
                self.nat.rule(name, &format!("-j {chain}"));
            } else {
                let share = format!("{:.10}", 1.0 / left as f64);
                let chance = format!("-m statistic --mode random --probability {share}");
                self.nat.rule(name, &format!("{chance} -j {chain}"));
            }
        }
    }

    fn endpoint(&mut self, frontend: &Frontend, endpoint: &Endpoint) {
        let chain = endpoint_chain(frontend, endpoint);
        let Endpoint { address, .. } = endpoint;
        self.nat.chain(&chain);
        // One that reaches itself must not see its own address as the source.
        self.nat.rule(&chain, &format!("-s {} -j {MASQUERADE}", address.ip()));
        let remember = match frontend.affinity {
            Some(_) => format!("-m recent --name {chain} --set "),
            None => String::new(),
        };
        let protocol = &frontend.protocol;
        let words = format!("{remember}-m {protocol} -p {protocol} -j DNAT --to-destination {address}");
        self.nat.rule(&chain, &words);
    }
}

fn chain(kind: &str, frontend: &Frontend) -> String {
    format!("KUBE-{kind}-{}", frontend.id)
}

fn endpoint_chain(frontend: &Frontend, endpoint: &Endpoint) -> String {
    let number = frontend.endpoints.iter().position(|other| other.address == endpoint.address);
    format!("{}E{}", chain("SEP", frontend), number.unwrap_or_default())
}

/// Matches what is to an address at the frontend's port.
fn to(frontend: &Frontend, address: IpAddr) -> String {
    let Frontend { protocol, port, .. } = frontend;
    format!("-m {protocol} -p {protocol} -d {address} --dport {port}")
}

/// Matches what is to a port of any address.
fn at(frontend: &Frontend, port: i32) -> String {
    let protocol = &frontend.protocol;
    format!("-m {protocol} -p {protocol} --dport {port}")
}

fn contains_node(range: &str, frontend: &Frontend) -> bool {
    let node = OWN.address(family_of(frontend.cluster_ip));
    range.parse::<ipnet::IpNet>().is_ok_and(|range| range.contains(&node))
}
