//! What there is to say of a service on this node.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{ExternalAddress, FloatingIp, Listener, Member, TrafficPolicy};

use crate::iptables::Family;
use crate::names::Names;
use crate::service::{HeldService, OwnNode, Scopes, ServiceView};
use crate::words;

/// A service of one family.
#[derive(Debug, Serialize)]
pub(super) struct Journey {
    pub(super) name: String,
    pub(super) family: &'static str,
    pub(super) id: u32,
    pub(super) address: IpAddr,
    pub(super) vrf: u32,
    pub(super) network: String,
    pub(super) external: Vec<External>,
    pub(super) internal_policy: &'static str,
    pub(super) external_policy: &'static str,
    pub(super) affinity_seconds: Option<u32>,
    pub(super) source_ranges: Vec<IpNet>,
    pub(super) health_check_port: Option<u16>,
    /// Where this node serves node ports.
    pub(super) node_addresses: Vec<IpAddr>,
    /// Where other nodes do.
    pub(super) other_node_addresses: Vec<IpAddr>,
    pub(super) listeners: Vec<Port>,
}

/// An address that it has besides its own.
#[derive(Debug, Serialize)]
pub(super) struct External {
    pub(super) address: IpAddr,
    pub(super) kind: &'static str,
}

/// One of its ports.
#[derive(Debug, Serialize)]
pub(super) struct Port {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) port: u16,
    pub(super) node_port: Option<u16>,
    pub(super) frontends: Vec<Frontend>,
    pub(super) members: Vec<Endpoint>,
}

/// Where one port is reached on this node.
#[derive(Debug, Serialize)]
pub(super) struct Frontend {
    pub(super) at: SocketAddr,
    pub(super) kind: &'static str,
    /// For pods, and for the node itself.
    pub(super) inside: Outcome,
    /// For everybody else.
    pub(super) outside: Outcome,
}

/// What becomes of a new flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub(super) enum Outcome {
    /// One of so many members gets it.
    Translate {
        /// Those of the cluster, or of the node.
        scope: &'static str,
        /// How many.
        members: usize,
    },
    /// There is no member at all.
    Reject,
    /// There is none that the policy allows.
    Drop,
}

/// A member with what it gets.
#[derive(Debug, Serialize)]
pub(super) struct Endpoint {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) at: SocketAddr,
    pub(super) state: &'static str,
    pub(super) node: String,
    pub(super) local: bool,
    /// Its share of the new flows that may go to all of the cluster; none: there are no such flows.
    pub(super) cluster_share: Option<f64>,
    /// Its share of those that may go to this node's members alone; likewise.
    pub(super) local_share: Option<f64>,
    pub(super) hits: u64,
    pub(super) flows: u32,
}

impl Journey {
    pub(super) fn of(held: &HeldService, view: &ServiceView, names: &Names) -> Self {
        let service = &held.floating_ip;
        let ports = NodePorts::of(Family::of(service.address), view);
        let listeners = service.listeners.iter();
        Self {
            name: service.name.clone(),
            family: Family::of(service.address).name(),
            id: service.id.get(),
            address: service.address,
            vrf: service.vrf.get(),
            network: names.network(service.vrf.get()),
            external: service.external.iter().map(External::of).collect(),
            internal_policy: words::policy(service.internal_policy),
            external_policy: words::policy(service.external_policy),
            affinity_seconds: service.affinity.map(|timeout| timeout.seconds()),
            source_ranges: service.source_ranges.clone(),
            health_check_port: service.health_check_port.map(|port| port.get()),
            listeners: listeners
                .map(|listener| Port::of(listener, held, &ports.own, &view.node, names))
                .collect(),
            node_addresses: ports.own,
            other_node_addresses: ports.others,
        }
    }
}

/// Where node ports are served.
struct NodePorts {
    own: Vec<IpAddr>,
    others: Vec<IpAddr>,
}

impl NodePorts {
    fn of(family: Family, view: &ServiceView) -> Self {
        let serves =
            |address: &IpAddr| Family::of(*address) == family && view.node.serves_node_ports_at(*address);
        let others = view.routers.iter().filter(|router| Some(router.id) != view.node.router);
        Self {
            own: view.node.addresses.iter().copied().filter(serves).collect(),
            others: others.flat_map(|router| router.addresses.iter().copied()).filter(serves).collect(),
        }
    }
}

impl External {
    fn of(external: &ExternalAddress) -> Self {
        Self { address: external.address, kind: words::external_kind(external.kind) }
    }
}

impl Port {
    fn of(
        listener: &Listener,
        held: &HeldService,
        node_addresses: &[IpAddr],
        node: &OwnNode,
        names: &Names,
    ) -> Self {
        let scopes = Scopes::of(&held.floating_ip, listener, node);
        let members = listener.members.iter();
        Self {
            id: listener.id.get(),
            name: listener.name.clone(),
            protocol: listener.protocol.to_string(),
            port: listener.port.get(),
            node_port: listener.node_port.map(|port| port.get()),
            frontends: frontends(&held.floating_ip, listener, &scopes, node_addresses),
            members: members.map(|member| endpoint(member, held, node, &scopes, names)).collect(),
        }
    }
}

fn frontends(
    service: &FloatingIp,
    listener: &Listener,
    scopes: &Scopes,
    node_addresses: &[IpAddr],
) -> Vec<Frontend> {
    let outcome = |policy| Outcome::of(policy, scopes);
    let internal = outcome(service.internal_policy);
    let (inside, outside) = (outcome(TrafficPolicy::Cluster), outcome(service.external_policy));
    let port = listener.port.get();
    let cluster = Frontend {
        at: SocketAddr::new(service.address, port),
        kind: "cluster IP",
        inside: internal,
        outside: internal,
    };
    let external = service.external.iter().map(|external| Frontend {
        at: SocketAddr::new(external.address, port),
        kind: words::external_kind(external.kind),
        inside,
        outside,
    });
    let node_ports = listener.node_port.into_iter().flat_map(|node_port| {
        let at = move |address: &IpAddr| SocketAddr::new(*address, node_port.get());
        node_addresses.iter().map(at).map(|at| Frontend { at, kind: "node port", inside, outside })
    });
    std::iter::once(cluster).chain(external).chain(node_ports).collect()
}

impl Outcome {
    fn of(policy: TrafficPolicy, scopes: &Scopes) -> Self {
        let members = scopes.by(policy).len();
        match members {
            0 if !scopes.is_usable => Self::Reject,
            0 => Self::Drop,
            members => Self::Translate { scope: words::policy(policy), members },
        }
    }
}

fn endpoint(member: &Member, held: &HeldService, node: &OwnNode, scopes: &Scopes, names: &Names) -> Endpoint {
    let share = |scope: &Option<Vec<&Member>>| {
        let scope = scope.as_ref()?;
        let takes = scope.iter().any(|taker| taker.id == member.id);
        Some(if takes { 1.0 / scope.len() as f64 } else { 0.0 })
    };
    let used = held.use_of(member.id);
    Endpoint {
        id: member.id.get(),
        name: member.name.clone(),
        at: SocketAddr::new(member.address, member.port.get()),
        state: words::member_state(member.state),
        node: names.router(member.router),
        local: node.has(member),
        cluster_share: share(&scopes.cluster),
        local_share: share(&scopes.local),
        hits: used.hits,
        flows: used.flows,
    }
}
