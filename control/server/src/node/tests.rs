//! The rules of the channel, without one.

use std::sync::Arc;

use vrouter_control_model::{Change, Holding, InterestChange, Layer};
use vrouter_objects::{NextHop, Object, Route, RouteKey, VrfId};

use super::*;
use crate::published::Published;

fn key(number: u8) -> ObjectKey {
    ObjectKey::Route(route_key(number))
}

fn route_key(number: u8) -> RouteKey {
    RouteKey { vrf: VrfId::new(1).unwrap(), prefix: format!("10.244.{number}.0/24").parse().unwrap() }
}

/// What is published, and a node that hears of each change.
struct Pair {
    published: Published,
    node: NodeSync,
    version: u64,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self { published: Published::default(), node: NodeSync::default(), version: 0 };
        pair.hold(Layer::Fabric, Holding::Held);
        pair.set(Layer::Fabric, 1, Some(NextHop::Discard));
        pair
    }

    fn set(&mut self, layer: Layer, number: u8, next_hop: Option<NextHop>) {
        let object =
            next_hop.map(|next_hop| Arc::new(Object::Route(Route { key: route_key(number), next_hop })));
        let node = &mut self.node;
        self.published.apply(Change { layer, key: key(number), object }, &mut |name, key| {
            assert_eq!(name, "n1");
            node.changed(key);
        });
    }

    fn hold(&mut self, layer: Layer, holding: Holding) {
        let node = &mut self.node;
        let change = InterestChange { node: "n1".to_owned(), layer, holding };
        self.published.hold(change, &mut |_, key| node.changed(key));
    }

    fn view(&self) -> View<'_> {
        self.published.view("n1").unwrap()
    }

    fn digest(&self) -> Digest {
        self.view().digest()
    }

    fn hello(&mut self, version: u64, digest: Digest) {
        self.node.hello(Version(version), digest, self.published.view("n1").unwrap());
    }

    fn update(&mut self) -> Option<Arc<Update>> {
        self.version += 1;
        self.node.next_update(Version(self.version), self.published.view("n1").unwrap())
    }

    fn applied(&mut self, version: Version, digest: Digest, refused: &[u8]) -> Acknowledged {
        let refusals = refused.iter().map(|&number| (key(number), "why not".to_owned())).collect();
        self.node.applied(version, digest, refusals, self.published.view("n1").unwrap())
    }

    /// The digest of everything but these.
    fn digest_without(&self, refused: &[u8]) -> Digest {
        let view = self.view();
        let mut digest = view.digest();
        refused.iter().for_each(|&number| digest.remove(view.get(&key(number)).unwrap().digest));
        digest
    }

    /// Sends what is pending and has it acknowledged.
    fn exchange(&mut self) -> Arc<Update> {
        let update = self.update().unwrap();
        assert_eq!(self.applied(update.version, update.digest, &[]), Acknowledged::AsSent);
        update
    }
}

#[test]
fn everything_then_differences() {
    let mut pair = Pair::new();
    pair.hello(0, Digest::default());
    let first = pair.exchange();
    assert_eq!((first.base, first.puts.len()), (None, 1));
    pair.set(Layer::Fabric, 2, Some(NextHop::Discard));
    pair.set(Layer::Fabric, 1, None);
    let second = pair.exchange();
    assert_eq!((second.base, second.puts.len(), second.removes.len()), (Some(first.version), 1, 1));
    assert!(pair.update().is_none() && pair.node.is_current());
}

#[test]
fn the_nodes_own_layer_hides_the_shared_ones() {
    let mut pair = Pair::new();
    let shared = pair.digest();
    pair.set(Layer::Node("n1".to_owned()), 1, Some(NextHop::Reject));
    let own = pair.digest();
    assert_ne!(own, shared);
    assert_eq!(pair.view().objects().len(), 1);
    // What is beneath may come and go unseen.
    pair.exchange();
    pair.set(Layer::Fabric, 1, None);
    pair.set(Layer::Fabric, 1, Some(NextHop::Discard));
    assert!(pair.digest() == own && pair.update().is_none());
    pair.set(Layer::Node("n1".to_owned()), 1, None);
    assert_eq!(pair.digest(), shared);
}

#[test]
fn a_lost_acknowledgement_is_made_up_for_by_the_next_hello() {
    for applied in [true, false] {
        let mut pair = Pair::new();
        pair.hello(0, Digest::default());
        let first = pair.exchange();
        pair.set(Layer::Fabric, 2, Some(NextHop::Discard));
        let lost = pair.update().unwrap();
        pair.set(Layer::Fabric, 3, Some(NextHop::Discard));
        let held = if applied { &lost } else { &first };
        pair.hello(held.version.0, held.digest);
        let next = pair.exchange();
        assert_eq!(next.base, Some(held.version));
        assert_eq!(next.puts.len(), if applied { 1 } else { 2 });
    }
}

#[test]
fn drift_is_repaired_once_and_then_at_the_next_change() {
    let mut pair = Pair::new();
    pair.hello(0, Digest::default());
    pair.exchange();
    pair.set(Layer::Fabric, 2, Some(NextHop::Discard));
    let delta = pair.update().unwrap();
    assert_eq!(pair.applied(delta.version, Digest::default(), &[]), Acknowledged::Drifted);
    let full = pair.update().unwrap();
    assert_eq!(full.base, None);
    assert_eq!(pair.applied(full.version, Digest::default(), &[]), Acknowledged::Drifted);
    assert!(pair.update().is_none(), "sending the same again would go on for ever");
    assert!(pair.node.has_drifted() && !pair.node.is_current(), "but it is not what it should be");
    pair.set(Layer::Fabric, 3, Some(NextHop::Discard));
    assert_eq!(pair.exchange().base, None);
}

#[test]
fn refused_objects_are_left_out_of_the_digest_until_they_are_sent_again() {
    let mut pair = Pair::new();
    pair.hello(0, Digest::default());
    pair.exchange();
    let before = pair.digest();
    pair.set(Layer::Fabric, 2, Some(NextHop::Discard));
    let update = pair.update().unwrap();
    assert_eq!(pair.applied(update.version, before, &[2]), Acknowledged::AsSent);
    assert_eq!(pair.node.refused()[&key(2)].reason, "why not");
    // The node comes back as it was.
    pair.hello(update.version.0, before);
    assert!(pair.update().is_none() && pair.node.refused().len() == 1);
    // It takes another version of the object.
    pair.set(Layer::Fabric, 2, Some(NextHop::Reject));
    pair.exchange();
    assert!(pair.node.refused().is_empty());
}

#[test]
fn a_refusal_that_the_node_lifts_by_itself_is_no_drift() {
    let mut pair = Pair::new();
    pair.hello(0, Digest::default());
    pair.exchange();
    for number in [2, 3] {
        pair.set(Layer::Fabric, number, Some(NextHop::Discard));
    }
    let update = pair.update().unwrap();
    let digest = pair.digest_without(&[2, 3]);
    assert_eq!(pair.applied(update.version, digest, &[2, 3]), Acknowledged::AsSent);
    // Something that 2 was waiting for comes; what comes is no good for 1, which it had taken.
    pair.set(Layer::Fabric, 4, Some(NextHop::Discard));
    let update = pair.update().unwrap();
    let digest = pair.digest_without(&[1, 3]);
    assert_eq!(pair.applied(update.version, digest, &[1, 3]), Acknowledged::AsSent);
    assert_eq!(pair.node.refused().keys().collect::<Vec<_>>(), [&key(1), &key(3)]);
    pair.set(Layer::Fabric, 5, Some(NextHop::Discard));
    pair.exchange();
    assert!(pair.node.refused().is_empty());
}

#[test]
fn only_what_is_in_flight_can_be_acknowledged() {
    let mut pair = Pair::new();
    pair.hello(0, Digest::default());
    let update = pair.update().unwrap();
    assert!(pair.update().is_none(), "one at a time");
    let wrong = Version(update.version.0 + 1);
    assert_eq!(pair.applied(wrong, update.digest, &[]), Acknowledged::Unexpected);
    assert_eq!(pair.applied(update.version, update.digest, &[]), Acknowledged::AsSent);
    assert_eq!(pair.applied(update.version, update.digest, &[]), Acknowledged::Unexpected);
}
