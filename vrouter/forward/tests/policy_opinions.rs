//! What people are told that policy says is what it does: random policies, asked on every node that has a say, beside
//! packets sent.

mod support;

use std::net::IpAddr;

use proptest::prelude::*;
use support::{
    Client, Conversation, FAMILIES, MEMBER_PORT, SERVICE_PORT, Voice, address, fabric, hold, in_block,
    in_set, one_port, peer_set, policy, protocols, rule, select, vip, vrf,
};
use vrouter_forward::Family;
use vrouter_forward::policy::{Lead, Opinion, Question};
use vrouter_forward::sim::{Cluster, PodHandle, ServiceSpec};
use vrouter_objects::{
    DropReason, IpProtocol, NextHop, Object, Peers, Policy, PolicyAction, PolicyRule, Ports, Route, RouteKey,
    ServiceProtocol, Tier, VrfId,
};

/// Two pods on each of two nodes; a service leads to the last, on the second node, and to the second, on the first.
struct Scene {
    cluster: Cluster,
    pods: Vec<PodHandle>,
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let action = prop_oneof![Just(PolicyAction::Allow), Just(PolicyAction::Deny), Just(PolicyAction::Pass)];
    let peers = prop_oneof![
        Just(Peers::Any),
        Just(Peers::These(Vec::new())),
        (1..=3_u32).prop_map(in_set),
        Just(in_block("10.244.0.0/16", &["10.244.2.0/24"])),
        Just(in_block("fd00:10:244:1::/64", &[])),
        Just(in_block("203.0.113.0/24", &[])),
        Just(in_block("::/0", &["fd00:10:244::/48"])),
    ];
    let ports = prop_oneof![
        2 => Just(Ports::Any),
        1 => Just(one_port(ServiceProtocol::Tcp, MEMBER_PORT)),
        1 => Just(one_port(ServiceProtocol::Udp, MEMBER_PORT)),
        1 => Just(one_port(ServiceProtocol::Tcp, SERVICE_PORT)),
    ];
    (action, peers, ports).prop_map(|(action, peers, ports)| rule(action, peers, ports))
}

fn any_policy(number: u32) -> impl Strategy<Value = Policy> {
    let tier = prop_oneof![
        (0..3_u16).prop_map(Tier::Admin),
        Just(Tier::Namespace),
        (0..3_u16).prop_map(Tier::Baseline)
    ];
    let rules = || prop::option::of(prop::collection::vec(any_rule(), 0..3));
    (tier, rules(), rules()).prop_map(move |(tier, ingress, egress)| {
        let only_allow = |rules: Vec<PolicyRule>| -> Vec<PolicyRule> {
            let allows = |rule| PolicyRule { action: PolicyAction::Allow, ..rule };
            if tier == Tier::Namespace { rules.into_iter().map(allows).collect() } else { rules }
        };
        Policy { ingress: ingress.map(only_allow), egress: egress.map(only_allow), ..policy(number, tier) }
    })
}

impl Scene {
    /// With these policies, each for the pods whose bits are set.
    fn new(policies: &[(Policy, u8)]) -> Self {
        let mut cluster = Cluster::with_slots(2, 1024);
        let pods: Vec<_> = [0, 0, 1, 1].map(|node| cluster.pod(node)).to_vec();
        for (set, members) in [(1, vec![&pods[0], &pods[2]]), (2, vec![&pods[1], &pods[3]]), (3, vec![])] {
            cluster.put(&peer_set(set, &members));
        }
        for (number, (family, protocol)) in (1..).zip(protocols()) {
            let members = [1, 3].map(|pod: usize| (address(&pods[pod], family), MEMBER_PORT));
            cluster.put(&[ServiceSpec::new(
                number,
                service(family, protocol),
                protocol,
                SERVICE_PORT,
                &members,
            )
            .object()]);
        }
        policies.iter().for_each(|(policy, _)| hold(&mut cluster, policy.clone()));
        for (at, pod) in pods.iter().enumerate() {
            let of_pod = policies.iter().filter(|(_, pods)| pods >> at & 1 == 1);
            let numbers: Vec<_> = of_pod.map(|(policy, _)| policy.id.get()).collect();
            select(&mut cluster, pod, &numbers);
        }
        Self { cluster, pods }
    }

    /// What the nodes say of a connection, for each end that it may have: whom it reaches, and whether all that have a
    /// say allow it.
    fn opinions(
        &self,
        client: &Client,
        (to, port): (IpAddr, u16),
        protocol: IpProtocol,
    ) -> Vec<(IpAddr, bool)> {
        let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
        let network = if matches!(client, Client::Pod(_)) { vrf(1) } else { fabric() };
        let question = |vrf: VrfId, destination, port| Question {
            vrf,
            source: client.address(family),
            destination,
            protocol,
            port,
        };
        let leads = self.ask(client.node(), &question(network, to, port));
        leads
            .into_iter()
            .map(|lead| {
                let there = self.pods.iter().find(|pod| address(pod, family) == lead.destination);
                let far = there.filter(|pod| pod.node != client.node());
                let there = far
                    .map(|pod| self.ask(pod.node, &question(lead.egress_vrf, lead.destination, lead.port)));
                let allows = there.unwrap_or_default().iter().all(|lead| lead.opinions.allow());
                (lead.destination, lead.opinions.allow() && allows)
            })
            .collect()
    }

    fn ask(&self, node: usize, question: &Question) -> Vec<Lead> {
        self.cluster.nodes[node].snapshot().judge(question).expect("it leads somewhere")
    }
}

/// The service of a family and protocol.
fn service(family: Family, protocol: ServiceProtocol) -> IpAddr {
    let number = 10 + protocol as u16;
    match vip(family) {
        IpAddr::V4(_) => IpAddr::from([10, 96, 7, number as u8]),
        IpAddr::V6(_) => IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 7, number]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_is_what_is_done(
        policies in (any_policy(1), any_policy(2), any_policy(3), any_policy(4)),
        bits in prop::array::uniform4(any::<u8>()),
    ) {
        let (one, two, three, four) = policies;
        let policies: Vec<_> = [one, two, three, four].into_iter().zip(bits).collect();
        let mut scene = Scene::new(&policies);
        let pods: Vec<Client> = scene.pods.iter().cloned().map(Client::Pod).collect();
        let others = [Client::Node(0), Client::Node(1), Client::Outside(0), Client::Outside(1)];
        let mut from_port = 2000;
        for client in pods.into_iter().chain(others) {
            for (family, protocol) in protocols() {
                let direct = scene.pods.iter().map(|pod| (address(pod, family), MEMBER_PORT));
                let targets: Vec<_> = direct.chain([(service(family, protocol), SERVICE_PORT)]).collect();
                for (to, port) in targets.into_iter().filter(|(to, _)| *to != client.address(family)) {
                    let said = scene.opinions(&client, (to, port), protocol.into());
                    for _ in 0..if port == SERVICE_PORT { 4 } else { 1 } {
                        from_port += 1;
                        let asked = Conversation::new(client.clone(), Voice::Service(protocol), to, port).by(from_port);
                        let there = asked.open(&mut scene.cluster);
                        let reached = there.map(|there| support::read(&there.frame).destination);
                        let may_reach = |at: &IpAddr| said.contains(&(*at, true));
                        let may_fail = said.iter().any(|(_, allowed)| !allowed);
                        prop_assert!(
                            reached.map_or(may_fail, |at| may_reach(&at)),
                            "{asked:?} reaches {reached:?}, and it is said: {said:?}"
                        );
                    }
                }
            }
            let cluster = &mut scene.cluster;
            cluster.now = cluster.now.plus_millis(25 * 3_600_000);
            let now = cluster.now;
            cluster.nodes.iter_mut().for_each(|node| node.age(now));
        }
    }
}

/// The names are those that people gave.
#[test]
fn the_policy_and_the_rule_are_named() {
    for family in FAMILIES {
        let deny =
            PolicyRule { name: "no-web".to_owned(), ..rule(PolicyAction::Deny, in_set(2), Ports::Any) };
        let first = Policy {
            egress: Some(vec![deny]),
            name: "ClusterNetworkPolicy first".to_owned(),
            ..policy(1, Tier::Admin(1))
        };
        let allow = PolicyRule { name: "egress[0]".to_owned(), ..support::allow(in_set(1), Ports::Any) };
        let own = Policy {
            egress: Some(vec![allow]),
            name: "NetworkPolicy default/own".to_owned(),
            ..policy(2, Tier::Namespace)
        };
        let scene = Scene::new(&[(first, 1), (own, 1)]);
        let of = |pod: usize| {
            let question = Question {
                vrf: vrf(1),
                source: address(&scene.pods[0], family),
                destination: address(&scene.pods[pod], family),
                protocol: IpProtocol::TCP,
                port: MEMBER_PORT,
            };
            scene.ask(0, &question).remove(0).opinions
        };
        let (policy, rule) = ("ClusterNetworkPolicy first".to_owned(), "no-web".to_owned());
        assert_eq!(of(1).egress, Opinion::Denied { policy, rule });
        assert_eq!(of(1).ingress, Opinion::NotAsked);
        let (policy, rule) = ("NetworkPolicy default/own".to_owned(), "egress[0]".to_owned());
        assert_eq!(of(2).egress, Opinion::Allowed { policy, rule });
        assert_eq!(of(2).ingress, Opinion::Elsewhere);
        let outside = Question {
            vrf: vrf(1),
            source: address(&scene.pods[0], family),
            destination: support::outside(family),
            protocol: IpProtocol::UDP,
            port: 53,
        };
        let policies = vec!["NetworkPolicy default/own".to_owned()];
        assert_eq!(scene.ask(0, &outside)[0].opinions.egress, Opinion::Isolated { policies });
    }
}

/// A member that nobody can reach says nothing about the others.
#[test]
fn members_that_lead_nowhere_are_left_out() {
    let mut scene = Scene::new(&[]);
    let nobody = IpAddr::from([10, 244, 9, 9]);
    let key = RouteKey { vrf: vrf(1), prefix: nobody.into() };
    scene.cluster.put(&[Object::Route(Route { key, next_hop: NextHop::Reject })]);
    let (to, protocol) = (IpAddr::from([10, 96, 7, 99]), ServiceProtocol::Tcp);
    let mut serve = |members: &[(IpAddr, u16)]| {
        scene.cluster.put(&[ServiceSpec::new(99, to, protocol, SERVICE_PORT, members).object()]);
        let source = scene.pods[0].v4;
        let question =
            Question { vrf: vrf(1), source, destination: to, protocol: protocol.into(), port: SERVICE_PORT };
        scene.cluster.nodes[0].snapshot().judge(&question)
    };
    let there = IpAddr::from([10, 244, 2, 4]);
    let leads = serve(&[(nobody, MEMBER_PORT), (there, MEMBER_PORT)]).expect("one can be reached");
    assert_eq!(leads.iter().map(|lead| lead.destination).collect::<Vec<_>>(), [there]);
    assert_eq!(serve(&[(nobody, MEMBER_PORT)]), Err(DropReason::NoMembers));
}
