//! Network policy: asked once when a flow begins, after the service's translation, and again when what decided it changed.
//!
//! What leaves a pod is asked about where the pod is, and what comes to one likewise. Answers and errors about a flow are
//! part of it.

use vrouter_objects::{DropReason, NextHop, PolicyDirection, VmiId, VrfId};

use super::locate::{Located, route_to};
use crate::address::Address;
use crate::flow::{FlowKey, Origin, PackedNextHop};
use crate::rewrite::Endpoint;
use crate::tables::{Epoch, InterfacePolicy, PortEntry, Request, Ruled, Snapshot};

/// A connection as policy sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    /// What its first packet was called as it came in.
    pub(crate) key: FlowKey,
    /// The source address that it leaves with.
    pub(crate) source: Address,
    /// The destination that it leaves with.
    pub(crate) destination: Endpoint,
    /// The network that it leaves by.
    pub(crate) egress_vrf: VrfId,
    /// Where its packets go.
    pub(crate) way_there: PackedNextHop,
    /// Where the answers go.
    pub(crate) way_back: PackedNextHop,
}

/// Why a pod's policies are not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exemption {
    /// The pod speaks to itself.
    Itself,
    /// It speaks with its own node, or its node with it: probes must get through.
    OwnNode,
}

/// What was asked about one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// Nothing: no pod of this node is at that end.
    Elsewhere,
    /// Nothing any more: the other end refuses already.
    NotAny,
    /// Nothing: no policy governs it.
    Ungoverned,
    /// Nothing, though there are policies.
    Exempt(Exemption),
    /// This was answered.
    Ruled(Ruled<'a>),
}

impl Asked<'_> {
    fn allows(&self) -> bool {
        match self {
            Self::Elsewhere | Self::NotAny | Self::Ungoverned | Self::Exempt(_) => true,
            Self::Ruled(ruled) => ruled.allows(),
        }
    }

    fn count(&self) {
        if let Self::Ruled(ruled) = self {
            ruled.count();
        }
    }
}

/// What was asked about a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judgement<'a> {
    /// As it leaves the pod that begins it.
    pub(crate) egress: Asked<'a>,
    /// As it comes to the pod that it is to.
    pub(crate) ingress: Asked<'a>,
}

impl Judgement<'_> {
    /// Counts that the connection begins, where that was allowed.
    pub(super) fn count(&self) {
        self.egress.count();
        self.ingress.count();
    }

    /// The reason to drop a packet of it, if there is one, which is counted where it is refused.
    pub(super) fn refuse(&self) -> Result<(), DropReason> {
        let ends = [(self.egress, DropReason::PolicyEgress), (self.ingress, DropReason::PolicyIngress)];
        match ends.into_iter().find(|(asked, _)| !asked.allows()) {
            Some((asked, reason)) => {
                asked.count();
                Err(reason)
            }
            None => Ok(()),
        }
    }
}

/// Whether a connection may go on that was last looked at in this epoch.
pub(super) fn readmit(snapshot: &Snapshot, connection: &Connection, since: Epoch) -> Result<(), DropReason> {
    let pods = Pods::of(snapshot, connection);
    if !pods.have_changed(snapshot, since) {
        return Ok(());
    }
    pods.judge(snapshot, connection).refuse()
}

/// What policy says of a connection.
pub(super) fn judge<'a>(snapshot: &'a Snapshot, connection: &Connection) -> Judgement<'a> {
    Pods::of(snapshot, connection).judge(snapshot, connection)
}

/// The pods of this node at a connection's ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pods<'a> {
    from: Option<&'a PortEntry>,
    to: Option<&'a PortEntry>,
}

impl<'a> Pods<'a> {
    /// Those that a connection's packets and answers go to.
    pub(super) fn of(snapshot: &'a Snapshot, connection: &Connection) -> Self {
        Self { from: pod(snapshot, connection.way_back), to: pod(snapshot, connection.way_there) }
    }

    /// Whether any policy governs one of them.
    #[inline]
    pub(super) fn are_governed(&self) -> bool {
        let is_governed = |pod: Option<&PortEntry>| pod.is_some_and(|pod| pod.policy.is_some());
        is_governed(self.from) || is_governed(self.to)
    }

    /// Whether their policies have a say at all: then nobody must be able to pass a forbidden connection off as the answers of
    /// an allowed one.
    #[cold]
    pub(super) fn have_a_say(&self, snapshot: &Snapshot, connection: &Connection) -> bool {
        self.are_governed() && self.exemption(snapshot, connection).is_none()
    }

    /// Whether what they are judged by has changed: their policies, or whether it is their own node that they speak with.
    fn have_changed(&self, snapshot: &Snapshot, since: Epoch) -> bool {
        if snapshot.have_own_addresses_changed(since) {
            return true;
        }
        let mut policies = [self.from, self.to].into_iter().flatten().filter_map(|pod| pod.policy.as_deref());
        policies.any(|policy| policy.has_changed(snapshot.peers(), since))
    }

    /// What their policies say of a connection.
    pub(super) fn judge(&self, snapshot: &'a Snapshot, connection: &Connection) -> Judgement<'a> {
        let exemption = self.exemption(snapshot, connection);
        let peers = snapshot.peers();
        let egress = asked(self.from, PolicyDirection::Egress, exemption, |policy| {
            policy.rule(PolicyDirection::Egress, peers, &to_destination(snapshot, connection))
        });
        if !egress.allows() {
            return Judgement { egress, ingress: Asked::NotAny };
        }
        let ingress = asked(self.to, PolicyDirection::Ingress, exemption, |policy| {
            policy.rule(PolicyDirection::Ingress, peers, &self.admission(snapshot, connection))
        });
        Judgement { egress, ingress }
    }

    /// Why nobody is asked. "Traffic to and from the node where a Pod is running is always allowed."
    fn exemption(&self, snapshot: &Snapshot, connection: &Connection) -> Option<Exemption> {
        match (self.from, self.to) {
            (Some(from), Some(to)) => (from.vmi == to.vmi).then_some(Exemption::Itself),
            (Some(_), None) => {
                let is_own_node = connection.way_there == PackedNextHop::Receive
                    && snapshot.is_own_address(connection.destination.address);
                is_own_node.then_some(Exemption::OwnNode)
            }
            (None, Some(_)) => is_of_own_node(snapshot, &connection.key).then_some(Exemption::OwnNode),
            (None, None) => None,
        }
    }

    /// Who asks to be let in.
    fn admission(&self, snapshot: &Snapshot, connection: &Connection) -> Request {
        let Connection { key, source, destination, .. } = *connection;
        let is_in_own_name = source == key.source;
        let space = match (self.from, connection.way_back) {
            (Some(from), _) => snapshot.address_space(from.vrf).filter(|_| is_in_own_name),
            (None, PackedNextHop::Tunnel(_)) => space_of(snapshot, key.vrf, source),
            // From the node, or through it: nobody of the cluster.
            (None, _) => None,
        };
        Request { space, address: source, protocol: key.protocol, port: destination.port }
    }
}

/// Whom a pod asks to speak to.
fn to_destination(snapshot: &Snapshot, connection: &Connection) -> Request {
    let Connection { key, destination, egress_vrf, .. } = *connection;
    let space = snapshot.address_space(egress_vrf);
    Request { space, address: destination.address, protocol: key.protocol, port: destination.port }
}

/// Asks the policies of the pod at one end.
#[inline]
fn asked<'a>(
    pod: Option<&'a PortEntry>,
    direction: PolicyDirection,
    exemption: Option<Exemption>,
    rule: impl FnOnce(&'a InterfacePolicy) -> Ruled<'a>,
) -> Asked<'a> {
    let Some(pod) = pod else { return Asked::Elsewhere };
    match (pod.policy.as_deref().filter(|policy| policy.governs(direction)), exemption) {
        (None, _) => Asked::Ungoverned,
        (Some(_), Some(exemption)) => Asked::Exempt(exemption),
        (Some(policy), None) => Asked::Ruled(rule(policy)),
    }
}

/// Whether this node begins it. Pods of networks that share addresses with the nodes are no nodes, and those of networks that
/// theirs is leaked with come in like strangers.
fn is_of_own_node(snapshot: &Snapshot, key: &FlowKey) -> bool {
    let leads_to_node = || {
        let located = route_to(snapshot, key.vrf, key.source);
        matches!(located, Located::Hop { next_hop: NextHop::Receive, .. })
    };
    key.origin != Origin::Cluster && snapshot.is_own_address(key.source) && leads_to_node()
}

/// The network whose address this is, as it is known in another one.
fn space_of(snapshot: &Snapshot, vrf: VrfId, address: Address) -> Option<VrfId> {
    match route_to(snapshot, vrf, address) {
        Located::Hop { vrf, .. } => snapshot.address_space(vrf),
        Located::Service(_) | Located::LinkLocal(_) | Located::Reject | Located::Nowhere(_) => None,
    }
}

/// The pod of this node that packets of this next hop go to.
#[inline]
fn pod(snapshot: &Snapshot, hop: PackedNextHop) -> Option<&PortEntry> {
    match hop {
        PackedNextHop::Interface(vmi) if vmi != VmiId::HOST => snapshot.port_of(vmi),
        _ => None,
    }
}
