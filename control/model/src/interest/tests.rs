//! Whatever comes and goes: a node holds what can be reached from it, as a plain search finds it.

use proptest::prelude::*;
use vrouter_objects::{
    FloatingIp, FloatingIpId, Listener, ListenerId, MacAddress, Member, MemberId, NetworkKind, NextHop,
    ObjectError, Peer, PeerSetId, Peers, PodBinding, PodName, Policy, PolicyAction, PolicyId, PolicyRule,
    Port, Ports, Route, RouteKey, RouterId, RouterKind, RoutingInstance, ServiceProtocol, Tier,
    VirtualRouter, Vni,
};

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The fabric is the first network.
const NETWORKS: std::ops::Range<u32> = 1..6;
const POLICIES: std::ops::Range<u32> = 1..4;
const SETS: std::ops::Range<u32> = 1..5;

fn id<T>(number: u32, new: fn(u32) -> Result<T, ObjectError>) -> T {
    new(number).unwrap()
}

fn vrf(number: u32) -> VrfId {
    id(number, VrfId::new)
}

fn network(number: u32) -> Layer {
    Layer::Network(vrf(number))
}

fn own(node: usize) -> Layer {
    Layer::Node(NODES[node].to_owned())
}

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    Put(Layer, Object),
    Remove(Layer, ObjectKey),
    Interface(usize, u32, Option<u32>),
    Enlist(usize),
    Dismiss(usize),
    Settle,
}

fn route(of: u32, to: u32) -> Object {
    let prefix = format!("10.{to}.0.0/16").parse().unwrap();
    let next_hop = NextHop::VrfTranslate(vrf(to));
    Object::Route(Route { key: RouteKey { vrf: vrf(of), prefix }, next_hop })
}

fn binding(pod: u8, of: u32, policies: &[u32]) -> Object {
    let name = PodName { namespace: "shop".to_owned(), name: format!("p{pod}") };
    let policies = policies.iter().map(|&policy| id(policy, PolicyId::new)).collect();
    Object::PodBinding(PodBinding { policies, ..PodBinding::new(name, "", vrf(of)) })
}

/// A policy whose rules of the two directions are about these sets.
fn policy(number: u32, sets: [&[u32]; 2]) -> Object {
    let [ingress, egress] = sets.map(|sets| {
        let peers = sets.iter().map(|&set| Peer::Set(id(set, PeerSetId::new))).collect();
        let (name, action) = ("rule".to_owned(), PolicyAction::Allow);
        Some(vec![PolicyRule { name, action, peers: Peers::These(peers), ports: Ports::Any }])
    });
    let (id, name) = (id(number, PolicyId::new), format!("policy {number}"));
    Object::Policy(Policy { id, name, tier: Tier::Namespace, ingress, egress })
}

/// A service of a network with a member in another.
fn floating_ip(of: u32, member: Option<u32>, node_port: bool) -> Object {
    let address = [10, 96, 0, of as u8].into();
    let mut floating_ip = FloatingIp::new(id(of, FloatingIpId::new), "shop/web", vrf(of), address, vrf(1));
    let port = |number| Port::new(number).unwrap();
    let end = ([10, 0, 0, 1].into(), port(80));
    let members = member.map(|member| Member::new(id(1, MemberId::new), vrf(member), end.0, end.1));
    floating_ip.listeners = vec![Listener {
        id: id(1, ListenerId::new),
        name: String::new(),
        protocol: ServiceProtocol::Tcp,
        port: port(80),
        node_port: node_port.then(|| port(30_000)),
        members: members.into_iter().collect(),
    }];
    Object::FloatingIp(floating_ip)
}

fn fabric() -> Object {
    let network = RoutingInstance::new(vrf(1), "default/ip-fabric", Vni::new(1).unwrap(), Vec::new());
    Object::RoutingInstance(RoutingInstance { kind: NetworkKind::Fabric, ..network })
}

fn router(node: usize) -> Object {
    Object::VirtualRouter(VirtualRouter {
        id: id(node as u32 + 1, RouterId::new),
        name: NODES[node].to_owned(),
        address: [172, 30, 0, node as u8].into(),
        mac: MacAddress::local(0x56, node as u32),
        addresses: Vec::new(),
        zone: String::new(),
        kind: RouterKind::Vrouter,
    })
}

fn an_object() -> impl Strategy<Value = (Layer, Object)> {
    let some = |range| prop::collection::vec(range, 0..3);
    prop_oneof![
        2 => (0..NODES.len(), 0..6_u8, NETWORKS, some(POLICIES))
            .prop_map(|(node, pod, of, policies)| (own(node), binding(pod, of, &policies))),
        2 => (POLICIES, some(SETS), some(SETS)).prop_map(|(number, ingress, egress)| {
            (Layer::Policy(id(number, PolicyId::new)), policy(number, [&ingress, &egress]))
        }),
        3 => (NETWORKS, NETWORKS).prop_map(|(of, to)| (network(of), route(of, to))),
        1 => (0..NODES.len(), NETWORKS).prop_map(|(node, to)| (own(node), route(1, to))),
        2 => (NETWORKS, prop::option::of(NETWORKS), any::<bool>())
            .prop_map(|(of, member, node_port)| (network(of), floating_ip(of, member, node_port))),
        1 => Just((network(1), fabric())),
        1 => (0..NODES.len()).prop_map(|node| (Layer::Fabric, router(node))),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    let node = 0..NODES.len();
    prop_oneof![
        6 => an_object().prop_map(|(layer, object)| Step::Put(layer, object)),
        3 => an_object().prop_map(|(layer, object)| Step::Remove(layer, object.key())),
        2 => (node.clone(), 1..3_u32, prop::option::of(NETWORKS))
            .prop_map(|(node, vmi, network)| Step::Interface(node, vmi, network)),
        1 => node.clone().prop_map(Step::Enlist),
        1 => node.prop_map(Step::Dismiss),
        2 => Just(Step::Settle),
    ]
}

/// The interest, and all that it is made from.
#[derive(Default)]
struct World {
    interest: Interest,
    objects: BTreeMap<(Layer, ObjectKey), Object>,
    interfaces: BTreeMap<(usize, u32), u32>,
    enlisted: BTreeSet<usize>,
    /// As the changes have it.
    held: BTreeSet<(String, Layer)>,
}

impl World {
    fn take(&mut self, step: Step) {
        match step {
            Step::Put(layer, object) => {
                self.interest.object(&layer, &object.key(), Some(&object));
                self.objects.insert((layer, object.key()), object);
            }
            Step::Remove(layer, key) => {
                self.interest.object(&layer, &key, None);
                self.objects.remove(&(layer, key));
            }
            Step::Interface(node, vmi, network) => {
                self.interest.interface(NODES[node], id(vmi, VmiId::new), network.map(vrf));
                match network {
                    Some(network) => self.interfaces.insert((node, vmi), network),
                    None => self.interfaces.remove(&(node, vmi)),
                };
            }
            Step::Enlist(node) => {
                self.interest.enlist(NODES[node]);
                self.enlisted.insert(node);
            }
            Step::Dismiss(node) => {
                self.interest.dismiss(NODES[node]);
                self.enlisted.remove(&node);
            }
            Step::Settle => self.settle(),
        }
    }

    fn settle(&mut self) {
        for InterestChange { node, layer, holding } in self.interest.settle() {
            let is_news = match holding {
                Holding::Held => self.held.insert((node, layer)),
                Holding::Dropped => self.held.remove(&(node, layer)),
            };
            assert!(is_news);
        }
        assert!(!self.interest.has_changes());
    }

    /// Everything that a node's own layer leads to.
    fn reachable(&self, node: usize) -> BTreeSet<Layer> {
        let needs = self.objects.iter().flat_map(|((layer, _), object)| needs_of(layer, object));
        let interfaces = self.interfaces.iter().map(|(&(node, _), &of)| node_needs(NODES[node], network(of)));
        let enlisted = self.enlisted.iter().map(|&node| node_needs(NODES[node], Layer::Fabric));
        let needs: Vec<Need> = needs.chain(interfaces).chain(enlisted).collect();
        let mut reachable = BTreeSet::from([own(node)]);
        while let Some(next) =
            needs.iter().find(|need| reachable.contains(&need.holder) && !reachable.contains(&need.layer))
        {
            reachable.insert(next.layer.clone());
        }
        reachable.remove(&own(node));
        reachable
    }

    fn check(&mut self) {
        self.settle();
        for (node, name) in NODES.into_iter().enumerate() {
            let reachable = self.reachable(node);
            assert!(self.interest.of(name).eq(&reachable), "{name}: {reachable:?}");
            let told = self.held.iter().filter(|(holder, _)| holder == name);
            assert!(told.map(|(_, layer)| layer).eq(&reachable), "{name} was told something else");
        }
        let needed = self.interest.bundles.keys();
        assert!(needed.clone().all(|layer| self.interest.needing.get(layer).next().is_some()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_node_holds_what_can_be_reached_from_it(steps in prop::collection::vec(a_step(), 1..60)) {
        let mut world = World::default();
        for step in steps {
            world.take(step);
        }
        world.check();
    }
}

#[test]
fn a_composite_route_leads_into_all_its_networks() {
    let parts = [2, 3].map(|of| NextHop::VrfTranslate(vrf(of))).to_vec();
    let prefix = "10.0.0.0/8".parse().unwrap();
    let next_hop = NextHop::Composite(parts);
    let route = Object::Route(Route { key: RouteKey { vrf: vrf(1), prefix }, next_hop });
    let layers: Vec<Layer> = needs_of(&network(1), &route).into_iter().map(|need| need.layer).collect();
    assert_eq!(layers, [network(2), network(3)]);
}

#[test]
fn one_pods_change_is_one_nodes_change() {
    let mut world = World::default();
    for number in POLICIES {
        world.take(Step::Put(Layer::Policy(id(number, PolicyId::new)), policy(number, [&[number], &[4]])));
        world.take(Step::Put(own(0), binding(number as u8, 2, &[number])));
    }
    world.settle();
    // A second pod of one policy: nothing that the node does not hold.
    world.take(Step::Put(own(0), binding(9, 2, &[1])));
    assert_eq!(world.interest.settle(), []);
    world.take(Step::Put(own(1), binding(9, 2, &[1])));
    let gained: Vec<_> =
        world.interest.settle().into_iter().map(|change| (change.node, change.layer)).collect();
    let set = |number| Layer::PeerSet(id(number, PeerSetId::new));
    let expected = [network(2), Layer::Policy(id(1, PolicyId::new)), set(1), set(4)];
    assert_eq!(gained, expected.map(|layer| ("n2".to_owned(), layer)));
    // A policy that comes to refer to another set: those that hold it.
    world.take(Step::Put(Layer::Policy(id(1, PolicyId::new)), policy(1, [&[1, 3], &[4]])));
    let gained: Vec<_> =
        world.interest.settle().into_iter().map(|change| (change.node, change.layer)).collect();
    assert_eq!(gained, [("n2".to_owned(), set(3))], "the first node holds that set already");
}
