//! Network policy between the measured pods: several policies select each of them, and the last one that is asked admits what
//! is measured. Whatever else there is speaks of others.

use std::fmt::Write;
use std::net::Ipv4Addr;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::service::ServerPort;

/// Whether policies select the measured pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// None does.
    #[default]
    Off,
    /// Several do.
    On,
}

/// What admits somebody else: the names of apps that nobody is, and of the ports that these have.
const OTHERS: [(&str, u16); 3] = [("database", 5432), ("cache", 6379), ("mailer", 2525)];
/// What admits a network beyond, save a part of it.
const BEYOND: (&str, &str) = ("198.51.100.0/24", "198.51.100.128/25");

const PORTS: [ServerPort; 3] = [ServerPort::Iperf, ServerPort::PingPong, ServerPort::Http];

impl Policy {
    /// As the option says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

/// NetworkPolicies for a client's and its servers' pods, which are told by their label `app`.
pub fn manifests(client: &str, server: &str) -> Vec<Value> {
    let mut policies = vec![policy("closed-by-default", json!({}), Value::Null, Value::Null)];
    for (app, port) in OTHERS {
        let rule = |peers: &str| json!([{peers: [of_app(app)], "ports": [{"port": port}]}]);
        policies.push(policy(app, json!({}), rule("from"), rule("to")));
    }
    let (cidr, except) = BEYOND;
    let beyond = |peers: &str| json!([{peers: [{"ipBlock": {"cidr": cidr, "except": [except]}}]}]);
    policies.push(policy("network-beyond", json!({}), beyond("from"), beyond("to")));
    let ports: Vec<_> = PORTS
        .iter()
        .flat_map(|port| ["TCP", "UDP"].map(|protocol| json!({"port": port.number(), "protocol": protocol})))
        .collect();
    let between = |peers: &str, app: &str| json!([{peers: [of_app(app)], "ports": ports}]);
    policies.push(policy("servers", selector(server), between("from", client), Value::Null));
    policies.push(policy("client", selector(client), Value::Null, between("to", server)));
    policies
}

/// `null` where it says nothing of a direction besides isolating it.
fn policy(name: &str, selector: Value, ingress: Value, egress: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    })
}

fn selector(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

fn of_app(app: &str) -> Value {
    json!({"podSelector": selector(app)})
}

/// The same for Linux: sets of addresses, and chains that a connection's first packet goes through once it is translated.
pub fn nftables(client: Ipv4Addr, servers: &[Ipv4Addr]) -> String {
    let list =
        |addresses: &[Ipv4Addr]| addresses.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(", ");
    let ports: Vec<_> = PORTS.iter().map(|port| port.number().to_string()).collect();
    let (client, servers, ports) = (list(&[client]), list(servers), ports.join(", "));
    let mut rules = format!(
        "table ip network-policy {{
         set client {{ type ipv4_addr; elements = {{ {client} }}; }}
         set servers {{ type ipv4_addr; elements = {{ {servers} }}; }}
         chain forward {{
             type filter hook forward priority 10;
             ct state established,related accept
             ip saddr @client jump egress
             ip saddr @servers jump egress
             ip daddr @client jump ingress
             ip daddr @servers jump ingress
         }}
         "
    );
    for (app, _) in OTHERS {
        push(&mut rules, format_args!("set {app} {{ type ipv4_addr; }}"));
    }
    for (chain, address, from, to) in
        [("egress", "daddr", "saddr", "daddr"), ("ingress", "saddr", "saddr", "daddr")]
    {
        push(&mut rules, format_args!("chain {chain} {{"));
        for (app, port) in OTHERS {
            push(&mut rules, format_args!("ip {address} @{app} tcp dport {port} return"));
        }
        let (cidr, except) = BEYOND;
        push(&mut rules, format_args!("ip {address} {cidr} ip {address} != {except} return"));
        push(
            &mut rules,
            format_args!(
                "ip {from} @client ip {to} @servers meta l4proto {{ tcp, udp }} th dport {{ {ports} }} return"
            ),
        );
        push(&mut rules, format_args!("drop\n}}"));
    }
    rules.push('}');
    rules
}

/// One line more.
fn push(rules: &mut String, line: std::fmt::Arguments) {
    writeln!(rules, "{line}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measured_pod_has_several_policies_and_one_that_admits() {
        let policies = manifests("client", "server");
        let spec = |policy: &Value, field: &str| policy["spec"][field].to_string();
        let of_all = policies.iter().filter(|policy| spec(policy, "podSelector") == "{}").count();
        assert_eq!((policies.len(), of_all), (7, 5));
        let admitting =
            policies.iter().filter(|policy| spec(policy, "ingress").contains("\"client\"")).count();
        assert_eq!(admitting, 1);
        assert!(policies.iter().all(|policy| policy["spec"]["policyTypes"] == json!(["Ingress", "Egress"])));
    }

    #[test]
    fn the_rules_are_whole() {
        let rules = nftables(
            Ipv4Addr::new(10, 244, 1, 2),
            &[Ipv4Addr::new(10, 244, 2, 2), Ipv4Addr::new(10, 244, 2, 3)],
        );
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
        assert!(rules.contains("elements = { 10.244.2.2, 10.244.2.3 }"));
        assert!(rules.contains("th dport { 5201, 11111, 8080 } return"));
    }
}
