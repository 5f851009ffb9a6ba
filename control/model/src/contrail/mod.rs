//! The middle: services as Contrail's load balancers, with every choice made. Nodes' tables and the documents that
//! people see both follow from these.

mod members;

use std::net::{IpAddr, SocketAddr};

use vrouter_objects::{
    self as objects, FloatingIpId, ListenerId, MemberId, MemberState, NoMembers, Port, ServiceProtocol,
    VmiId, VrfId,
};

use crate::NamespacedName;
use crate::kube::TargetPort;

pub(crate) use members::Builder;

/// A Service as a load balancer of provider `native`: flows are spread by equal-cost routing, no proxy is in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancer {
    /// The Service.
    pub service: NamespacedName,
    /// The network its virtual addresses are in.
    pub vrf: VrfId,
    /// One floating IP per cluster address, the primary first.
    pub floating_ips: Vec<FloatingIp>,
}

/// A virtual address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its id.
    pub id: FloatingIpId,
    /// The address.
    pub address: IpAddr,
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
    /// Whether it takes new flows.
    pub state: MemberState,
}

impl LoadBalancer {
    /// What every node that reaches the service network holds of it.
    pub fn objects(&self) -> impl Iterator<Item = objects::FloatingIp> {
        self.floating_ips.iter().map(|floating_ip| objects::FloatingIp {
            id: floating_ip.id,
            name: self.service.to_string(),
            vrf: self.vrf,
            address: floating_ip.address,
            listeners: floating_ip.listeners.iter().map(Listener::object).collect(),
        })
    }

    /// The addresses of all members, each as often as it occurs.
    pub fn member_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let listeners = self.floating_ips.iter().flat_map(|floating_ip| &floating_ip.listeners);
        listeners.flat_map(|listener| listener.members.iter().map(|member| member.endpoint.ip()))
    }
}

impl Listener {
    fn object(&self) -> objects::Listener {
        objects::Listener {
            id: self.id,
            name: self.name.clone(),
            protocol: self.protocol,
            port: self.port,
            no_members: NoMembers::Reject,
            members: self.members.iter().map(Member::object).collect(),
        }
    }
}

impl Member {
    /// What people call it: the pod, or the bare address.
    pub fn name(&self) -> String {
        self.pod.as_ref().map_or_else(|| self.endpoint.ip().to_string(), NamespacedName::to_string)
    }

    fn object(&self) -> objects::Member {
        objects::Member {
            id: self.id,
            name: self.name(),
            vrf: self.vrf,
            address: self.endpoint.ip(),
            port: self.port,
            vmi: self.vmi,
            state: self.state,
        }
    }
}
