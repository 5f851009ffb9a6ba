//! Manifests of networks, and what is seen of them in the tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vrouter_objects::{NextHop, Object, RoutingInstance, VrfId};

use crate::common::{Cluster, attachment, metadata, node, pod};

/// The annotation that names a network.
pub const NETWORK: &str = "net.juniper.contrail.podnetwork";

pub fn namespace(name: &str) -> Value {
    json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": name } })
}

pub fn isolated(name: &str) -> Value {
    labelled(namespace(name), &[("core.juniper.net/isolated-namespace", "true")])
}

pub fn labelled(mut object: Value, labels: &[(&str, &str)]) -> Value {
    for (key, value) in labels {
        object["metadata"]["labels"][*key] = (*value).into();
    }
    object
}

pub fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = value.into();
    object
}

fn contrail(kind: &str, name: &str, spec: Value) -> Value {
    let version = "core.contrail.juniper.net/v1alpha1";
    json!({ "kind": kind, "apiVersion": version, "metadata": metadata(name), "spec": spec })
}

pub fn subnet(name: &str, cidr: &str) -> Value {
    contrail("Subnet", name, json!({ "cidr": cidr }))
}

/// A network with the Subnets `NAME-v4` and `NAME-v6`, as far as these are listed.
pub fn network(name: &str, families: &[&str]) -> Value {
    let (namespace, own) = name.split_once('/').unwrap();
    let mut spec = json!({ "podNetwork": true, "routeTargetList": ["target:64512:1000"] });
    for family in families {
        spec[format!("{family}SubnetReference")] = json!({
            "apiVersion": "core.contrail.juniper.net/v1alpha1", "kind": "Subnet",
            "namespace": namespace, "name": format!("{own}-{family}"),
        });
    }
    contrail("VirtualNetwork", name, spec)
}

/// A VirtualNetwork without a spec, which gives labels to a network that is there without it.
pub fn bare(name: &str) -> Value {
    contrail("VirtualNetwork", name, json!({}))
}

/// A router of networks with these labels, that imports those with the label `vnr: IMPORT` of the namespaces named so.
pub fn router(name: &str, kind: &str, networks: Value, imports: &[(&str, &str)]) -> Value {
    let imports: Value = imports
        .iter()
        .map(|(namespace, router)| {
            json!({
                "virtualNetworkRouterSelector": { "matchLabels": { "vnr": router } },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            })
        })
        .collect();
    let spec = json!({
        "type": kind, "virtualNetworkSelector": { "matchLabels": networks },
        "import": { "virtualNetworkRouters": imports },
    });
    let own = name.split_once('/').unwrap().1;
    labelled(contrail("VirtualNetworkRouter", name, spec), &[("vnr", own)])
}

impl Cluster {
    /// Records a custom network of these prefixes.
    pub fn record_network(&mut self, name: &str, v4: &str) {
        self.record(subnet(&format!("{name}-v4"), v4));
        self.record(network(name, &["v4"]));
    }

    pub fn instance(&self, network: &str) -> Option<RoutingInstance> {
        self.tables.values().find_map(|object| match &**object {
            Object::RoutingInstance(instance) if instance.name == network => Some(instance.clone()),
            _ => None,
        })
    }

    /// A network's VRF.
    pub fn vrf(&self, network: &str) -> VrfId {
        self.instance(network).unwrap_or_else(|| panic!("no network {network}")).id
    }

    /// What a node does with a prefix of a network, with networks and nodes by their names.
    pub fn way(&self, node: &str, network: &str, prefix: &str) -> String {
        match self.route_in(self.vrf(network).get(), node, prefix) {
            None => "none".to_owned(),
            Some(NextHop::VrfTranslate(vrf)) => format!("into {}", self.network_name(vrf)),
            Some(NextHop::Tunnel(router)) => format!("to {}", self.node_name(router)),
            Some(other) => other.to_string(),
        }
    }

    pub fn network_name(&self, vrf: VrfId) -> String {
        let found = self.tables.values().find_map(|object| match &**object {
            Object::RoutingInstance(instance) if instance.id == vrf => Some(instance.name.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| "a network that is not there".to_owned())
    }

    fn node_name(&self, router: vrouter_objects::RouterId) -> String {
        let found = self.tables.values().find_map(|object| match &**object {
            Object::VirtualRouter(known) if known.id == router => Some(known.name.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| "a node that is not there".to_owned())
    }

    /// A pod of a network is attached.
    pub fn attach_in(&mut self, network: &str, node: &str, vmi: u32, pod: &str, addresses: &[&str]) -> usize {
        let mut attachment = attachment(vmi, pod, addresses);
        attachment.vrf = self.vrf(network);
        self.model.attach(node, attachment);
        self.settle()
    }

    /// The network and addresses that a pod is bound to.
    pub fn bound(&self, node: &str, pod: &str) -> (String, Vec<String>) {
        let binding = self.binding(node, pod).unwrap_or_else(|| panic!("no binding of {pod} on {node}"));
        (self.network_name(binding.vrf), binding.addresses.iter().map(ToString::to_string).collect())
    }

    pub fn refusal(&self, node: &str, pod: &str) -> String {
        self.binding(node, pod).unwrap().refusal.unwrap_or_default()
    }

    /// The names of the networks that a network's pods are known in.
    pub fn known_in(&self, network: &str) -> Vec<String> {
        let instance = self.instance(network).unwrap();
        instance.known_in.into_iter().map(|vrf| self.network_name(vrf)).collect()
    }

    /// All routes of a network that lead into others, by prefix.
    pub fn leaks(&self, network: &str) -> BTreeMap<String, String> {
        let vrf = self.vrf(network);
        let routes = self.tables.values().filter_map(|object| match &**object {
            Object::Route(route) if route.key.vrf == vrf => Some(route.clone()),
            _ => None,
        });
        let built_in = ["10.96.0.0/12", "fd00:10:96::/108", "0.0.0.0/0", "::/0"];
        let into = routes.filter_map(|route| match route.next_hop {
            NextHop::VrfTranslate(vrf) => Some((route.key.prefix.to_string(), self.network_name(vrf))),
            _ => None,
        });
        into.filter(|(prefix, _)| !built_in.contains(&prefix.as_str())).collect()
    }
}

/// A pod on a node, of no app in particular.
pub fn plain_pod(name: &str, node: &str) -> Value {
    pod(name, name.rsplit('/').next().unwrap(), node, json!({}))
}

/// The node n1 and n2.
pub fn two_nodes() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.record(node("n1", "172.30.0.1"));
    cluster.record(node("n2", "172.30.0.2"));
    cluster.settle();
    cluster
}
