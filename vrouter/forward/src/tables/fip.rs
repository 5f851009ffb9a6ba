//! Floating IPs as the data path reads them.

use std::sync::Arc;

use vrouter_objects::{
    AffinityTimeout, ExternalKind, FloatingIp, FloatingIpId, IpNet, IpProtocol, Listener, ListenerId,
    MemberId, TrafficPolicy, Vantage,
};

use super::Epoch;
use super::hits::Hits;
use super::pool::Pool;

/// A floating IP: its policies and its port mappings.
#[derive(Debug)]
pub(crate) struct FipEntry {
    pub(crate) id: FloatingIpId,
    /// When it last changed.
    pub(crate) generation: Epoch,
    pub(crate) affinity: Option<AffinityTimeout>,
    internal: TrafficPolicy,
    external: TrafficPolicy,
    /// Who may come by a load balancer's address; empty: everybody.
    source_ranges: Box<[IpNet]>,
    listeners: Box<[ListenerEntry]>,
}

/// One port mapping with its pool.
#[derive(Debug)]
pub(crate) struct ListenerEntry {
    pub(crate) id: ListenerId,
    pub(crate) pool: Pool,
}

/// What a frontend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontendKind {
    /// The cluster address.
    ClusterIp,
    /// A port at nodes' addresses.
    NodePort,
    /// Another address.
    External(ExternalKind),
}

/// One protocol and port of an address that leads to a service.
#[derive(Debug, Clone)]
pub(crate) struct Frontend {
    pub(crate) fip: Arc<FipEntry>,
    pub(crate) kind: FrontendKind,
    listener: usize,
}

/// Where a client of a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// In the cluster: a pod, or a process of this node.
    Inside,
    /// Beyond it.
    Outside,
}

/// The protocol and port of a frontend.
pub(super) type ServicePort = (IpProtocol, u16);

impl FipEntry {
    pub(super) fn new(
        fip: &FloatingIp,
        generation: Epoch,
        vantage: Vantage<'_>,
        mut hits: impl FnMut(MemberId) -> Hits,
    ) -> Self {
        let listener = |listener: &Listener| ListenerEntry {
            id: listener.id,
            pool: Pool::new(&listener.members, vantage, &mut hits),
        };
        Self {
            id: fip.id,
            generation,
            affinity: fip.affinity,
            internal: fip.internal_policy,
            external: fip.external_policy,
            source_ranges: fip.source_ranges.as_slice().into(),
            listeners: fip.listeners.iter().map(listener).collect(),
        }
    }
}

impl Frontend {
    /// The frontend of this kind at a floating IP's listener, counted from 0.
    pub(super) fn new(fip: &Arc<FipEntry>, kind: FrontendKind, listener: usize) -> Self {
        Self { fip: Arc::clone(fip), kind, listener }
    }

    /// The port mapping it leads to.
    #[inline]
    pub(crate) fn listener(&self) -> &ListenerEntry {
        &self.fip.listeners[self.listener]
    }

    /// Which members a client gets. Policy for external traffic binds who is outside alone, as in kube-proxy.
    #[inline]
    pub(crate) fn policy_for(&self, client: Client) -> TrafficPolicy {
        match (self.kind, client) {
            (FrontendKind::ClusterIp, _) => self.fip.internal,
            (_, Client::Outside) => self.fip.external,
            (_, Client::Inside) => TrafficPolicy::Cluster,
        }
    }

    /// Who alone may come by it (`loadBalancerSourceRanges`); `None`: everybody.
    #[inline]
    pub(crate) fn guard(&self) -> Option<&[IpNet]> {
        if self.kind != FrontendKind::External(ExternalKind::LoadBalancer) {
            return None;
        }
        Some(&*self.fip.source_ranges).filter(|ranges| !ranges.is_empty())
    }
}
