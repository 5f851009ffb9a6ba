//! Datagrams in fragments under network policy: the rest goes the way of the first, whatever comes when.

mod support;

use support::{FAMILIES, address, allow, dropped, drops, egress, govern, ingress, one_port, read_datagram};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, Peers, Policy, ServiceProtocol};

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
const ALLOWED: u16 = 5000;
const FORBIDDEN: u16 = 5001;

struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
    family: Family,
}

impl Scene {
    fn send(&mut self, port: u16, id: u16, order: &[usize]) -> Vec<Delivery> {
        let (from, to) = (address(&self.client, self.family), address(&self.server, self.family));
        let datagram = PacketBuilder::new(from, to).identification(id).udp(4000, port).payload(&[7; 3000]);
        let fragments = datagram.build_fragments(1200);
        order.iter().flat_map(|at| self.cluster.send(&self.client.clone(), &fragments[*at])).collect()
    }
}

/// Policy on either end, on one node and on two.
fn scenes() -> impl Iterator<Item = Scene> {
    FAMILIES.into_iter().flat_map(|family| {
        [(0, true), (0, false), (1, true), (1, false)].map(|(far, is_egress)| {
            let mut cluster = Cluster::new(2);
            let (client, server) = (cluster.pod(0), cluster.pod(far));
            let rules = [allow(Peers::Any, one_port(ServiceProtocol::Udp, ALLOWED))];
            let (pod, policy): (_, Policy) =
                if is_egress { (&client, egress(1, &rules)) } else { (&server, ingress(1, &rules)) };
            govern(&mut cluster, pod, policy);
            Scene { cluster, client, server, family }
        })
    })
}

#[test]
fn frag_4_all_of_a_datagram_passes_or_none_of_it() {
    for mut scene in scenes() {
        for (id, order) in (1..).zip(ORDERS) {
            let delivered = scene.send(ALLOWED, id, &order);
            let got = read_datagram(&delivered);
            assert_eq!((got.ports, got.payload.len()), ((4000, ALLOWED), 3000), "{order:?}");
            assert_eq!(delivered.len(), 3, "{order:?}");
            assert_eq!(scene.send(FORBIDDEN, 100 + id, &order), [], "{order:?}");
        }
        let held: u64 = scene.cluster.nodes.iter().map(|node| node.shared.totals().held).sum();
        assert_eq!(held, 0, "nothing waits for what has come");
    }
}

/// Later ones alone never pass, and do not wait for ever.
#[test]
fn frag_4_without_its_first_nothing_of_a_datagram_passes() {
    for mut scene in scenes() {
        assert_eq!(scene.send(ALLOWED, 1, &[1, 2]), []);
        let later = scene.cluster.now.plus_millis(60_000);
        scene.cluster.nodes.iter_mut().for_each(|node| node.age(later));
        assert_eq!(dropped(&scene.cluster, 0, DropReason::FragmentTimeout), 2);
        assert_eq!(scene.cluster.nodes[0].shared.totals().held, 0);
    }
}

/// A datagram's own second first fragment, with another port, opens nothing and changes nothing.
#[test]
fn frag_4_a_second_first_fragment_is_judged_for_itself() {
    for mut scene in scenes() {
        assert_eq!(scene.send(ALLOWED, 1, &[0]).len(), 1);
        assert_eq!(scene.send(FORBIDDEN, 1, &[0]), []);
        assert_eq!(scene.send(FORBIDDEN, 1, &[1, 2]), [], "{:?}", drops(&scene.cluster, 0));
    }
}

/// The verdict is the policy's of now, also where part of the datagram has passed.
#[test]
fn frag_4_a_policy_that_changes_between_two_fragments_counts() {
    for mut scene in scenes() {
        assert_eq!(scene.send(ALLOWED, 1, &[0, 1]).len(), 2);
        let (client, server) = (scene.client.clone(), scene.server.clone());
        govern(&mut scene.cluster, &server, ingress(1, &[]));
        govern(&mut scene.cluster, &client, egress(1, &[]));
        assert_eq!(scene.send(ALLOWED, 1, &[2]), []);
    }
}
