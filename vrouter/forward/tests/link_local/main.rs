//! A node reaches its own pods, of whatever network, by link-local addresses; nobody else does.

mod changes;
#[path = "../support/mod.rs"]
mod support;
mod world;

use support::{
    ACK, Client, Conversation, FAMILIES, FRONTENDS, MEMBER_PORT, NODE_PORT, RST, SYN, Voice, address, allow,
    by_all_frontends, error_about, fabric, hold, in_set, ingress, is_at, node_address, nth, only, prefixes,
    publish, read, remove, send_from, voices, vrf,
};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::policy::{Opinion, Question};
use vrouter_forward::sim::{Node, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_forward::tables::TableError;
use vrouter_objects::{
    DropReason, IpNet, IpProtocol, NextHop, Object, ObjectKey, Ports, Route, RouteKey, ServiceProtocol, Vmi,
    Vni,
};
use world::{NETWORK, PREFIXES, Scene, interface, link_local_network};

#[test]
fn a_node_reaches_its_pods_of_any_network_in_the_name_of_their_gateway() {
    let mut scene = Scene::new();
    for (pod, family, voice) in scene.cases() {
        let asked = scene.asked(pod, voice, family);
        let delivery = asked.must_open(scene.cluster());
        assert!(is_at(&delivery, &scene.pods[pod]), "{asked:?}: {delivery:?}");
        let got = read(&delivery.frame);
        let (from, to) = (scene.gateway(pod, family), address(&scene.pods[pod], family));
        assert_eq!((got.source, got.destination), (from, to), "{asked:?}");
        // The tables change all the while, which changes nothing about it.
        scene.cluster().nodes.iter_mut().for_each(Node::publish);
        asked.must_go_on(scene.cluster(), &delivery);
    }
}

/// A connection from the same port of another of the node's addresses, and one that a pod has with itself, look alike to it.
#[test]
fn connections_that_look_alike_to_the_pod_are_told_apart() {
    for family in FAMILIES {
        let mut scene = Scene::new();
        let mut host = scene.cluster().nodes[0].tables.host().unwrap().clone();
        let second = nth(IpNet::from(node_address(0, family)), 77);
        host.addresses.push(second);
        scene.cluster().nodes[0].tables.set_host(host);
        scene.cluster().nodes[0].publish();
        publish(
            scene.cluster(),
            0,
            &[Object::Route(Route {
                key: RouteKey { vrf: fabric(), prefix: second.into() },
                next_hop: NextHop::Receive,
            })],
        );
        let voice = Voice::Service(ServiceProtocol::Udp);
        let asked = scene.asked(1, voice, family);
        let first = asked.must_open(scene.cluster());
        let frame = voice.frame((second, asked.from_port), (asked.to, asked.port), SYN);
        let deliveries = scene.cluster().send_from_host(0, &frame);
        let (one, other) = (read(&first.frame), only(&deliveries));
        assert_eq!(one.source, other.source);
        assert_ne!(one.ports.0, other.ports.0);
        let back = voice.answer(&other, ACK);
        let back = only(&send_from(scene.cluster(), &deliveries[0], &back));
        assert_eq!((back.destination, back.ports.1), (second, asked.from_port));
    }
}

/// Pods of any network, other nodes, and whoever is outside.
#[test]
fn nobody_else_reaches_a_pod_by_it() {
    for (family, voice) in voices() {
        let mut scene = Scene::new();
        for pod in 0..scene.pods.len() {
            let to = scene.link_local(pod, family);
            let strangers = scene.pods.iter().map(|from| Client::Pod(from.clone()));
            let strangers: Vec<_> = strangers.chain([Client::Outside(0), Client::Outside(1)]).collect();
            for stranger in strangers {
                let asked = Conversation::new(stranger, voice, to, MEMBER_PORT);
                assert_eq!(asked.heard(scene.cluster(), SYN), None, "{asked:?}");
            }
        }
        assert_eq!(scene.tenancy.cluster.nodes[0].flows(scene.tenancy.cluster.now), []);
    }
}

/// By the fabric's tunnel, or by the network's own, as it might.
#[test]
fn nothing_of_it_comes_out_of_a_tunnel() {
    for (family, vni) in FAMILIES.into_iter().flat_map(|family| [(family, 3), (family, 6000)]) {
        let mut scene = Scene::new();
        for from in [node_address(1, family), node_address(0, family), scene.link_local(0, family)] {
            let to = scene.link_local(1, family);
            let bytes = PacketBuilder::new(from, to).macs(support::node_mac(1), support::node_mac(0));
            let bytes = bytes.udp(4000, MEMBER_PORT).payload(b"?").build();
            let ingress = Ingress::Tunnel { source: support::vtep(1), vni: Vni::new(vni).unwrap() };
            let delivered = scene.cluster().follow(0, Frame::from_bytes(&bytes, ingress));
            let pods: Vec<_> =
                scene.pods.iter().filter(|pod| delivered.iter().any(|it| is_at(it, pod))).collect();
            assert_eq!(pods, Vec::<&PodHandle>::new(), "{from} by VNI {vni}");
        }
        if vni == 6000 {
            assert_eq!(support::dropped(scene.cluster(), 0, DropReason::UnknownVni), 3);
        }
    }
}

#[test]
fn probes_pass_whatever_the_policies_of_the_pod() {
    let mut scene = Scene::new();
    let nobody = ingress(1, &[allow(in_set(1), Ports::Any)]);
    scene.cluster().put(&support::peer_set(1, &[]));
    hold(scene.cluster(), nobody);
    for pod in scene.pods.clone() {
        support::select(scene.cluster(), &pod, &[1]);
    }
    for (pod, family, voice) in scene.cases() {
        let asked = scene.asked(pod, voice, family);
        asked.must_open(scene.cluster());
        let question = Question {
            vrf: fabric(),
            source: node_address(scene.pods[pod].node, family),
            destination: asked.to,
            protocol: IpProtocol::TCP,
            port: MEMBER_PORT,
        };
        let leads = scene.tenancy.cluster.nodes[scene.pods[pod].node].snapshot().judge(&question).unwrap();
        let [lead] = &leads[..] else { panic!("{leads:?}") };
        assert_eq!(lead.destination, address(&scene.pods[pod], family));
        assert_eq!(lead.next_hop, NextHop::Interface(scene.pods[pod].vmi));
        assert_eq!(lead.opinions.ingress, Opinion::OwnNode);
    }
}

/// The pod's about the question, and the node's about the answer.
#[test]
fn an_error_about_it_names_the_address_that_was_asked_for() {
    let voice = Voice::Service(ServiceProtocol::Udp);
    for family in FAMILIES {
        let mut scene = Scene::new();
        let asked = scene.asked(2, voice, family);
        let (pod, node) = (address(&scene.pods[2], family), node_address(0, family));
        let there = asked.heard(scene.cluster(), SYN).expect("it is let in");
        let unreachable = if family == Family::V4 { (3, 3) } else { (1, 4) };
        let error = error_about(&there.frame, pod, unreachable, 0);
        let told = only(&send_from(scene.cluster(), &there, &error));
        assert_eq!((told.source, told.destination), (asked.to, node));
        let quoted = read(&support::quoted(&told));
        assert_eq!((quoted.source, quoted.destination), (node, asked.to));
        assert_eq!(quoted.ports, (asked.from_port, MEMBER_PORT));

        let back = send_from(scene.cluster(), &there, &voice.answer(&read(&there.frame), ACK));
        let error = error_about(&back[0].frame, node, unreachable, 0);
        let told = only(&send_from(scene.cluster(), &back[0], &error));
        assert_eq!((told.source, told.destination), (scene.gateway(2, family), pod));
        let quoted = read(&support::quoted(&told));
        assert_eq!((quoted.source, quoted.destination), (pod, scene.gateway(2, family)));
        assert_eq!(quoted.ports, (MEMBER_PORT, asked.from_port));
    }
}

#[test]
fn large_datagrams_pass_in_pieces_in_both_directions() {
    for family in FAMILIES {
        let mut scene = Scene::new();
        let asked = scene.asked(1, Voice::Service(ServiceProtocol::Udp), family);
        let pod = scene.pods[1].clone();
        let question = PacketBuilder::new(node_address(0, family), asked.to).identification(1);
        let question = question.udp(asked.from_port, MEMBER_PORT).payload(&[6; 3000]).build_fragments(1200);
        let there: Vec<_> =
            question.iter().flat_map(|piece| scene.cluster().send_from_host(0, piece)).collect();
        assert!(there.iter().all(|piece| is_at(piece, &pod)), "{there:?}");
        let got = support::read_datagram(&there);
        assert_eq!((got.source, got.payload.len()), (scene.gateway(1, family), 3000));
        let answer = PacketBuilder::new(got.destination, got.source).identification(2);
        let answer = answer.udp(got.ports.1, got.ports.0).payload(&[2; 4000]).build_fragments(1400);
        let back: Vec<_> = answer.iter().flat_map(|piece| scene.cluster().send(&pod, piece)).collect();
        let got = support::read_datagram(&back);
        assert_eq!((got.source, got.payload.len()), (asked.to, 4000));
    }
}

/// The node may ping the pod by the same number, and the answers to that are to the gateway as well.
#[test]
fn a_gateway_answers_the_pings_of_its_pods_meanwhile() {
    let mut scene = Scene::new();
    for (pod, family) in (0..6).flat_map(|pod| FAMILIES.map(|family| (pod, family))) {
        let asked = scene.asked(pod, Voice::Ping, family);
        let delivery = asked.must_open(scene.cluster());
        let (gateway, handle) = (scene.gateway(pod, family), scene.pods[pod].clone());
        let answered = Conversation::of(&handle, Voice::Ping, gateway, 0).say(scene.cluster(), SYN);
        let answer = only(&answered);
        assert!(is_at(&answered[0], &handle), "{asked:?}: {answered:?}");
        assert_eq!((answer.source, answer.destination), (gateway, address(&handle, family)));
        assert_eq!(answer.payload[0], if family == Family::V4 { 0 } else { 129 }, "{asked:?}");
        asked.must_go_on(scene.cluster(), &delivery);
    }
}

/// An interface that is attached again as it was, as after a restart.
#[test]
fn a_connection_outlives_an_interface_that_is_attached_again() {
    let mut scene = Scene::new();
    for (pod, family, voice) in scene.cases() {
        let asked = scene.asked(pod, voice, family);
        let delivery = asked.must_open(scene.cluster());
        scene.name(pod, &FAMILIES.map(|family| scene.link_local(pod, family)));
        asked.must_go_on(scene.cluster(), &delivery);
    }
}

/// What ends it: the pod is gone, its address is another's, the network is gone, or the node's address is no more its own.
#[test]
fn a_connection_ends_with_what_it_was_begun_by() {
    type End = fn(&mut Scene);
    let ends: [(&str, End); 4] = [
        ("the pod is gone", |scene| {
            let pod = scene.pods[1].clone();
            support::detach(scene.cluster(), &pod);
        }),
        ("its address is its twin's", |scene| {
            let [one, other] = [1, 2].map(|pod| FAMILIES.map(|family| scene.link_local(pod, family)));
            scene.name(1, &[]);
            scene.name(2, &one);
            scene.name(1, &other);
        }),
        ("the network is gone", |scene| {
            for prefix in prefixes(PREFIXES) {
                for vrf in [fabric(), vrf(NETWORK)] {
                    remove(scene.cluster(), 0, ObjectKey::Route(RouteKey { vrf, prefix }));
                }
            }
            remove(scene.cluster(), 0, ObjectKey::RoutingInstance(vrf(NETWORK)));
        }),
        ("the node has other addresses", |scene| scene.renumber_node(9)),
    ];
    for ((name, end), (family, voice)) in
        ends.into_iter().flat_map(|end| voices().map(move |case| (end, case)))
    {
        let mut scene = Scene::new();
        let asked = scene.asked(1, voice, family);
        let delivery = asked.must_open(scene.cluster());
        end(&mut scene);
        let said = asked.say(scene.cluster(), ACK);
        let pod = &scene.pods[1];
        assert!(!said.iter().any(|it| is_at(it, pod)), "{name}: {asked:?}: {said:?}");
        assert!(!asked.is_answered(scene.cluster(), &delivery, ACK), "{name}: {asked:?}");
    }
}

/// It is told at once.
#[test]
fn an_address_that_no_pod_has_is_refused() {
    for family in FAMILIES {
        let mut scene = Scene::new();
        let of_family = usize::from(family == Family::V6);
        let nobody = nth(prefixes(PREFIXES)[of_family], 99);
        let tcp = Voice::Service(ServiceProtocol::Tcp);
        for client in [Client::Node(0), Client::Pod(scene.pods[0].clone())] {
            let asked = Conversation::new(client, tcp, nobody, 80);
            let told = asked.say(scene.cluster(), SYN);
            assert_eq!(only(&told).tcp_flags & RST, RST, "{asked:?}");
        }
    }
}

/// Members and clients with such addresses are nobody's.
#[test]
fn services_do_not_lead_there() {
    for family in FAMILIES {
        let mut scene = Scene::new();
        let member = (scene.link_local(0, family), MEMBER_PORT);
        let protocol = ServiceProtocol::Tcp;
        let service = ServiceSpec::new(1, support::vip(family), protocol, 80, &[member]).floating_ip();
        scene.cluster().put(&[Object::FloatingIp(by_all_frontends(service, NODE_PORT))]);
        for frontend in FRONTENDS {
            let (to, port) = frontend.place(family, 0);
            let asked = Conversation::new(Client::Node(0), Voice::Service(protocol), to, port);
            assert_eq!(asked.heard(scene.cluster(), SYN), None, "{frontend:?}");
        }
    }
}

#[test]
fn no_interface_is_in_the_network_itself_and_an_address_is_one_interfaces() {
    let mut scene = Scene::new();
    let (one, other) = (scene.pods[0].clone(), scene.pods[1].clone());
    let node = &mut scene.cluster().nodes[0];
    let within = Vmi { vrf: vrf(NETWORK), ..interface(node, &one) };
    assert_eq!(node.tables.attach(within, one.port), Err(TableError::LinkLocalVrf(vrf(NETWORK))));
    let link_local = interface(node, &other).link_local;
    let same = Vmi { link_local, ..interface(node, &one) };
    let taken = node.tables.attach(same, one.port).unwrap_err();
    assert!(matches!(taken, TableError::AddressTaken { holder, .. } if holder == other.vmi), "{taken}");
}

/// The network may come after the interfaces.
#[test]
fn addresses_wait_for_their_network() {
    let mut scene = Scene::new();
    let objects = link_local_network();
    for object in objects.iter().rev() {
        support::remove_object(scene.cluster(), object);
    }
    let asked = scene.asked(1, Voice::Ping, Family::V6);
    let held = asked.heard(scene.cluster(), SYN);
    assert!(held.is_none_or(|it| !is_at(&it, &scene.pods[1])));
    scene.cluster().put(&objects);
    asked.must_open(scene.cluster());
}
