//! A policy, for people.

use serde::Serialize;

use super::document::{Direction, Document, PeerOf, Pod, PortOf, Rule, Used, Which};
use crate::output::{Row, fact, lines, table};
use crate::policy::MissingPolicy;
use crate::words::{counted, or_dash};

/// All of them, one after the other, and what is missing.
pub(super) fn all(documents: &[Document], missing: &[MissingPolicy]) -> String {
    if documents.is_empty() && missing.is_empty() {
        return "No policy selects a pod of this node.".to_owned();
    }
    documents.iter().map(text).chain(missing.iter().map(self::missing)).collect::<Vec<_>>().join("\n\n\n")
}

/// A policy as text: what is said of it as a whole, and a table for each direction that it governs.
fn text(document: &Document) -> String {
    let directions = [("egress", &document.egress), ("ingress", &document.ingress)];
    let facts = [
        fact("policy", format!("{}, id {}", document.name, document.id)),
        fact("tier", tier(document)),
        fact("pods", or_dash(document.pods.iter().map(pod).collect::<Vec<_>>().join(", "))),
    ];
    let directions = directions.map(|(name, governed)| match governed {
        None => format!("{name}: not governed"),
        Some(governed) => direction(name, governed, document),
    });
    [&[lines(&facts)][..], &directions].concat().join("\n\n")
}

fn missing(missing: &MissingPolicy) -> String {
    let pods: Vec<_> = missing.pods.iter().map(|selected| selected.pod.to_string()).collect();
    lines(&[
        fact("policy", format!("id {}, not held: everything is denied", missing.id)),
        fact("pods", pods.join(", ")),
    ])
}

fn tier(document: &Document) -> String {
    match document.priority {
        Some(priority) => format!("{}, priority {priority}", document.tier),
        None => document.tier.to_owned(),
    }
}

fn pod(pod: &Pod) -> String {
    let ports = pod.ports.iter().map(|port| format!("{} = {} {}", port.name, port.protocol, port.port));
    let ports: Vec<_> = ports.collect();
    if ports.is_empty() { pod.name.clone() } else { format!("{} ({})", pod.name, ports.join(", ")) }
}

fn direction(name: &str, direction: &Direction, document: &Document) -> String {
    let rest = match document.priority {
        Some(_) => "what no rule matches goes on to the next tier".to_owned(),
        None => format!("{} dropped that no rule lets pass", counted(direction.unmatched, "packet")),
    };
    if direction.rules.is_empty() {
        return format!("{name}: no rule; {rest}");
    }
    let rules = direction.rules.iter().map(RuleLine).collect::<Vec<_>>();
    format!("{name}: {rest}\n\n{}", table(&rules))
}

/// A rule as a line.
#[derive(Serialize)]
#[serde(transparent)]
struct RuleLine<'a>(&'a Rule);

impl Row for RuleLine<'_> {
    const HEADINGS: &'static [&'static str] = &["RULE", "ACTION", "PEERS", "PORTS", "USED"];

    fn cells(&self) -> Vec<String> {
        let Self(rule) = self;
        vec![
            rule.name.clone(),
            rule.action.clone(),
            rule.peers.as_ref().map_or_else(|| "anybody".to_owned(), |peers| peers_of(peers)),
            rule.ports.as_ref().map_or_else(|| "all".to_owned(), |ports| ports_of(ports)),
            match rule.used {
                Used::Flows(count) => counted(count, "flow"),
                Used::Packets(count) => counted(count, "packet"),
            },
        ]
    }
}

fn peers_of(peers: &[PeerOf]) -> String {
    if peers.is_empty() { "nobody".to_owned() } else { peers.iter().map(peer).collect::<Vec<_>>().join("; ") }
}

fn peer(peer: &PeerOf) -> String {
    match peer {
        PeerOf::Set { name: Some(name), addresses, .. } => {
            format!("{name} ({})", counted(u64::from(*addresses), "address"))
        }
        PeerOf::Set { id, name: None, .. } => format!("nobody: peer set {id} is not held"),
        PeerOf::Block { prefix, except } if except.is_empty() => prefix.to_string(),
        PeerOf::Block { prefix, except } => {
            let except: Vec<_> = except.iter().map(ToString::to_string).collect();
            format!("{prefix} except {}", except.join(", "))
        }
    }
}

fn ports_of(ports: &[PortOf]) -> String {
    if ports.is_empty() { "none".to_owned() } else { ports.iter().map(port).collect::<Vec<_>>().join(", ") }
}

fn port(PortOf { protocol, which }: &PortOf) -> String {
    match which {
        Which::Range { first: 0 | 1, last: u16::MAX } => format!("{protocol} all"),
        Which::Range { first, last } if first == last => format!("{protocol} {first}"),
        Which::Range { first, last } => format!("{protocol} {first}-{last}"),
        Which::Own(name) => format!("{protocol} {name}"),
        Which::Peer => format!("{protocol} as the peer names it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyView;
    use crate::policy::testing::view;

    fn documents(view: &PolicyView) -> Vec<Document> {
        view.policies.iter().map(|held| Document::of(held, &view.sets)).collect()
    }

    #[test]
    fn policies_are_told_rule_by_rule() {
        let view = view();
        let expected = "\
policy: NetworkPolicy shop/front, id 7
tier:   namespace
pods:   shop/web (http = TCP 8080), shop/api

egress: no rule; 1 packet dropped that no rule lets pass

ingress: 4 packets dropped that no rule lets pass

RULE        ACTION  PEERS                                                                                     PORTS                                     USED
ingress[0]  allow   pods app=web in namespace shop (3 addresses); 10.0.0.0/8 except 10.1.0.0/16, 10.2.0.0/16  TCP http, TCP 8000-8100, UDP 53, UDP all  12 flows
ingress[1]  allow   nobody: peer set 9 is not held                                                            all                                       1 flow
ingress[2]  allow   nobody                                                                                    none                                      0 flows


policy: ClusterNetworkPolicy last-word, id 8
tier:   baseline, priority 20
pods:   -

egress: what no rule matches goes on to the next tier

RULE      ACTION  PEERS                                         PORTS                     USED
database  pass    pods app=web in namespace shop (3 addresses)  TCP as the peer names it  1 flow
rest      deny    anybody                                       all                       70 packets

ingress: not governed


policy: id 11, not held: everything is denied
pods:   shop/api";
        assert_eq!(all(&documents(&view), &view.missing), expected);
        assert_eq!(all(&[], &[]), "No policy selects a pod of this node.");
    }

    #[test]
    fn documents_tell_everybody_from_nobody_and_flows_from_packets() {
        let view = view();
        let document = serde_json::to_value(documents(&view)).unwrap();
        let ingress = &document[0]["ingress"]["rules"];
        assert_eq!(ingress[0]["peers"][0]["set"]["addresses"], 3);
        assert_eq!(ingress[0]["peers"][1]["block"]["except"][1], "10.2.0.0/16");
        assert_eq!(ingress[0]["ports"][0], serde_json::json!({ "protocol": "TCP", "own": "http" }));
        assert_eq!(ingress[0]["ports"][2]["range"]["first"], 53);
        assert_eq!(ingress[2]["peers"], serde_json::json!([]));
        assert_eq!(ingress[0]["used"], serde_json::json!({ "flows": 12 }));
        let egress = &document[1]["egress"]["rules"];
        assert_eq!(
            (&egress[1]["peers"], &egress[1]["ports"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!(egress[1]["used"], serde_json::json!({ "packets": 70 }));
        assert_eq!(document[1]["ingress"], serde_json::Value::Null);
    }

    #[test]
    fn a_policy_is_found_with_its_kind_and_without() {
        for name in ["shop/front", "NetworkPolicy shop/front"] {
            let found = view().only(name).unwrap();
            assert_eq!((found.policies.len(), found.missing.len()), (1, 0), "{name}");
        }
        let error = view().only("shop/fornt").unwrap_err().to_string();
        assert_eq!(error, "this node holds no policy \"shop/fornt\"; near to it: shop/front");
        let error = view().only("web/all").unwrap_err().to_string();
        assert_eq!(
            error,
            "this node holds no policy \"web/all\"; those that select no pod of it are held elsewhere"
        );
    }
}
