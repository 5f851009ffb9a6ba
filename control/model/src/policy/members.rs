//! Who is in a peer set, and with which addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_objects::{Object, PeerAddress, PeerAddressKey, PeerSetId, Port, VrfId};

use super::{Meaning, Whom};
use crate::NamespacedName;
use crate::index::Index;
use crate::kube::{Block, PodRecord};
use crate::network::PodPlace;
use crate::tables::{Layer, Placed};

/// What a set holds of a pod: nothing where it does not mean it.
pub fn elements(index: &Index, (set, meaning): (PeerSetId, &Meaning), name: &NamespacedName) -> Placed {
    let Some(pod) = index.pods.get(name).filter(|pod| pod.has_interface()) else { return Placed::new() };
    let Some(port) = port(meaning, pod) else { return Placed::new() };
    let addresses = addresses(index, name, pod).into_iter();
    let meant = addresses.filter(|(_, address)| match &meaning.whom {
        Whom::Pods(selection) => index.selects(selection, name, pod),
        Whom::Block(block) => holds(block, *address),
    });
    let element = |(space, address)| {
        let key = PeerAddressKey { set, space, address };
        (Layer::PeerSet(set), Object::PeerAddress(PeerAddress { key, port }))
    };
    meant.map(element).collect()
}

/// The port that a set is about, as the pod numbers it; `None`: the pod has none of that name, and so is not meant.
fn port(meaning: &Meaning, pod: &PodRecord) -> Option<Option<Port>> {
    match &meaning.port {
        None => Some(None),
        Some(name) => pod.named_port(&name.name, name.protocol).map(Some),
    }
}

/// The addresses that are the pod's and nobody else's, each with its address space: one that several pods claim means its
/// owner alone.
fn addresses(index: &Index, name: &NamespacedName, pod: &PodRecord) -> BTreeSet<(VrfId, IpAddr)> {
    let places = index.places(name, pod).into_iter();
    let claimed = places.flat_map(|PodPlace { space, addresses, .. }| {
        addresses.into_iter().map(move |address| (space, address))
    });
    let is_own = |(space, address): &(VrfId, IpAddr)| {
        index.owner(*space, *address).is_some_and(|owner| owner.pod == name)
    };
    claimed.filter(is_own).collect()
}

fn holds(block: &Block, address: IpAddr) -> bool {
    block.prefix.contains(&address) && !block.except.iter().any(|part| part.contains(&address))
}
