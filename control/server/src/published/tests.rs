//! Whatever comes and goes, in whatever order: each node ends up with its own layer over those that it holds.

use proptest::prelude::*;
use vrouter_objects::{
    FloatingIp, FloatingIpId, NextHop, ObjectError, PeerAddress, PeerAddressKey, PeerSetId, Port, Route,
    RouteKey, Version, VrfId,
};

use super::*;
use crate::node::{Acknowledged, NodeSync, Update};

const NODES: [&str; 2] = ["n1", "n2"];

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    /// An object of a layer is this, or gone.
    Apply(Change),
    /// A service is in this network, or gone.
    Service(Option<VrfId>),
    /// A node gains a layer that it does not hold, or loses the one that it holds.
    Turn(usize, Layer),
    /// A node that is connected takes what it is sent, and the acknowledgement arrives or does not.
    Take(usize, Arrives),
    /// A node comes back with what it has.
    Return(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrives {
    Both,
    UpdateAlone,
    Neither,
}

/// The network that the nodes' own layers are about.
fn first() -> VrfId {
    number(1, VrfId::new)
}

fn number<T>(number: u32, new: fn(u32) -> Result<T, ObjectError>) -> T {
    new(number).unwrap()
}

fn a_shared_layer() -> impl Strategy<Value = Layer> {
    let network = (1..3_u32).prop_map(|vrf| Layer::Network(number(vrf, VrfId::new)));
    let set = (1..4_u32).prop_map(|set| Layer::PeerSet(number(set, PeerSetId::new)));
    prop_oneof![1 => Just(Layer::Fabric), 2 => network, 2 => set]
}

/// An object of a layer, or that it is gone. The keys of the first network are those of the nodes' own layers too.
fn a_change() -> impl Strategy<Value = Step> {
    let own = (0..NODES.len()).prop_map(|node| Layer::Node(NODES[node].to_owned()));
    let layer = prop_oneof![3 => a_shared_layer(), 1 => own];
    (layer, 1..5_u8, prop::option::of(0..3_u8)).prop_map(|(layer, host, shape)| {
        let object = object(&layer, host, shape.unwrap_or_default());
        Step::Apply(change(layer, object.key(), shape.map(|_| object)))
    })
}

fn change(layer: Layer, key: ObjectKey, object: Option<Object>) -> Change {
    Change { layer, key, object: object.map(Arc::new) }
}

fn object(layer: &Layer, host: u8, shape: u8) -> Object {
    let vrf = match layer {
        Layer::PeerSet(set) => {
            let key = PeerAddressKey { set: *set, space: first(), address: [10, 0, 0, host].into() };
            let port = i64::from(shape) + 80;
            return Object::PeerAddress(PeerAddress { key, port: Port::new(port).ok() });
        }
        Layer::Network(vrf) => *vrf,
        Layer::Fabric => number(9, VrfId::new),
        Layer::Policy(_) | Layer::Node(_) => first(),
    };
    let prefix = format!("10.0.0.{host}/32").parse().unwrap();
    let next_hop = [NextHop::Reject, NextHop::Discard, NextHop::Receive][usize::from(shape)].clone();
    Object::Route(Route { key: RouteKey { vrf, prefix }, next_hop })
}

fn a_step() -> impl Strategy<Value = Step> {
    let node = 0..NODES.len();
    let arrives = prop_oneof![Just(Arrives::Both), Just(Arrives::UpdateAlone), Just(Arrives::Neither)];
    let network = prop::option::of(1..3_u32).prop_map(|vrf| vrf.map(|vrf| number(vrf, VrfId::new)));
    prop_oneof![
        6 => a_change(),
        1 => network.prop_map(Step::Service),
        4 => (node.clone(), a_shared_layer()).prop_map(|(node, layer)| Step::Turn(node, layer)),
        3 => (node.clone(), arrives).prop_map(|(node, arrives)| Step::Take(node, arrives)),
        1 => node.prop_map(Step::Return),
    ]
}

/// A node, and what the controller knows of it.
#[derive(Default)]
struct Node {
    sync: NodeSync,
    version: Version,
    objects: BTreeMap<ObjectKey, Arc<Encoded>>,
}

impl Node {
    fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.objects.values().for_each(|object| digest.add(object.digest));
        digest
    }

    fn take(&mut self, update: &Update) {
        match update.base {
            Some(base) => assert_eq!(base, self.version, "a difference to something else"),
            None => self.objects.clear(),
        }
        for object in &update.puts {
            self.objects.insert(object.key.clone(), object.clone());
        }
        update.removes.iter().for_each(|key| drop(self.objects.remove(key)));
        self.version = update.version;
        assert_eq!(self.digest(), update.digest);
    }
}

/// What is published, kept twice: as it is kept, and as plainly as can be.
#[derive(Default)]
struct World {
    published: Published,
    nodes: BTreeMap<&'static str, Node>,
    version: u64,
    objects: BTreeMap<Layer, BTreeMap<ObjectKey, Arc<Object>>>,
    held: BTreeSet<(&'static str, Layer)>,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        for node in NODES {
            world.nodes.insert(node, Node::default());
            world.turn(node, Layer::Fabric);
        }
        world
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Apply(change) => self.apply(change),
            Step::Service(network) => self.service(network),
            Step::Turn(_, Layer::Fabric) => {}
            Step::Turn(node, layer) => self.turn(NODES[node], layer),
            Step::Take(node, arrives) => self.exchange(NODES[node], arrives),
            Step::Return(node) => self.come_back(NODES[node]),
        }
    }

    fn apply(&mut self, change: Change) {
        let known = self.objects.entry(change.layer.clone()).or_default();
        match change.object.clone() {
            Some(object) => known.insert(change.key.clone(), object),
            None => known.remove(&change.key),
        };
        let nodes = &mut self.nodes;
        self.published.apply(change, &mut |node, key| nodes.get_mut(node).unwrap().sync.changed(key));
    }

    /// The networks change in their order: it may be in the new one before it has left the old one.
    fn service(&mut self, network: Option<VrfId>) {
        let id = number(1, FloatingIpId::new);
        for vrf in [1, 2].map(|vrf| number(vrf, VrfId::new)) {
            let object = FloatingIp::new(id, "shop/web", vrf, [10, 96, 0, 1].into(), first());
            let is_there = network == Some(vrf);
            let object = is_there.then_some(Object::FloatingIp(object));
            self.apply(change(Layer::Network(vrf), ObjectKey::FloatingIp(id), object));
        }
    }

    fn turn(&mut self, node: &'static str, layer: Layer) {
        let holding = match self.held.remove(&(node, layer.clone())) {
            true => Holding::Dropped,
            false => Holding::Held,
        };
        if holding == Holding::Held {
            self.held.insert((node, layer.clone()));
        }
        let nodes = &mut self.nodes;
        let change = InterestChange { node: node.to_owned(), layer, holding };
        self.published.hold(change, &mut |node, key| nodes.get_mut(node).unwrap().sync.changed(key));
    }

    fn exchange(&mut self, name: &'static str, arrives: Arrives) {
        let node = self.nodes.get_mut(name).unwrap();
        let view = self.published.view(name).unwrap();
        self.version += 1;
        let Some(update) = node.sync.next_update(Version(self.version), view) else { return };
        if arrives != Arrives::Neither {
            node.take(&update);
        }
        if arrives == Arrives::Both {
            let acknowledged = node.sync.applied(node.version, node.digest(), Vec::new(), view);
            assert_eq!(acknowledged, Acknowledged::AsSent);
        } else {
            self.come_back(name);
        }
    }

    fn come_back(&mut self, name: &'static str) {
        let node = self.nodes.get_mut(name).unwrap();
        let digest = node.digest();
        node.sync.hello(node.version, digest, self.published.view(name).unwrap());
    }

    /// The node's own layer over those that it holds.
    fn expected(&self, node: &'static str) -> BTreeMap<ObjectKey, Arc<Object>> {
        let held = self.held.iter().filter(|(holder, _)| *holder == node).map(|(_, layer)| layer.clone());
        let layers = held.chain([Layer::Node(node.to_owned())]);
        let mut expected = BTreeMap::new();
        for objects in layers.filter_map(|layer| self.objects.get(&layer)) {
            expected.extend(objects.clone());
        }
        expected
    }

    fn check(&mut self) {
        for node in NODES {
            // Once for what is in flight, once for what has come since.
            self.come_back(node);
            self.exchange(node, Arrives::Both);
            assert!(self.nodes[node].sync.is_current());
            let expected = self.expected(node);
            let messages = expected.iter().map(|(key, object)| (key, v1::Object::from(&**object)));
            let held = self.nodes[node].objects.iter();
            assert!(held.map(|(key, object)| (key, object.message.clone())).eq(messages), "{expected:?}");
            let view = self.published.view(node).unwrap();
            assert_eq!(view.digest(), self.nodes[node].digest());
            assert!(view.objects().iter().map(|object| &object.key).eq(expected.keys()));
            assert!(expected.keys().all(|key| view.get(key).is_some_and(|object| object.key == *key)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_node_ends_up_with_its_view(steps in prop::collection::vec(a_step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.check();
    }
}

#[test]
fn what_nobody_holds_any_more_leaves_nothing_behind() {
    let mut world = World::new();
    let layer = Layer::PeerSet(number(1, PeerSetId::new));
    let element = object(&layer, 1, 0);
    world.turn("n1", layer.clone());
    world.apply(change(layer.clone(), element.key(), Some(element.clone())));
    world.apply(change(Layer::Node("n2".to_owned()), object(&Layer::Fabric, 1, 0).key(), None));
    for node in NODES {
        world.turn(node, Layer::Fabric);
    }
    assert!(world.published.view("n1").is_none(), "nobody knows it");
    world.turn("n1", layer.clone());
    world.apply(change(layer, element.key(), None));
    let Published { shared, layers, tables } = &world.published;
    assert!(shared.is_empty() && layers.is_empty() && tables.is_empty(), "{layers:?} {tables:?}");
}
