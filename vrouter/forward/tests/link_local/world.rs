//! Two nodes, whose pods are in networks with the same addresses, and have link-local ones.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Node, PodHandle};
use vrouter_objects::{
    LinkLocal, NetworkKind, NextHop, Object, Route, RouteKey, RoutingInstance, Subnet, Vmi, Vni,
};

use super::support::{
    Client, Conversation, FAMILIES, MEMBER_PORT, Network, Tenancy, Voice, fabric, node_address, nth,
    prefixes, voices, vrf,
};

pub const PREFIXES: [&str; 2] = ["169.254.64.0/18", "fd00:169:254::/112"];
pub const NETWORK: u32 = 90;
/// Pods of two networks have these on each node.
const TWINS: [&str; 2] = ["192.168.0.0/24", "fd00:192:168::/64"];

/// Two nodes with a pod of the cluster's network and two twins of custom ones each, all with a link-local address.
pub struct Scene {
    pub tenancy: Tenancy,
    pub pods: Vec<PodHandle>,
}

impl Scene {
    pub fn new() -> Self {
        let networks = vec![Network::default_pods(), Network::custom(1, TWINS), Network::custom(2, TWINS)];
        let mut tenancy = Tenancy::new(2, networks, BTreeSet::new());
        tenancy.cluster.put(&link_local_network());
        let mut pods = Vec::new();
        for node in 0..2_u8 {
            let own =
                (IpAddr::from([10, 244, node + 1, 9]), nth(prefixes(["::/0", "fd00:10:244::/64"])[1], 9));
            let own = (own.0, if node == 0 { own.1 } else { nth("fd00:10:244:2::/64".parse().unwrap(), 9) });
            pods.push(tenancy.pod(0, node.into(), own.0, own.1));
            for network in [1, 2] {
                let [v4, v6] = tenancy.addresses(network, node.into());
                pods.push(tenancy.pod(network, node.into(), v4, v6));
            }
        }
        let mut scene = Self { tenancy, pods };
        for number in 0..scene.pods.len() {
            scene.name(number, &FAMILIES.map(|family| scene.link_local(number, family)));
        }
        scene
    }

    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.tenancy.cluster
    }

    /// What the node of a pod calls it. The pods of the other node have the same ones.
    pub fn link_local(&self, pod: usize, family: Family) -> IpAddr {
        let of_family = usize::from(family == Family::V6);
        nth(prefixes(PREFIXES)[of_family], 5 + pod as u16 % 3)
    }

    /// Gives a pod these link-local addresses.
    pub fn name(&mut self, pod: usize, addresses: &[IpAddr]) {
        let pod = self.pods[pod].clone();
        let node = &mut self.tenancy.cluster.nodes[pod.node];
        let link_local = LinkLocal { vrf: vrf(NETWORK), addresses: addresses.to_vec() };
        node.attach(Vmi { link_local: Some(link_local), ..interface(node, &pod) }, pod.port);
    }

    /// Gives the first node the addresses of the node of this number.
    pub fn renumber_node(&mut self, number: usize) {
        let node = &mut self.tenancy.cluster.nodes[0];
        let mut host = node.tables.host().expect("it has its place").clone();
        host.addresses = FAMILIES.map(|family| node_address(number, family)).to_vec();
        let mut router =
            node.tables.virtual_routers().find(|router| router.name == "n1").expect("itself").clone();
        router.addresses.clone_from(&host.addresses);
        node.tables.set_host(host);
        assert_eq!(node.put([Object::VirtualRouter(router)]), []);
    }

    /// From the node of a pod to this pod.
    pub fn asked(&self, pod: usize, voice: Voice, family: Family) -> Conversation {
        let client = Client::Node(self.pods[pod].node);
        Conversation::new(client, voice, self.link_local(pod, family), MEMBER_PORT)
    }

    pub fn gateway(&self, pod: usize, family: Family) -> IpAddr {
        self.tenancy.networks[pod % 3].gateway(family)
    }

    /// Every pod, by every voice of both families.
    pub fn cases(&self) -> impl Iterator<Item = (usize, Family, Voice)> + use<> {
        (0..self.pods.len()).flat_map(|pod| voices().map(move |(family, voice)| (pod, family, voice)))
    }
}

pub fn interface(node: &Node, pod: &PodHandle) -> Vmi {
    let held = node.tables.interfaces().map(|(vmi, _)| vmi).find(|vmi| vmi.id == pod.vmi);
    held.expect("it was attached").clone()
}

pub fn link_local_network() -> Vec<Object> {
    let subnets = prefixes(PREFIXES).map(|prefix| Subnet { prefix, gateway: nth(prefix, 1) }).to_vec();
    let vni = Vni::new(6000).unwrap();
    let instance = RoutingInstance::new(vrf(NETWORK), "default/link-local", vni, subnets);
    let mut objects =
        vec![Object::RoutingInstance(RoutingInstance { kind: NetworkKind::LinkLocal, ..instance })];
    for prefix in prefixes(PREFIXES) {
        let route = |vrf, next_hop| Object::Route(Route { key: RouteKey { vrf, prefix }, next_hop });
        objects.push(route(vrf(NETWORK), NextHop::Reject));
        objects.push(route(fabric(), NextHop::VrfTranslate(vrf(NETWORK))));
    }
    objects
}
