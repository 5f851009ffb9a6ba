//! Link-local addresses: how a node's own processes reach the node's interfaces, whatever networks these are in. In the nodes'
//! network the interface's own address may be somebody else's, and in the interface's network the node's may be.

use vrouter_objects::{VmiId, VrfId};

use super::plan::Refused;
use crate::address::Address;
use crate::flow::{Actions, FlowKey, Origin, Slot};
use crate::tables::Snapshot;

/// An interface that is reached by a link-local address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached<'a> {
    /// The network that it is in.
    pub(super) vrf: VrfId,
    /// Its address there.
    pub(super) address: &'a Address,
    /// The gateway that it knows there, from which packets come to it: answers find back.
    pub(super) gateway: &'a Address,
}

/// What is reached by a link-local address of this interface. Only this node itself means anything by it: pods, other nodes, and
/// whoever is beyond them are told that there is no way.
#[cold]
pub(super) fn reach<'a>(snapshot: &'a Snapshot, key: &FlowKey, vmi: VmiId) -> Result<Reached<'a>, Refused> {
    if key.origin != Origin::Host || !snapshot.is_own_address(key.source) {
        return Err(Refused::NoRoute);
    }
    let pod = snapshot.port_of(vmi).ok_or(Refused::NoRoute)?;
    let family = key.destination.family();
    let address = pod.addresses.iter().find(|address| address.family() == family).ok_or(Refused::NoRoute)?;
    let gateway = snapshot.gateway_for(pod.vrf, *address).ok_or(Refused::NoRoute)?;
    Ok(Reached { vrf: pod.vrf, address, gateway })
}

/// Whether a flow to this interface's link-local address still leads to what that means.
#[cold]
pub(super) fn still_reaches(snapshot: &Snapshot, key: &FlowKey, vmi: VmiId, initiator: &Slot) -> bool {
    reach(snapshot, key, vmi).is_ok_and(|reached| {
        initiator.decision().actions.has(Actions::BOTH)
            && initiator.egress_vrf() == Some(reached.vrf)
            && initiator.translated() == *reached.address
    })
}
