//! Pods and policies by their names, and a plain reading of the tables that come of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use vrouter_control_model::{Kind, Layer, State};
use vrouter_objects::{
    NamedPort, Object, ObjectKey, Peer, PeerAddressKey, PeerSetId, Peers, PodBinding, Policy, PolicyAction,
    PolicyDirection, PolicyId, PolicyRule, Port, PortMatch, Ports, Tier, VrfId,
};

use crate::common::{Cluster, metadata, node, object};

pub const NODE: &str = "n1";

/// A cluster of one node.
pub struct World {
    pub cluster: Cluster,
    addresses: BTreeMap<String, Vec<IpAddr>>,
}

/// The pod's object, labelled, with its addresses in its status.
pub fn pod(name: &str, labels: Value, addresses: &[&str]) -> Value {
    let mut metadata = metadata(name);
    metadata["labels"] = labels;
    let addresses: Value = addresses.iter().map(|address| json!({ "ip": address })).collect();
    json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": metadata,
        "spec": { "nodeName": NODE, "containers": [{ "name": "c" }] },
        "status": { "phase": "Running", "podIPs": addresses },
    })
}

/// The same pod with these named ports: `PROTOCOL/name=number`.
pub fn with_ports(mut pod: Value, ports: &[&str]) -> Value {
    let port = |text: &&str| {
        let (protocol, rest) = text.split_once('/').unwrap();
        let (name, number) = rest.split_once('=').unwrap();
        json!({ "protocol": protocol, "name": name, "containerPort": number.parse::<u16>().unwrap() })
    };
    pod["spec"]["containers"][0]["ports"] = ports.iter().map(port).collect();
    pod
}

pub fn namespace(name: &str, labels: Value) -> Value {
    json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": name, "labels": labels } })
}

pub fn policy(name: &str, spec: Value) -> Value {
    let metadata = metadata(name);
    json!({ "kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1", "metadata": metadata, "spec": spec })
}

pub fn cluster_policy(name: &str, spec: Value) -> Value {
    json!({
        "kind": "ClusterNetworkPolicy", "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "metadata": { "name": name }, "spec": spec,
    })
}

impl World {
    pub fn new() -> Self {
        Self::with_recorded(State::default(), Vec::new())
    }

    /// What goes on from a state with these objects.
    pub fn with_recorded(state: State, objects: Vec<Value>) -> Self {
        let mut cluster = Cluster::from_state(state);
        cluster.record(node(NODE, "172.30.0.1"));
        objects.into_iter().for_each(|object| cluster.record(object));
        cluster.settle();
        Self { cluster, addresses: BTreeMap::new() }
    }

    /// With pods `shop/web`, `shop/db`, `bank/web` and `bank/db`, labelled `app`, in namespaces labelled `team`, each with
    /// an address of both families, and a port `http` at 8080 where it is a web.
    pub fn with_two_teams() -> Self {
        let mut world = Self::new();
        world.apply(namespace("shop", json!({ "team": "a" })));
        world.apply(namespace("bank", json!({ "team": "b" })));
        for (i, name) in ["shop/web", "shop/db", "bank/web", "bank/db"].into_iter().enumerate() {
            let app = name.split_once('/').unwrap().1;
            let addresses = [format!("10.244.1.{}", i + 2), format!("fd00:10:244:1::{}", i + 2)];
            let addresses = addresses.each_ref().map(String::as_str);
            let pod = pod(name, json!({ "app": app }), &addresses);
            let ports: &[&str] = if app == "web" { &["TCP/http=8080"] } else { &[] };
            world.apply(with_ports(pod, ports));
        }
        world
    }

    /// Applies an object and settles. Returns how many units were recomputed.
    pub fn apply(&mut self, value: Value) -> usize {
        if value["kind"] == "Pod" {
            let name = object(value.clone()).reference().namespaced_name().to_string();
            let listed = value["status"]["podIPs"].as_array().into_iter().flatten();
            let addresses = listed.map(|entry| entry["ip"].as_str().unwrap().parse().unwrap()).collect();
            self.addresses.insert(name, addresses);
        }
        self.cluster.apply(value)
    }

    pub fn delete(&mut self, kind: Kind, name: &str) -> usize {
        self.cluster.delete(kind, name)
    }

    /// Whether one pod may open a connection to another: `PROTOCOL/port`, or an ICMP echo. Both families must agree.
    pub fn allows(&self, from: &str, to: &str, port: &str) -> bool {
        let (sources, destinations) = (&self.addresses[from], &self.addresses[to]);
        let verdicts = sources.iter().zip(destinations).map(|(source, destination)| {
            assert_eq!(source.is_ipv4(), destination.is_ipv4());
            self.judge(from, PolicyDirection::Egress, *destination, port)
                && self.judge(to, PolicyDirection::Ingress, *source, port)
        });
        let verdicts: Vec<bool> = verdicts.collect();
        assert!(
            verdicts.iter().all(|verdict| *verdict == verdicts[0]),
            "{from} to {to} at {port}: {verdicts:?}"
        );
        verdicts[0]
    }

    /// Whether a pod may open a connection to an address.
    pub fn lets_out(&self, from: &str, to: &str, port: &str) -> bool {
        self.judge(from, PolicyDirection::Egress, to.parse().unwrap(), port)
    }

    /// Whether an address may open a connection to a pod.
    pub fn lets_in(&self, from: &str, to: &str, port: &str) -> bool {
        self.judge(to, PolicyDirection::Ingress, from.parse().unwrap(), port)
    }

    /// Of these pods, those that may open a connection to one: for tables of cases.
    pub fn who_reaches<'a>(&self, of: &[&'a str], to: &str, port: &str) -> Vec<&'a str> {
        of.iter().copied().filter(|from| *from != to && self.allows(from, to, port)).collect()
    }

    pub fn binding(&self, pod: &str) -> PodBinding {
        self.cluster.binding(NODE, pod).unwrap_or_else(|| panic!("pod {pod} has no binding"))
    }

    /// The names of the policies that select a pod, in the order of their ids.
    pub fn policies_of(&self, pod: &str) -> Vec<String> {
        self.binding(pod).policies.iter().map(|id| self.policy(*id).name).collect()
    }

    pub fn policy(&self, id: PolicyId) -> Policy {
        match &*self.cluster.tables[&(Layer::Policy(id), ObjectKey::Policy(id))] {
            Object::Policy(policy) => policy.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn policy_named(&self, name: &str) -> Policy {
        let policies = self.cluster.tables.values().filter_map(|object| match &**object {
            Object::Policy(policy) if policy.name == name => Some(policy.clone()),
            _ => None,
        });
        let mut policies: Vec<_> = policies.collect();
        assert_eq!(policies.len(), 1, "{name}");
        policies.remove(0)
    }

    /// All peer sets by their names, with the addresses that are in them, and the ports these bear.
    pub fn sets(&self) -> BTreeMap<String, Vec<String>> {
        let mut sets = BTreeMap::new();
        for object in self.cluster.tables.values() {
            if let Object::PeerSet(set) = &**object {
                let before = sets.insert(set.name.clone(), self.members(set.id));
                assert!(before.is_none(), "two sets mean {}", set.name);
            }
        }
        sets
    }

    pub fn members(&self, set: PeerSetId) -> Vec<String> {
        let elements = self.cluster.tables.iter().filter_map(|((layer, _), object)| match &**object {
            Object::PeerAddress(element) if *layer == Layer::PeerSet(set) => {
                let port = element.port.map(|port| format!(" at {port}")).unwrap_or_default();
                Some(format!("{}{port}", element.key.address))
            }
            _ => None,
        });
        elements.collect()
    }

    pub fn set_id(&self, name: &str) -> Option<PeerSetId> {
        self.cluster.tables.values().find_map(|object| match &**object {
            Object::PeerSet(set) if set.name == name => Some(set.id),
            _ => None,
        })
    }

    fn judge(&self, pod: &str, direction: PolicyDirection, peer: IpAddr, port: &str) -> bool {
        let Some(binding) = self.cluster.binding(NODE, pod) else { return true };
        let mut policies: Vec<Policy> = binding.policies.iter().map(|id| self.policy(*id)).collect();
        policies.sort_by_key(|policy| (policy.tier, policy.name.clone()));
        let request = Request { peer, port, own: &binding.ports };
        let of_tier = |is_it: fn(&Tier) -> bool| {
            let governing = policies.iter().filter(move |policy| is_it(&policy.tier));
            governing.filter_map(|policy| policy.rules(direction))
        };
        let first = |is_it| {
            let mut rules = of_tier(is_it).flatten();
            rules.find(|rule| self.matches(rule, &request)).map(|rule| rule.action)
        };
        match first(|tier| matches!(tier, Tier::Admin(_))) {
            Some(PolicyAction::Allow) => return true,
            Some(PolicyAction::Deny) => return false,
            Some(PolicyAction::Pass) | None => {}
        }
        if of_tier(|tier| *tier == Tier::Namespace).next().is_some() {
            return first(|tier| *tier == Tier::Namespace) == Some(PolicyAction::Allow);
        }
        first(|tier| matches!(tier, Tier::Baseline(_))) != Some(PolicyAction::Deny)
    }

    fn matches(&self, rule: &PolicyRule, request: &Request<'_>) -> bool {
        match &rule.peers {
            Peers::Any => request.has_port(&rule.ports, None),
            Peers::These(peers) => peers.iter().any(|peer| match peer {
                Peer::Block { prefix, except } => {
                    prefix.contains(&request.peer)
                        && !except.iter().any(|part| part.contains(&request.peer))
                        && request.has_port(&rule.ports, None)
                }
                Peer::Set(set) => {
                    self.element(*set, request.peer).is_some_and(|port| request.has_port(&rule.ports, port))
                }
            }),
        }
    }

    fn element(&self, set: PeerSetId, address: IpAddr) -> Option<Option<Port>> {
        let key = PeerAddressKey { set, space: VrfId::new(1).unwrap(), address };
        match &**self.cluster.tables.get(&(Layer::PeerSet(set), ObjectKey::PeerAddress(key)))? {
            Object::PeerAddress(element) => Some(element.port),
            other => panic!("{other:?}"),
        }
    }
}

struct Request<'a> {
    peer: IpAddr,
    port: &'a str,
    own: &'a [NamedPort],
}

impl Request<'_> {
    fn has_port(&self, ports: &Ports, of_peer: Option<Port>) -> bool {
        let Ports::These(ports) = ports else { return true };
        let Some((protocol, number)) = self.port.split_once('/') else { return false };
        let (protocol, number) = (protocol.parse().unwrap(), number.parse::<u16>().unwrap());
        ports.iter().any(|port| match port {
            PortMatch::Range { protocol: of, first, last } => {
                *of == protocol && (*first..=*last).contains(&number)
            }
            PortMatch::Own { protocol: of, name } => self.own.iter().any(|own| {
                *of == protocol && own.protocol == protocol && own.name == *name && own.port.get() == number
            }),
            PortMatch::Peer { protocol: of } => {
                *of == protocol && of_peer.is_some_and(|port| port.get() == number)
            }
        })
    }
}
