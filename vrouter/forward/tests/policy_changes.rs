//! Policies that come, change and go under connections that stand: the next packet of either side meets what is in force,
//! and nobody else loses one.

mod support;

use support::{
    ACK, Conversation, FAMILIES, MEMBER_PORT, SYN, Voice, address, allow, drop_policy, egress, govern, hold,
    in_set, ingress, one_port, peer_addresses, peer_set, rule, select, voices, vrf,
};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, PodHandle};
use vrouter_objects::{
    Peer, Peers, Policy, PolicyAction, PolicyRule, PortMatch, Ports, ServiceProtocol, Tier,
};

/// Which end of the connection the policies are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Client,
    Server,
}

/// A connection that policies are about, and others that they let alone.
struct Scene {
    cluster: Cluster,
    label: String,
    end: End,
    client: PodHandle,
    server: PodHandle,
    asked: Conversation,
    delivery: Delivery,
    others: Vec<(Conversation, Delivery)>,
}

/// Everything there is: both ends, all protocols, one node and two.
fn scenes() -> impl Iterator<Item = Scene> {
    voices().flat_map(|case| {
        [(End::Client, 0), (End::Client, 1), (End::Server, 0), (End::Server, 1)]
            .map(|(end, far)| Scene::new(case, end, far))
    })
}

impl Scene {
    /// The connections stand, and no policy is there. Those in set 1 are friends of whoever will be governed; those in
    /// set 2 are the one at the other end.
    fn new((family, voice): (Family, Voice), end: End, far: usize) -> Self {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        let (friend, near, away) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
        let asked = Conversation::of(&client, voice, address(&server, family), MEMBER_PORT);
        let delivery = asked.must_open(&mut cluster);
        let to = |pod| address(pod, family);
        let with_friend = match end {
            End::Client => Conversation::of(&client, voice, to(&friend), MEMBER_PORT),
            End::Server => Conversation::of(&friend, voice, to(&server), MEMBER_PORT),
        };
        let bystanders = [(&near, &away), (&away, &near)]
            .map(|(from, pod)| Conversation::of(from, voice, to(pod), MEMBER_PORT).by(5000));
        let others = bystanders.into_iter().chain([with_friend]);
        let others = others.map(|other| (other.clone(), other.must_open(&mut cluster))).collect();
        let stranger = if end == End::Client { &server } else { &client };
        cluster.put(&peer_set(1, &[&friend]));
        cluster.put(&peer_set(2, &[stranger]));
        let label = format!("{family:?} {voice:?}, policy of the {end:?}, to node {far}");
        Self { cluster, label, end, client, server, asked, delivery, others }
    }

    fn governed(&self) -> PodHandle {
        if self.end == End::Client { self.client.clone() } else { self.server.clone() }
    }

    /// A policy with these rules for the governed end.
    fn policy(&self, number: u32, rules: &[PolicyRule]) -> Policy {
        match self.end {
            End::Client => egress(number, rules),
            End::Server => ingress(number, rules),
        }
    }

    fn govern(&mut self, number: u32, rules: &[PolicyRule]) {
        let policy = self.policy(number, rules);
        let pod = self.governed();
        govern(&mut self.cluster, &pod, policy);
    }

    /// Lets these policies alone govern.
    fn select(&mut self, policies: &[u32]) {
        let pod = self.governed();
        select(&mut self.cluster, &pod, policies);
    }

    /// Expects that all others go on without a loss, in the middle of whatever happens.
    #[track_caller]
    fn others_go_on(&mut self) {
        for (other, delivery) in &self.others {
            other.must_go_on(&mut self.cluster, delivery);
        }
    }

    #[track_caller]
    fn goes_on(&mut self) {
        self.asked.must_go_on(&mut self.cluster, &self.delivery);
        self.others_go_on();
    }

    #[track_caller]
    fn is_cut(&mut self) {
        self.others_go_on();
        self.asked.must_be_cut(&mut self.cluster, &self.delivery);
        self.others_go_on();
    }

    /// Expects that the connection can be had again, by whatever its protocol needs for that.
    #[track_caller]
    fn is_back(&mut self) {
        if self.asked.voice == Voice::Service(ServiceProtocol::Tcp) {
            // Its state may be lost to us, which a client finds out by its next packet.
            self.asked.say(&mut self.cluster, ACK);
            self.asked.by_another_port().must_open(&mut self.cluster);
        } else {
            self.goes_on();
        }
        self.others_go_on();
    }
}

trait Again {
    fn by_another_port(&self) -> Conversation;
}

impl Again for Conversation {
    fn by_another_port(&self) -> Conversation {
        self.clone().by(self.from_port + 1)
    }
}

fn friends() -> PolicyRule {
    allow(in_set(1), Ports::Any)
}

fn everybody() -> PolicyRule {
    allow(Peers::Any, Ports::Any)
}

#[test]
fn a_policy_that_comes_cuts_what_it_forbids_and_one_that_goes_gives_it_back() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[friends()]);
        scene.is_cut();
        scene.select(&[]);
        scene.is_back();
    }
}

/// The other side's packet may be the first to come after the change: it opens nothing either.
#[test]
fn answers_are_cut_first_where_they_come_first() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[friends()]);
        for flags in [ACK, ACK, SYN | ACK, ACK] {
            assert!(!scene.asked.is_answered(&mut scene.cluster, &scene.delivery, flags), "{}", scene.label);
            assert_eq!(scene.asked.heard(&mut scene.cluster, ACK), None, "{}", scene.label);
        }
        scene.others_go_on();
    }
}

#[test]
fn a_policy_that_allows_what_stands_disturbs_nothing() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[everybody()]);
        scene.goes_on();
        scene.govern(1, &[friends(), allow(in_set(2), Ports::Any)]);
        scene.goes_on();
        scene.govern(2, &[everybody()]);
        scene.goes_on();
        scene.select(&[1, 2]);
        scene.goes_on();
        drop_policy(&mut scene.cluster, 3);
        scene.goes_on();
    }
}

/// A policy of the same id with other rules.
#[test]
fn a_policy_that_changes_counts_as_it_is_now() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[everybody()]);
        scene.goes_on();
        let policy = scene.policy(1, &[friends()]);
        hold(&mut scene.cluster, policy);
        scene.is_cut();
        let policy = scene.policy(1, &[friends(), everybody()]);
        hold(&mut scene.cluster, policy);
        scene.is_back();
    }
}

#[test]
fn ports_that_a_rule_loses_are_cut() {
    for mut scene in scenes() {
        let Voice::Service(protocol) = scene.asked.voice else { continue };
        println!("{}", scene.label);
        let range = |first, last| Ports::These(vec![PortMatch::Range { protocol, first, last }]);
        scene.govern(1, &[friends(), allow(Peers::Any, range(MEMBER_PORT - 10, MEMBER_PORT))]);
        scene.goes_on();
        scene.govern(1, &[friends(), allow(Peers::Any, range(MEMBER_PORT + 1, MEMBER_PORT + 10))]);
        scene.is_cut();
        scene.govern(1, &[friends(), allow(Peers::Any, one_port(protocol, MEMBER_PORT))]);
        scene.is_back();
    }
}

/// An address that comes into a set or leaves it is one object's change, and the policies stay as they are.
#[test]
fn who_leaves_a_set_is_cut_and_who_comes_is_let_in() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[friends(), allow(in_set(2), Ports::Any)]);
        scene.goes_on();
        let stranger = if scene.end == End::Client { scene.server.clone() } else { scene.client.clone() };
        let addresses = peer_addresses(2, vrf(1), &stranger);
        for address in &addresses {
            support::remove_object(&mut scene.cluster, address);
        }
        scene.is_cut();
        scene.cluster.put(&addresses);
        scene.is_back();
    }
}

/// A pod that is relabelled is selected by other policies.
#[test]
fn a_pod_that_is_relabelled_is_judged_by_what_selects_it_now() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        for (number, rules) in [(1, vec![everybody()]), (2, vec![friends()]), (3, vec![])] {
            let policy = scene.policy(number, &rules);
            hold(&mut scene.cluster, policy);
        }
        scene.select(&[1]);
        scene.goes_on();
        scene.select(&[2]);
        scene.is_cut();
        scene.select(&[2, 1]);
        scene.is_back();
    }
}

/// The administrator's word, too, counts from the next packet on.
#[test]
fn an_administrators_policy_cuts_what_the_namespace_allows() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[everybody()]);
        let rules = [rule(PolicyAction::Deny, Peers::These(vec![Peer::Set(support::set_id(2))]), Ports::Any)];
        let policy = Policy { tier: Tier::Admin(10), ..scene.policy(2, &rules) };
        hold(&mut scene.cluster, policy);
        scene.goes_on();
        scene.select(&[1, 2]);
        scene.is_cut();
        scene.select(&[1]);
        scene.is_back();
    }
}

/// What has been refused is not remembered as refused.
#[test]
fn who_was_refused_is_let_in_once_they_may() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[friends()]);
        let new = scene.asked.by_another_port();
        for _ in 0..3 {
            assert_eq!(new.heard(&mut scene.cluster, SYN), None, "{}", scene.label);
        }
        scene.select(&[]);
        new.must_open(&mut scene.cluster);
    }
}

/// What changes elsewhere, over and over, changes nothing here.
#[test]
fn changes_of_policies_for_others_lose_no_packet() {
    for mut scene in scenes() {
        println!("{}", scene.label);
        scene.govern(1, &[friends(), allow(in_set(2), Ports::Any)]);
        let other = scene.cluster.pod(1);
        for round in 0..10 {
            let numbers: &[u32] = if round % 2 == 0 { &[7] } else { &[] };
            hold(&mut scene.cluster, ingress(7, &[]));
            select(&mut scene.cluster, &other, numbers);
            scene.goes_on();
            drop_policy(&mut scene.cluster, 7);
            scene.goes_on();
            let newcomer = peer_addresses(1, vrf(1), &other);
            scene.cluster.put(&newcomer);
            scene.goes_on();
            newcomer.iter().for_each(|address| support::remove_object(&mut scene.cluster, address));
            scene.goes_on();
        }
    }
}

/// Whoever must not be pinged any more may still ping, by the same number too.
#[test]
fn a_ping_back_is_no_part_of_the_ping_that_is_cut() {
    for (family, far) in FAMILIES.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(far));
        let asked = Conversation::of(&client, Voice::Ping, address(&server, family), 0);
        let delivery = asked.must_open(&mut cluster);
        govern(&mut cluster, &server, ingress(1, &[]));
        asked.must_be_cut(&mut cluster, &delivery);
        let back = Conversation::of(&server, Voice::Ping, address(&client, family), 0);
        let delivery = back.must_open(&mut cluster);
        assert_eq!(asked.heard(&mut cluster, SYN), None, "{asked:?}");
        back.must_go_on(&mut cluster, &delivery);
    }
}
