//! Flows that the tables have moved on from: what a service's clients meet at the next packet.

mod support;

use support::{
    ACK, CLIENT_KINDS, CLIENT_PORT, Client, ClientKind, EXTERNAL_FRONTENDS, FRONTENDS, Frontend, MEMBER_PORT,
    RST, SERVICE_PORT, SYN, Scene, address, by_all_frontends, detach, dropped, local_inside, local_outside,
    only, publish, scenes, scenes_of, vip,
};
use vrouter_forward::sim::ServiceSpec;
use vrouter_objects::{DropReason, MemberState, Object, ServiceProtocol};

/// Its member on the client's node, and one on another.
const HERE_AND_THERE: &[usize] = &[0, 1];

#[test]
fn stale_2_what_began_without_members_does_not_outlast_that() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[]);
        let deliveries = scene.request(SYN);
        scene.assert_refused(&deliveries);
        for member in 0..2 {
            scene.put_members(&[]);
            scene.put_members(&[member]);
            let (reached, delivery) = scene.reach(SYN);
            assert_eq!(reached, member, "{}", scene.label());
            scene.answer(&delivery, SYN | ACK);
        }
    }
}

#[test]
fn stale_3_a_deleted_service_leads_nowhere() {
    for mut scene in scenes(HERE_AND_THERE) {
        for member in 0..2 {
            scene.put_members(&[member]);
            scene.reach(SYN);
            scene.delete_service();
            for flags in [ACK, SYN] {
                let deliveries = scene.request(flags);
                assert_eq!(scene.reached(&deliveries), None, "{}: {deliveries:#?}", scene.label());
                let has_nobody_else = match (scene.frontend, scene.kind) {
                    (Frontend::ClusterIp, _) => true,
                    // Without the service, this is the node itself, and the packet its own.
                    (Frontend::NodePort, _) => false,
                    // This is some address out there.
                    (_, ClientKind::Pod) => false,
                    // Out there is where the packet comes from.
                    (_, ClientKind::Node | ClientKind::Outside) => true,
                };
                if has_nobody_else {
                    scene.assert_refused(&deliveries);
                }
            }
        }
    }
}

/// The pods that are members go by turns, and each time the other has the next packet.
fn assert_follows_the_members(scene: &mut Scene) {
    scene.put_members(&[0, 1]);
    let (mut member, _) = scene.reach(SYN);
    for _ in 0..4 {
        let left = 1 - member;
        scene.put_members(&[left]);
        let (reached, delivery) = scene.reach(SYN);
        assert_eq!(reached, left, "{}", scene.label());
        scene.answer(&delivery, SYN | ACK);
        member = reached;
    }
}

#[test]
fn stale_4_what_its_member_has_left_goes_to_another() {
    scenes(HERE_AND_THERE).for_each(|mut scene| assert_follows_the_members(&mut scene));
}

/// Nodes learn one after the other, and packets come all the while. Once the client's node knows, the old member gets
/// no more of them.
#[test]
fn stale_5_once_the_tables_are_swapped_no_packet_meets_the_old_ones() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0]);
        let swapped = Object::FloatingIp(scene.service(&[1]));
        let mut seen = Vec::new();
        for node in [2, 1, 0] {
            (0..5).for_each(|_| seen.push(scene.reach(SYN).0));
            publish(&mut scene.cluster, node, std::slice::from_ref(&swapped));
        }
        (0..5).for_each(|_| seen.push(scene.reach(SYN).0));
        assert_eq!(seen[..15], [0; 15], "{}", scene.label());
        assert_eq!(seen[15..], [1; 5], "{}", scene.label());
    }
}

/// One client has flows to one member by every frontend of the service at once.
#[test]
fn stale_6_every_frontend_lets_go_of_a_member() {
    for mut scene in scenes_of(&[Frontend::ClusterIp], &CLIENT_KINDS, HERE_AND_THERE) {
        scene.put_members(&[0]);
        let reach_by_all = |scene: &mut Scene, member| {
            for frontend in FRONTENDS {
                scene.frontend = frontend;
                assert_eq!(scene.reach(SYN).0, member, "{}", scene.label());
            }
        };
        reach_by_all(&mut scene, 0);
        scene.put_members(&[1]);
        reach_by_all(&mut scene, 1);
    }
}

#[test]
fn stale_7_a_members_arrival_on_the_node_ends_that_there_was_none() {
    let external = scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE);
    let internal = scenes_of(&[Frontend::ClusterIp], &CLIENT_KINDS, HERE_AND_THERE);
    for mut scene in external.chain(internal) {
        let service = |scene: &Scene, members: &[usize]| local_inside(local_outside(scene.service(members)));
        for _ in 0..3 {
            scene.put(service(&scene, &[1]));
            let before = dropped(&scene.cluster, 0, DropReason::NoMembers);
            assert_eq!(scene.request(SYN), [], "{}", scene.label());
            assert_eq!(dropped(&scene.cluster, 0, DropReason::NoMembers), before + 1, "{}", scene.label());
            scene.put(service(&scene, &[0, 1]));
            assert_eq!(scene.reach(SYN).0, 0, "{}", scene.label());
        }
    }
}

#[test]
fn stale_8_a_repeated_opening_meets_the_service_that_came_meanwhile() {
    for mut scene in scenes(HERE_AND_THERE) {
        for member in 0..2 {
            let deliveries = scene.request(SYN);
            assert_eq!(scene.reached(&deliveries), None, "{}", scene.label());
            scene.put_members(&[member]);
            let (reached, delivery) = scene.reach(SYN);
            assert_eq!(reached, member, "{}", scene.label());
            scene.answer(&delivery, SYN | ACK);
            scene.delete_service();
        }
    }
}

#[test]
fn stale_9_a_repeated_opening_without_an_answer_goes_to_another_member() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.protocol == ServiceProtocol::Tcp) {
        for state in [None, Some(MemberState::Leaving), Some(MemberState::Serving)] {
            scene.put_members(&[0]);
            assert_eq!(scene.reach(SYN).0, 0);
            assert_eq!(scene.reach(SYN).0, 0);
            let leaving = state.map(|state| (0, state));
            let members: Vec<_> = leaving.into_iter().chain([(1, MemberState::Ready)]).collect();
            scene.put(scene.service_in(&members));
            assert_eq!(scene.reach(SYN).0, 1, "{} {state:?}", scene.label());
        }
    }
}

#[test]
fn stale_9_an_established_connection_stays_with_a_member_that_leaves() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.protocol == ServiceProtocol::Tcp) {
        for (member, state) in [0, 1]
            .into_iter()
            .flat_map(|member| [MemberState::Leaving, MemberState::Serving].map(|state| (member, state)))
        {
            scene.delete_service();
            scene.put_members(&[member]);
            let (_, delivery) = scene.connect();
            scene.put(scene.service_in(&[(member, state), (1 - member, MemberState::Ready)]));
            for _ in 0..3 {
                assert_eq!(scene.reach(ACK).0, member, "{} {state:?}", scene.label());
                scene.answer(&delivery, ACK);
            }
            // Once it is gone, so is the connection, and the client learns of it.
            scene.put_members(&[1 - member]);
            let deliveries = scene.request(ACK);
            scene.assert_refused(&deliveries);
            assert_eq!(only(&deliveries).tcp_flags & RST, RST);
        }
    }
}

/// A pod that is gone while the controller has not said so yet.
#[test]
fn stale_9_a_member_without_its_pod_is_told_at_once() {
    for mut scene in scenes(HERE_AND_THERE) {
        scene.put_members(&[0]);
        scene.connect();
        let pod = scene.pods[0].clone();
        detach(&mut scene.cluster, &pod);
        let deliveries = scene.request(ACK);
        scene.assert_refused(&deliveries);
        scene.put_members(&[1]);
        assert_eq!(scene.reach(SYN).0, 1, "{}", scene.label());
    }
}

/// The client's port is always the same, and what it asks with is too.
#[test]
fn stale_10_an_association_that_is_begun_again_gets_a_member_that_is_there() {
    for mut scene in scenes(HERE_AND_THERE).filter(|scene| scene.protocol == ServiceProtocol::Sctp) {
        scene.put_members(&[0, 1]);
        let (first, _) = scene.connect();
        let gone = scene.pods[first].clone();
        detach(&mut scene.cluster, &gone);
        scene.put_members(&[1 - first]);
        for _ in 0..3 {
            assert_eq!(scene.reach(SYN).0, 1 - first, "{}", scene.label());
        }
    }
}

/// Members answer at ports of their own, equal to the frontend's or not.
#[test]
fn stale_12_what_is_let_go_of_is_known_by_the_frontends_port() {
    for mut scene in scenes(HERE_AND_THERE) {
        let family = scene.family;
        let service = |scene: &Scene, number: u32, port: u16| {
            let mut spec = ServiceSpec::new(1, vip(family), scene.protocol, SERVICE_PORT, &[]);
            spec.members = vec![(number, address(&scene.pods[0], family), port, MemberState::Ready)];
            by_all_frontends(spec.floating_ip(), support::NODE_PORT)
        };
        for (number, port) in (1..).zip([MEMBER_PORT, SERVICE_PORT, support::NODE_PORT, MEMBER_PORT]) {
            scene.put(service(&scene, number, port));
            let got = only(&scene.request(SYN));
            assert_eq!(got.ports, (CLIENT_PORT, port), "{}", scene.label());
        }
    }
}

/// Also where two clients hold on to one member by different ways into the cluster.
#[test]
fn stale_6_clients_of_all_kinds_are_let_go_at_once() {
    for mut scene in scenes_of(&EXTERNAL_FRONTENDS, &[ClientKind::Outside], HERE_AND_THERE) {
        scene.put_members(&[0]);
        let clients: Vec<_> = CLIENT_KINDS
            .into_iter()
            .flat_map(|kind| [0, 1, 2].map(|node| (kind, node)))
            .map(|(kind, node)| Client::new(&mut scene.cluster, kind, node))
            .collect();
        for member in [0, 1] {
            scene.put_members(&[member]);
            for client in &clients {
                scene.client = client.clone();
                let (reached, delivery) = scene.reach(SYN);
                assert_eq!(reached, member, "{} {client:?}", scene.label());
                scene.answer(&delivery, SYN | ACK);
            }
        }
    }
}
