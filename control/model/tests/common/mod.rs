//! A cluster for tests: JSON in, tables out. What it shows is put together from the changes alone, and compared with the
//! model's own tables after every step.
#![allow(missing_docs, dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use vrouter_control_model::{
    Attachment, DocumentKind, Holding, InterestChange, Kind, KubeObject, Layer, Model, ModelConfig,
    NamespacedName, NetworkVnis, ObjectRef, Selection, State,
};
use vrouter_objects::{
    ExternalKind, FloatingIp, Listener, MacAddress, Member, MemberState, NextHop, Object, ObjectKey,
    PodBinding, RouteKey, VirtualRouter, VmiId, Vni, VrfId,
};

pub struct Cluster {
    pub model: Model,
    pub tables: BTreeMap<(Layer, ObjectKey), Arc<Object>>,
    /// Which node holds which layer.
    pub held: BTreeSet<(String, Layer)>,
    /// What was saved, change by change.
    saved: State,
}

pub fn config() -> ModelConfig {
    let prefixes = |list: [&str; 2]| list.map(|prefix| prefix.parse().unwrap()).to_vec();
    let [pods, services, fabric] = [1, 2, 3].map(|number| Vni::new(number).unwrap());
    ModelConfig::new(
        prefixes(["10.244.0.0/16", "fd00:10:244::/48"]),
        prefixes(["10.96.0.0/12", "fd00:10:96::/108"]),
        [24, 64],
        NetworkVnis { pods, services, fabric },
    )
    .unwrap()
}

/// With 192.0.2.8 to 192.0.2.15 and 2001:db8::8 to 2001:db8::f for load balancers, and node ports 30000 to 30063.
pub fn config_with_pool() -> ModelConfig {
    let pool = ["192.0.2.8/29", "2001:db8::8/125"].map(|prefix| prefix.parse().unwrap());
    let config = config().with_node_ports("30000-30063".parse().unwrap());
    config.with_load_balancer_pool(pool.to_vec()).unwrap()
}

/// With a link-local network of these prefixes.
pub fn config_with_link_local(prefixes: [&str; 2]) -> ModelConfig {
    config().with_link_local(prefixes.map(|prefix| prefix.parse().unwrap()).to_vec()).unwrap()
}

impl Cluster {
    pub fn new() -> Self {
        Self::from_state(State::default())
    }

    pub fn from_state(state: State) -> Self {
        Self::build(config(), state)
    }

    pub fn with_config(config: ModelConfig) -> Self {
        Self::build(config, State::default())
    }

    pub fn build(config: ModelConfig, state: State) -> Self {
        Self {
            model: Model::new(config, state.clone()).unwrap(),
            tables: BTreeMap::new(),
            held: BTreeSet::new(),
            saved: state,
        }
    }

    /// What a restarted controller would go on from.
    pub fn saved_state(&self) -> State {
        let (saved, whole) = (serde_json::to_value(&self.saved), serde_json::to_value(self.model.state()));
        assert_eq!(saved.unwrap(), whole.unwrap(), "the saved changes do not add up to the state");
        self.saved.clone()
    }

    /// Applies an object and settles.
    pub fn apply(&mut self, object: Value) -> usize {
        self.record(object);
        self.settle()
    }

    /// Applies an object and does not settle yet.
    pub fn record(&mut self, value: Value) {
        let object = object(value);
        let origin = format!("{}.yaml", object.reference().name);
        self.model.apply(&object, origin.into());
    }

    pub fn delete(&mut self, kind: Kind, name: &str) -> usize {
        self.model.delete(&reference(kind, name));
        self.settle()
    }

    pub fn attach(&mut self, node: &str, vmi: u32, pod: &str, addresses: &[&str]) -> usize {
        self.model.attach(node, attachment(vmi, pod, addresses));
        self.settle()
    }

    pub fn detach(&mut self, node: &str, vmi: u32) -> usize {
        self.model.detach(node, VmiId::new(vmi).unwrap());
        self.settle()
    }

    /// Settles, and returns how many units were recomputed.
    pub fn settle(&mut self) -> usize {
        let settlement = self.model.settle();
        if let Some(change) = settlement.state {
            self.saved.replay(serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap());
        }
        for change in settlement.changes {
            match change.object {
                Some(object) => self.tables.insert((change.layer, change.key), object),
                None => self.tables.remove(&(change.layer, change.key)),
            };
        }
        assert_eq!(self.tables, tables(&self.model), "the changes do not add up to the tables");
        for InterestChange { node, layer, holding } in settlement.interest {
            let entry = (node, layer);
            let is_news = match holding {
                Holding::Held => self.held.insert(entry.clone()),
                Holding::Dropped => self.held.remove(&entry),
            };
            assert!(is_news, "{entry:?}");
        }
        assert!(self.model.is_settled());
        settlement.recomputed
    }

    /// Nodes n1 and n2 with blocks 10.244.1.0/24 and 10.244.2.0/24.
    pub fn with_two_nodes() -> Self {
        let mut cluster = Self::new();
        cluster.record(node("n1", "172.30.0.1"));
        cluster.record(node("n2", "172.30.0.2"));
        cluster.settle();
        cluster
    }

    /// The layers that a node holds beside its own.
    pub fn interest(&self, node: &str) -> Vec<Layer> {
        let held = self.held.iter().filter(|(holder, _)| holder == node);
        let held: Vec<Layer> = held.map(|(_, layer)| layer.clone()).collect();
        assert!(self.model.interest(node).eq(&held), "the changes do not add up to what {node} holds");
        held
    }

    pub fn floating_ips(&self, service: &str) -> Vec<FloatingIp> {
        let floating_ips = self.tables.values().filter_map(|object| match &**object {
            Object::FloatingIp(floating_ip) if floating_ip.name == service => Some(floating_ip.clone()),
            _ => None,
        });
        floating_ips.collect()
    }

    /// The listeners of all addresses of a service at `PROTOCOL/port`.
    pub fn listeners(&self, service: &str, port: &str) -> Vec<Listener> {
        let listeners = self.floating_ips(service).into_iter().flat_map(|floating_ip| floating_ip.listeners);
        listeners.filter(|listener| format!("{}/{}", listener.protocol, listener.port) == port).collect()
    }

    /// Members that take new flows where all of the cluster are asked, as nodes weigh them, sorted.
    pub fn active(&self, service: &str, port: &str) -> Vec<String> {
        let ready = self.members(service, port, MemberState::Ready);
        if ready.is_empty() { self.members(service, port, MemberState::Serving) } else { ready }
    }

    /// Members that keep what they have, sorted.
    pub fn draining(&self, service: &str, port: &str) -> Vec<String> {
        let mut draining = self.members(service, port, MemberState::Leaving);
        if !self.members(service, port, MemberState::Ready).is_empty() {
            draining.extend(self.members(service, port, MemberState::Serving));
        }
        draining.sort();
        draining
    }

    /// Members in this state, sorted.
    pub fn members(&self, service: &str, port: &str, state: MemberState) -> Vec<String> {
        let members = self.listeners(service, port).into_iter().flat_map(|listener| listener.members);
        let members = members.filter(|member| member.state == state);
        let mut members: Vec<_> =
            members.map(|member| format!("{}:{}", member.address, member.port)).collect();
        members.sort();
        members
    }

    /// The member with an address, at any port of a service.
    pub fn member(&self, service: &str, address: &str) -> Member {
        let floating_ips = self.floating_ips(service).into_iter();
        let listeners = floating_ips.flat_map(|floating_ip| floating_ip.listeners);
        let mut members = listeners.flat_map(|listener| listener.members);
        members.find(|member| member.address.to_string() == address).unwrap()
    }

    /// The floating IP of one family; there is one.
    pub fn floating_ip(&self, service: &str, is_v4: bool) -> FloatingIp {
        let mut of_family = self.floating_ips(service);
        of_family.retain(|floating_ip| floating_ip.address.is_ipv4() == is_v4);
        assert_eq!(of_family.len(), 1, "{service}");
        of_family.remove(0)
    }

    /// The node ports of a service, `PROTOCOL/port:nodePort`, over both families, each once.
    pub fn node_ports(&self, service: &str) -> Vec<String> {
        let listeners = self.floating_ips(service).into_iter().flat_map(|floating_ip| floating_ip.listeners);
        let mut ports: Vec<_> = listeners
            .filter_map(|listener| {
                Some(format!("{}/{}:{}", listener.protocol, listener.port, listener.node_port?))
            })
            .collect();
        ports.sort();
        ports.dedup();
        ports
    }

    /// The addresses by which a service is reached from outside: `ip ADDRESS` or `lb ADDRESS`.
    pub fn external(&self, service: &str) -> Vec<String> {
        let external = self.floating_ips(service).into_iter().flat_map(|floating_ip| floating_ip.external);
        external
            .map(|external| match external.kind {
                ExternalKind::ExternalIp => format!("ip {}", external.address),
                ExternalKind::LoadBalancer => format!("lb {}", external.address),
            })
            .collect()
    }

    pub fn router(&self, name: &str) -> Option<VirtualRouter> {
        self.tables.values().find_map(|object| match &**object {
            Object::VirtualRouter(router) if router.name == name => Some(router.clone()),
            _ => None,
        })
    }

    pub fn addresses(&self, service: &str) -> Vec<String> {
        self.floating_ips(service).iter().map(|floating_ip| floating_ip.address.to_string()).collect()
    }

    /// What a node does with a prefix of the pod network.
    pub fn route(&self, node: &str, prefix: &str) -> Option<NextHop> {
        self.route_in(1, node, prefix)
    }

    /// What a node does with a prefix of a network.
    pub fn route_in(&self, vrf: u32, node: &str, prefix: &str) -> Option<NextHop> {
        let vrf = VrfId::new(vrf).unwrap();
        let key = ObjectKey::Route(RouteKey { vrf, prefix: prefix.parse().unwrap() });
        let own = self.tables.get(&(Layer::Node(node.to_owned()), key.clone()));
        match &**own.or_else(|| self.tables.get(&(Layer::Network(vrf), key)))? {
            Object::Route(route) => Some(route.next_hop.clone()),
            _ => None,
        }
    }

    pub fn binding(&self, node: &str, pod: &str) -> Option<PodBinding> {
        let key = ObjectKey::PodBinding(pod.parse().unwrap());
        match &**self.tables.get(&(Layer::Node(node.to_owned()), key))? {
            Object::PodBinding(binding) => Some(binding.clone()),
            _ => None,
        }
    }

    /// The node's blocks, IPv4 first.
    pub fn leases(&self, node: &str) -> Vec<String> {
        let layer = Layer::Node(node.to_owned());
        let own = self.tables.iter().filter(|((of, _), _)| *of == layer);
        let mut prefixes: Vec<_> = own
            .filter_map(|(_, object)| match &**object {
                Object::AddressLease(lease) => Some(lease.prefix),
                _ => None,
            })
            .collect();
        prefixes.sort();
        prefixes.iter().map(ToString::to_string).collect()
    }

    /// All problems as `source: object: field: message`.
    pub fn problems(&self) -> Vec<String> {
        self.model.problems().iter().map(ToString::to_string).collect()
    }

    pub fn documents(&self, kind: DocumentKind) -> Vec<Value> {
        self.model
            .documents(kind, Selection::All)
            .iter()
            .map(|document| serde_json::to_value(document).unwrap())
            .collect()
    }
}

pub fn tables(model: &Model) -> BTreeMap<(Layer, ObjectKey), Arc<Object>> {
    model.tables().map(|(layer, object)| ((layer.clone(), object.key()), object.clone())).collect()
}

pub fn object(value: Value) -> KubeObject {
    fn read<T: serde::de::DeserializeOwned>(value: Value) -> Box<T> {
        Box::new(serde_json::from_value(value).unwrap())
    }
    match value["kind"].as_str().unwrap() {
        "Namespace" => KubeObject::Namespace(read(value)),
        "Node" => KubeObject::Node(read(value)),
        "Pod" => KubeObject::Pod(read(value)),
        "Service" => KubeObject::Service(read(value)),
        "EndpointSlice" => KubeObject::EndpointSlice(read(value)),
        "Endpoints" => KubeObject::Endpoints(read(value)),
        "NetworkPolicy" => KubeObject::NetworkPolicy(read(value)),
        "ClusterNetworkPolicy" => KubeObject::ClusterNetworkPolicy(read(value)),
        "VirtualNetwork" => KubeObject::VirtualNetwork(read(value)),
        "Subnet" => KubeObject::Subnet(read(value)),
        "VirtualNetworkRouter" => KubeObject::VirtualNetworkRouter(read(value)),
        other => panic!("{other}"),
    }
}

pub fn reference(kind: Kind, name: &str) -> ObjectRef {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ObjectRef { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

pub fn attachment(vmi: u32, pod: &str, addresses: &[&str]) -> Attachment {
    Attachment {
        vmi: VmiId::new(vmi).unwrap(),
        pod: pod.parse::<NamespacedName>().unwrap(),
        uid: String::new(),
        container_id: format!("container-{vmi}"),
        interface: "eth0".to_owned(),
        vrf: VrfId::new(1).unwrap(),
        mac: MacAddress::local(0x50, vmi),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        link_local: Vec::new(),
    }
}

pub fn metadata(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    json!({ "namespace": namespace, "name": name })
}

pub fn node(name: &str, address: &str) -> Value {
    let addresses = json!([{ "type": "InternalIP", "address": address }]);
    json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": name }, "status": { "addresses": addresses } })
}

/// A Node in a zone.
pub fn node_in(zone: &str, name: &str, address: &str) -> Value {
    let mut node = node(name, address);
    node["metadata"]["labels"] = json!({ "topology.kubernetes.io/zone": zone });
    node
}

/// An object made in this year.
pub fn made(year: u32, mut object: Value) -> Value {
    object["metadata"]["creationTimestamp"] = format!("{year}-01-01T00:00:00Z").into();
    object
}

/// A Service with these fields of its spec.
pub fn service(name: &str, spec: Value) -> Value {
    json!({ "kind": "Service", "apiVersion": "v1", "metadata": metadata(name), "spec": spec })
}

/// A Pod labelled `app: APP` on a node, with these fields of its status.
pub fn pod(name: &str, app: &str, node: &str, status: Value) -> Value {
    let mut metadata = metadata(name);
    metadata["labels"] = json!({ "app": app });
    json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": metadata,
        "spec": { "nodeName": node, "containers": [{ "name": "c" }] }, "status": status,
    })
}

/// The status of a pod that runs.
pub fn running(address: &str, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({ "phase": "Running", "podIP": address, "conditions": [{ "type": "Ready", "status": ready }] })
}

/// An IPv4 slice of a service with these ports and endpoints.
pub fn slice(name: &str, service: &str, ports: Value, endpoints: Value) -> Value {
    let mut metadata = metadata(name);
    metadata["labels"] = json!({ "kubernetes.io/service-name": service });
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata,
        "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
    })
}

/// Ready endpoints at these addresses.
pub fn endpoints(addresses: &[&str]) -> Value {
    addresses.iter().map(|address| json!({ "addresses": [address] })).collect()
}
