//! Four networks on the same two nodes, three pods in each, and connections of everybody that must go on.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, Delivery, PodHandle};
use vrouter_objects::ServiceProtocol;

use crate::support::{
    Conversation, FAMILIES, MEMBER_PORT, Network, Tenancy, Voice, address, drops, is_at, node_address,
    outside,
};

/// The two custom networks are alike in everything.
pub const ALIKE: [&str; 2] = ["10.50.0.0/24", "fd00:50::/64"];

pub const DEFAULT: usize = 0;
pub const ISOLATED: usize = 1;
pub const TWIN: usize = 2;
pub const OTHER_TWIN: usize = 3;
pub const NETWORKS: [usize; 4] = [DEFAULT, ISOLATED, TWIN, OTHER_TWIN];

/// A pod that means harm, and everybody else.
#[derive(Debug)]
pub struct Stage {
    pub tenancy: Tenancy,
    /// By network: two on the first node, one on the second. The attacker is the first of its network.
    pub pods: [[PodHandle; 3]; 4],
    /// The attacker's network.
    pub home: usize,
    standing: Vec<(Conversation, Delivery)>,
}

impl Stage {
    /// With an attacker in this network.
    pub fn new(home: usize) -> Self {
        let networks = vec![
            Network::default_pods(),
            Network::isolated(0),
            Network::custom(1, ALIKE),
            Network::custom(2, ALIKE),
        ];
        let mut tenancy = Tenancy::new(2, networks, BTreeSet::new());
        let pods = NETWORKS.map(|network| {
            [(0, 0), (1, 0), (2, 1)].map(|(number, node)| {
                let [v4, v6] = match network {
                    DEFAULT | ISOLATED => cluster_addresses(node, 10 + 10 * network as u16 + number),
                    _ => tenancy.addresses(network, number),
                };
                tenancy.pod(network, node, v4, v6)
            })
        });
        let mut stage = Self { tenancy, pods, home, standing: Vec::new() };
        stage.speak();
        stage
    }

    /// Lets everybody but the attacker have connections.
    fn speak(&mut self) {
        for [_, near, far] in self.pods.clone() {
            for family in FAMILIES {
                for voice in [ServiceProtocol::Tcp, ServiceProtocol::Udp].map(Voice::Service) {
                    let within = Conversation::of(&near, voice, address(&far, family), MEMBER_PORT);
                    let beyond = Conversation::of(&near, voice, outside(family), 443).by(4443);
                    for conversation in [within, beyond] {
                        let delivery = conversation.must_open(&mut self.tenancy.cluster);
                        self.standing.push((conversation, delivery));
                    }
                }
            }
        }
    }

    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.tenancy.cluster
    }

    pub fn attacker(&self) -> PodHandle {
        self.pods[self.home][0].clone()
    }

    /// The attacker's neighbour on its own node.
    pub fn neighbour(&self) -> PodHandle {
        self.pods[self.home][1].clone()
    }

    /// The attacker's neighbour on the other node.
    pub fn far(&self) -> PodHandle {
        self.pods[self.home][2].clone()
    }

    /// Everybody's addresses: pods of all networks, gateways, nodes, outside.
    pub fn everybody(&self, family: Family) -> BTreeSet<IpAddr> {
        let pods = self.pods.iter().flatten().map(|pod| address(pod, family));
        let gateways = self.tenancy.networks.iter().map(|network| network.gateway(family));
        let nodes = (0..2).map(|node| node_address(node, family));
        pods.chain(gateways).chain(nodes).chain([outside(family)]).collect()
    }

    /// Lets a frame come from the attacker exactly as it is.
    pub fn throw(&mut self, frame: &[u8]) -> Vec<Delivery> {
        let attacker = self.attacker();
        self.cluster().follow(attacker.node, Frame::from_bytes(frame, Ingress::Port(attacker.port)))
    }

    /// Expects that nobody but the attacker gets anything of a frame. Says what it was told.
    #[track_caller]
    pub fn assert_in_vain(&mut self, frame: &[u8], what: &str) -> Vec<Delivery> {
        let deliveries = self.throw(frame);
        let attacker = self.attacker();
        let strangers: Vec<_> = deliveries.iter().filter(|delivery| !is_at(delivery, &attacker)).collect();
        assert!(strangers.is_empty(), "{what}, from network {}: {strangers:?}", self.home);
        deliveries
    }

    /// Expects that a frame passes: what is refused otherwise is refused for the right reason.
    #[track_caller]
    pub fn assert_passes(&mut self, frame: &[u8], to: &PodHandle, what: &str) {
        let deliveries = self.throw(frame);
        let told: Vec<_> = (0..2).map(|node| drops(&self.tenancy.cluster, node)).collect();
        assert!(
            deliveries.len() == 1 && is_at(&deliveries[0], to),
            "{what}, from network {}: {deliveries:?}, {told:?}",
            self.home
        );
    }

    /// Expects that all connections of all others go on.
    #[track_caller]
    pub fn assert_all_is_well(&mut self) {
        for (conversation, delivery) in &self.standing {
            conversation.must_go_on(&mut self.tenancy.cluster, delivery);
        }
    }
}

/// Addresses of the cluster's own subnets, in a node's block.
fn cluster_addresses(node: usize, number: u16) -> [IpAddr; 2] {
    let block = node as u8 + 1;
    [
        IpAddr::from([10, 244, block, number as u8]),
        IpAddr::from([0xfd00, 0x10, 0x244, u16::from(block), 0, 0, 0, number]),
    ]
}

/// A stage for an attacker of each network.
pub fn stages() -> impl Iterator<Item = Stage> {
    NETWORKS.into_iter().map(Stage::new)
}

/// A stage for an attacker of each network, in each family.
pub fn stages_of_families() -> impl Iterator<Item = (Stage, Family)> {
    stages().flat_map(|stage| {
        let home = stage.home;
        [(stage, Family::V4), (Stage::new(home), Family::V6)]
    })
}
