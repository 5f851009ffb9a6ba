//! Virtual networks beside the cluster's own, laid out on the nodes as the controller lays them out.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PodHandle};
use vrouter_objects::{
    ExternalAddress, ExternalKind, FloatingIp, FloatingIpId, IpNet, Listener, ListenerId, Member, MemberId,
    NetworkKind, NextHop, Object, Port, Route, RouteKey, RouterId, RoutingInstance, Subnet, Vni, VrfId,
};

use super::network::{ALL_PROTOCOLS, FAMILIES, publish};

/// The prefixes of the cluster's own pods, which isolated namespaces share.
pub const CLUSTER_PODS: [&str; 2] = ["10.244.0.0/16", "fd00:10:244::/48"];
/// The prefixes of services, in every network alike.
pub const SERVICES: [&str; 2] = ["10.96.0.0/12", "fd00:10:96::/108"];
const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// What kind of network pods are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The cluster's own.
    Default,
    /// An isolated namespace's: addresses out of the cluster's subnets, nobody else's.
    Isolated,
    /// A tenant's own, with whatever addresses.
    Custom,
}

/// A network that pods are in, with the one that its services are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub kind: Kind,
    pub pods: VrfId,
    pub services: VrfId,
    pub subnets: [Subnet; 2],
}

/// A cluster with several networks.
#[derive(Debug)]
pub struct Tenancy {
    pub cluster: Cluster,
    pub networks: Vec<Network>,
    /// Pairs of networks that know each other, each once, the lower number first.
    pub leaks: BTreeSet<(usize, usize)>,
}

pub fn vrf(number: u32) -> VrfId {
    VrfId::new(number).expect("not 0")
}

/// The nodes' own network.
pub fn fabric() -> VrfId {
    vrf(3)
}

pub fn router(node: usize) -> RouterId {
    RouterId::new(node as u32 + 1).expect("not 0")
}

pub fn prefixes(texts: [&str; 2]) -> [IpNet; 2] {
    texts.map(|text| text.parse().expect("a literal prefix"))
}

impl Network {
    /// The cluster's own, which is there already.
    pub fn default_pods() -> Self {
        Self { kind: Kind::Default, pods: vrf(1), services: vrf(2), subnets: subnets(CLUSTER_PODS) }
    }

    /// That of an isolated namespace.
    pub fn isolated(number: u32) -> Self {
        Self { kind: Kind::Isolated, subnets: subnets(CLUSTER_PODS), ..Self::custom(number, CLUSTER_PODS) }
    }

    /// A tenant's own.
    pub fn custom(number: u32, prefixes: [&str; 2]) -> Self {
        let pods = 10 + 2 * number;
        Self { kind: Kind::Custom, pods: vrf(pods), services: vrf(pods + 1), subnets: subnets(prefixes) }
    }

    /// What marks its packets between nodes.
    pub fn vni(&self) -> Vni {
        vni(self.pods)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.prefix.contains(&address))
    }

    /// Whether an address may be a pod's in one and another pod's in the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_shared = self.address_space() == other.address_space();
        let mut subnets = self.subnets.iter().zip(&other.subnets);
        !is_shared
            && subnets
                .any(|(one, other)| one.prefix.contains(&other.prefix) || other.prefix.contains(&one.prefix))
    }

    pub fn gateway(&self, family: Family) -> IpAddr {
        self.subnets[number_of(family)].gateway
    }

    /// Whose addresses its pods have.
    pub fn address_space(&self) -> VrfId {
        match self.kind {
            Kind::Default | Kind::Isolated => vrf(1),
            Kind::Custom => self.pods,
        }
    }

    /// The networks that know it, those that it is leaked with aside.
    fn known_in(&self) -> Vec<VrfId> {
        match self.kind {
            Kind::Default => vec![fabric()],
            Kind::Isolated => vec![vrf(1), fabric()],
            Kind::Custom => Vec::new(),
        }
    }

    fn instances(&self, leaked: &[&Self]) -> Vec<Object> {
        let known_in = self.known_in().into_iter().chain(leaked.iter().map(|other| other.pods)).collect();
        let pods = RoutingInstance {
            address_space: self.address_space(),
            known_in,
            ..RoutingInstance::new(
                self.pods,
                &format!("net-{}/pods", self.pods),
                self.vni(),
                self.subnets.to_vec(),
            )
        };
        let name = format!("net-{}/services", self.pods);
        let services = RoutingInstance::new(self.services, &name, vni(self.services), Vec::new());
        debug_assert_eq!(services.kind, NetworkKind::Overlay);
        [pods, services].map(Object::RoutingInstance).to_vec()
    }

    fn routes(&self, leaked: &[&Self]) -> Vec<Object> {
        let by = NextHop::VrfTranslate;
        let services = match self.kind {
            Kind::Isolated => by(vrf(2)),
            Kind::Default | Kind::Custom => NextHop::Reject,
        };
        let mut routes = all(self.services, prefixes(SERVICES), services);
        routes.extend(all(self.pods, prefixes(SERVICES), by(self.services)));
        routes.extend(all(self.pods, prefixes(EVERYWHERE), by(fabric())));
        // Nobody gets at pods by way of the nodes.
        routes.extend(all(self.pods, prefixes(CLUSTER_PODS), NextHop::Reject));
        routes.extend(all(self.pods, self.subnets.map(|subnet| subnet.prefix), NextHop::Reject));
        // Those that share their subnets are told apart by their pods' routes.
        for other in leaked.iter().filter(|other| other.kind == Kind::Custom) {
            routes.extend(all(self.pods, other.subnets.map(|subnet| subnet.prefix), by(other.pods)));
        }
        routes
    }

    /// A floating IP of this network with a port mapping of each protocol to these members, who all serve one port.
    pub fn service(&self, number: u32, address: IpAddr, port: u16, members: &[Member]) -> FloatingIp {
        let listeners = (0..).zip(ALL_PROTOCOLS).map(|(at, protocol)| Listener {
            id: ListenerId::new(number * 10 + at).expect("not 0"),
            name: String::new(),
            protocol,
            port: super::service::port(port),
            node_port: None,
            members: members.iter().map(|member| renumbered(member, at)).collect(),
        });
        let id = FloatingIpId::new(number).expect("not 0");
        FloatingIp {
            listeners: listeners.collect(),
            ..FloatingIp::new(id, &format!("tenants/service-{number}"), self.services, address, fabric())
        }
    }

    /// A pod of this network as a member that serves a port.
    pub fn member(&self, number: u32, pod: &PodHandle, family: Family, port: u16) -> Member {
        let id = MemberId::new(number).expect("not 0");
        let port = Port::new(port.into()).expect("not 0");
        Member {
            router: Some(router(pod.node)),
            vmi: Some(pod.vmi),
            ..Member::new(id, self.pods, super::network::address(pod, family), port)
        }
    }
}

/// Published at a port of all nodes, and at an address outside.
pub fn published(mut service: FloatingIp, node_port: u16, external: IpAddr) -> FloatingIp {
    service.external = vec![ExternalAddress { address: external, kind: ExternalKind::ExternalIp }];
    service
        .listeners
        .iter_mut()
        .for_each(|listener| listener.node_port = Some(super::service::port(node_port)));
    service
}

impl Tenancy {
    /// So many nodes that hold these networks, of which some pairs know each other.
    pub fn new(nodes: usize, networks: Vec<Network>, leaks: BTreeSet<(usize, usize)>) -> Self {
        let mut tenancy = Self { cluster: Cluster::with_slots(nodes, 2048), networks, leaks };
        for network in 0..tenancy.networks.len() {
            let of = &tenancy.networks[network];
            let leaked: Vec<&Network> =
                tenancy.leaked(network).map(|other| &tenancy.networks[other]).collect();
            let objects = [of.instances(&leaked), of.routes(&leaked)].concat();
            // What it refers to may come later: the instances come first.
            let (instances, routes) = objects.split_at(2);
            tenancy.cluster.put(instances);
            tenancy.cluster.put(routes);
        }
        tenancy
    }

    /// The networks that know this one, and that it knows.
    pub fn leaked(&self, network: usize) -> impl Iterator<Item = usize> + '_ {
        self.leaks.iter().filter_map(move |&(one, other)| match network {
            _ if network == one => Some(other),
            _ if network == other => Some(one),
            _ => None,
        })
    }

    /// Attaches a pod, and leads to it from wherever its network is known.
    pub fn pod(&mut self, network: usize, node: usize, v4: IpAddr, v6: IpAddr) -> PodHandle {
        let Network { kind, pods, .. } = self.networks[network];
        let hosts = [v4, v6].map(IpNet::from);
        let handle = self.cluster.pod_in(pods, node, v4, v6);
        let (there, into) = (NextHop::Tunnel(router(node)), NextHop::VrfTranslate(pods));
        if kind != Kind::Default {
            self.cluster.put(&all(pods, hosts, there.clone()));
        }
        if kind == Kind::Isolated {
            self.cluster.put(&all(fabric(), hosts, there));
            publish(&mut self.cluster, node, &all(fabric(), hosts, into.clone()));
        }
        if kind != Kind::Custom {
            let peers: Vec<VrfId> = self.leaked(network).map(|peer| self.networks[peer].pods).collect();
            peers.into_iter().for_each(|peer| self.cluster.put(&all(peer, hosts, into.clone())));
        }
        handle
    }

    /// The addresses of the pod of this number in a network that has its own subnets: the same in all with the same ones.
    pub fn addresses(&self, network: usize, number: u16) -> [IpAddr; 2] {
        self.networks[network].subnets.map(|subnet| nth(subnet.prefix, number + 10))
    }
}

/// The address this far into a prefix.
pub fn nth(prefix: IpNet, number: u16) -> IpAddr {
    match prefix.addr() {
        IpAddr::V4(first) => IpAddr::from((u32::from(first) + u32::from(number)).to_be_bytes()),
        IpAddr::V6(first) => IpAddr::from((u128::from(first) + u128::from(number)).to_be_bytes()),
    }
}

fn number_of(family: Family) -> usize {
    FAMILIES.iter().position(|of| *of == family).expect("one of the two")
}

fn subnets(texts: [&str; 2]) -> [Subnet; 2] {
    prefixes(texts).map(|prefix| Subnet { prefix, gateway: nth(prefix, 1) })
}

/// Apart from the VRF's number, as it may be.
fn vni(of: VrfId) -> Vni {
    let number = if of.get() <= 3 { of.get() } else { 5000 + of.get() };
    Vni::new(number).expect("a small VNI")
}

fn all(vrf: VrfId, prefixes: [IpNet; 2], next_hop: NextHop) -> Vec<Object> {
    prefixes
        .map(|prefix| Object::Route(Route { key: RouteKey { vrf, prefix }, next_hop: next_hop.clone() }))
        .to_vec()
}

/// The same member of another listener.
fn renumbered(member: &Member, listener: u32) -> Member {
    Member { id: MemberId::new(member.id.get() * 10 + listener).expect("not 0"), ..member.clone() }
}
