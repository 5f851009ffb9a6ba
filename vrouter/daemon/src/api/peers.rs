//! Peer sets, as the local API shows them.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Status;
use vrouter_objects::{Object, Peer, PeerSet, PeerSetId, Peers, Policy, PolicyDirection, PolicyId};
use vrouter_proto::v1;

use super::policies::held;
use super::tables::pieces;
use crate::agent::{Agent, State};

/// What is known of a set.
#[derive(Debug, Default)]
struct Known<'a> {
    set: Option<&'a PeerSet>,
    addresses: u32,
    policies: BTreeSet<PolicyId>,
}

/// Every set in brief, those included that are known by their addresses or by policies alone.
pub(super) fn peer_sets(agent: &Agent) -> Vec<v1::PeerSetTable> {
    let state = agent.state();
    let rows = known(&state).into_iter().map(|(id, known)| row(id, &known)).collect();
    pieces(rows).into_iter().map(|sets| v1::PeerSetTable { sets }).collect()
}

/// The addresses of one set.
pub(super) fn peer_addresses(agent: &Agent, set: PeerSetId) -> Vec<v1::PeerAddressTable> {
    let state = agent.state();
    let rows = state.tables.objects().filter_map(|object| match object {
        Object::PeerAddress(peer) if peer.key.set == set => Some(peer.into()),
        _ => None,
    });
    pieces(rows.collect()).into_iter().map(|addresses| v1::PeerAddressTable { addresses }).collect()
}

/// The set that a request names.
pub(super) fn requested(request: &v1::PeerAddressRequest) -> Result<PeerSetId, Status> {
    PeerSetId::new(request.set).map_err(|error| Status::invalid_argument(format!("set: {error}")))
}

fn known(state: &State) -> BTreeMap<PeerSetId, Known<'_>> {
    let mut known: BTreeMap<PeerSetId, Known<'_>> = BTreeMap::new();
    for object in state.tables.objects() {
        match object {
            Object::PeerSet(set) => known.entry(set.id).or_default().set = Some(set),
            Object::PeerAddress(peer) => known.entry(peer.key.set).or_default().addresses += 1,
            _ => {}
        }
    }
    for policy in held(state) {
        for set in sets_of(policy) {
            known.entry(set).or_default().policies.insert(policy.id);
        }
    }
    known
}

/// The sets that a policy's rules refer to.
fn sets_of(policy: &Policy) -> impl Iterator<Item = PeerSetId> {
    let rules = PolicyDirection::BOTH.into_iter().filter_map(|direction| policy.rules(direction)).flatten();
    let peers = rules.flat_map(|rule| match &rule.peers {
        Peers::Any => &[],
        Peers::These(peers) => peers.as_slice(),
    });
    peers.filter_map(|peer| match peer {
        Peer::Set(set) => Some(*set),
        Peer::Block { .. } => None,
    })
}

fn row(id: PeerSetId, known: &Known<'_>) -> v1::HeldPeerSet {
    let name = known.set.map(|set| set.name.clone()).unwrap_or_default();
    v1::HeldPeerSet {
        set: Some(v1::PeerSet { id: id.get(), name }),
        addresses: known.addresses,
        policies: known.policies.iter().map(|policy| policy.get()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{PeerAddress, PeerAddressKey, PolicyAction, PolicyRule, Port, Ports, Tier};

    use super::*;
    use crate::testing::{TestNode, basics, ip, vrf};

    fn set(id: u32) -> PeerSetId {
        PeerSetId::new(id).unwrap()
    }

    fn address(of: u32, address: &str, port: Option<i64>) -> Object {
        let key = PeerAddressKey { set: set(of), space: vrf(), address: ip(address) };
        Object::PeerAddress(PeerAddress { key, port: port.map(|port| Port::new(port).unwrap()) })
    }

    fn node() -> TestNode {
        let node = TestNode::new();
        let rule = PolicyRule {
            name: "ingress[0]".to_owned(),
            action: PolicyAction::Allow,
            peers: Peers::These(vec![Peer::Set(set(1)), Peer::Set(set(4))]),
            ports: Ports::Any,
        };
        let policy = Policy {
            id: PolicyId::new(7).unwrap(),
            name: "NetworkPolicy shop/front".to_owned(),
            tier: Tier::Namespace,
            ingress: Some(vec![rule]),
            egress: Some(vec![]),
        };
        let mut objects = basics();
        objects.extend([
            Object::Policy(policy),
            Object::PeerSet(PeerSet { id: set(1), name: "pods app=web".to_owned() }),
            Object::PeerSet(PeerSet { id: set(2), name: "nobody".to_owned() }),
            address(1, "10.244.0.5", Some(8080)),
            address(1, "fd00:10:244::5", None),
            address(3, "10.244.0.6", None),
        ]);
        node.apply(1, &objects).unwrap();
        node
    }

    #[test]
    fn sets_are_told_however_little_is_held_of_them() {
        let sets: Vec<_> = peer_sets(&node().agent).into_iter().flat_map(|table| table.sets).collect();
        let row = |id, name: &str, addresses, policies: &[u32]| v1::HeldPeerSet {
            set: Some(v1::PeerSet { id, name: name.to_owned() }),
            addresses,
            policies: policies.to_vec(),
        };
        let expected = [
            row(1, "pods app=web", 2, &[7]),
            row(2, "nobody", 0, &[]),
            row(3, "", 1, &[]),
            row(4, "", 0, &[7]),
        ];
        assert_eq!(sets, expected);
    }

    #[test]
    fn a_sets_addresses_are_its_own() {
        let node = node();
        let of = |id| -> Vec<_> {
            let tables = peer_addresses(&node.agent, set(id)).into_iter();
            tables
                .flat_map(|table| table.addresses)
                .map(|peer| PeerAddress::try_from(peer).unwrap())
                .collect()
        };
        let ports: Vec<_> = of(1).iter().map(|peer| (peer.key.address, peer.port.map(Port::get))).collect();
        assert_eq!(ports, [(ip("10.244.0.5"), Some(8080)), (ip("fd00:10:244::5"), None)]);
        assert_eq!(of(2), []);
        let error = requested(&v1::PeerAddressRequest { set: 0 }).unwrap_err();
        assert_eq!(error.message(), "set: peer set id 0 is not an id");
    }
}
