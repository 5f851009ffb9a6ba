//! The middle: services as Contrail's load balancers, with every choice made. Nodes' tables and the documents that
//! people see both follow from these.

mod candidates;
mod members;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use vrouter_objects::{
    ExternalAddress, FloatingIpId, ListenerId, MemberId, MemberState, Port, RouterId, ServiceProtocol,
    TopologyHints, VmiId, VrfId,
};

use crate::allocate::ListenerKey;
use crate::kube::{Policies, ServicePort, ServiceType, TargetPort};
use crate::network::ServiceNetworks;
use crate::{Family, NamespacedName};

pub(crate) use members::Builder;

/// A Service as a load balancer of provider `native`: flows are spread by equal-cost routing, no proxy is in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancer {
    /// The Service.
    pub service: NamespacedName,
    /// Its type.
    pub kind: ServiceType,
    /// Its networks.
    pub networks: ServiceNetworks,
    /// One floating IP per cluster address, the primary first.
    pub floating_ips: Vec<FloatingIp>,
    /// Who is led where.
    pub policies: Policies,
    /// Who may come by the load balancer's addresses; empty: everybody.
    pub source_ranges: Vec<IpNet>,
    /// Where nodes answer whether they have members of their own.
    pub health_check: Option<Port>,
    /// The names of the nodes that its members are on or meant for.
    pub nodes: BTreeSet<String>,
    /// The addresses of endpoints that are no members, as they are in other networks.
    pub foreign: BTreeSet<IpAddr>,
}

/// The virtual addresses of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its id.
    pub id: FloatingIpId,
    /// The cluster address.
    pub address: IpAddr,
    /// The addresses by which it is reached from outside.
    pub external: Vec<ExternalAddress>,
    /// One listener per Service port.
    pub listeners: Vec<Listener>,
}

/// A port of a virtual address, with its pool: each listener has exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its id.
    pub id: ListenerId,
    /// The Service port's name, empty where it has none.
    pub name: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// Its port.
    pub port: Port,
    /// Its port at the nodes' addresses.
    pub node_port: Option<Port>,
    /// The members' port, as the Service says it.
    pub target: TargetPort,
    /// Who answers, in order of their ids.
    pub members: Vec<Member>,
}

/// A service endpoint at one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: MemberId,
    /// The pod, where one is known.
    pub pod: Option<NamespacedName>,
    /// The network its address is in.
    pub vrf: VrfId,
    /// Address and port.
    pub endpoint: SocketAddr,
    /// The port of `endpoint`, as the domain has it.
    pub port: Port,
    /// Its interface, where its node reports interfaces.
    pub vmi: Option<VmiId>,
    /// The node it is on, where one is known.
    pub router: Option<RouterId>,
    /// What it may be given.
    pub state: MemberState,
    /// For whom it is meant.
    pub hints: TopologyHints,
}

/// What a service has beyond its cluster addresses, of that which each node has only once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exposed {
    /// Ports at the nodes' addresses.
    pub node_ports: BTreeMap<(Family, ListenerKey), Port>,
    /// Where nodes answer whether they have members of their own.
    pub health_check: Option<Port>,
    /// Addresses by which it is reached from outside, in order.
    pub external: Vec<ExternalAddress>,
}

impl LoadBalancer {
    /// The addresses of all endpoints, members or not, each as often as it occurs.
    pub fn endpoint_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let listeners = self.floating_ips.iter().flat_map(|floating_ip| &floating_ip.listeners);
        let members =
            listeners.flat_map(|listener| listener.members.iter().map(|member| member.endpoint.ip()));
        members.chain(self.foreign.iter().copied())
    }
}

impl Listener {
    /// The members that new flows go to, as far as the cluster as a whole decides: the ready ones, or where there are
    /// none those that still serve.
    pub fn usable_members(&self) -> impl Iterator<Item = &Member> {
        let of_state = |state| self.members.iter().filter(move |member| member.state == state);
        let any_ready = of_state(MemberState::Ready).next().is_some();
        of_state(if any_ready { MemberState::Ready } else { MemberState::Serving })
    }
}

impl Member {
    /// What people call it: the pod, or the bare address.
    pub fn name(&self) -> String {
        self.pod.as_ref().map_or_else(|| self.endpoint.ip().to_string(), NamespacedName::to_string)
    }
}

impl ServicePort {
    /// What identifies its listeners.
    pub fn key(&self) -> ListenerKey {
        ListenerKey { protocol: self.protocol, port: self.port }
    }
}
