//! One connection, or its attempt, and everything that comes of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::frame::{Egress, Frame, Ingress};
use vrouter_forward::sim::{Delivery, HOST_PORT};
use vrouter_objects::Vni;

use crate::reach::{Said, Sender, Sighting, fabric_vni, reaches};
use crate::support::{ACK, Read, SYN, Voice, drops, is_refusal, read, send_from};
use crate::world::World;

/// Somebody who speaks to an address.
#[derive(Debug, Clone, Copy)]
pub struct Journey {
    pub sender: Sender,
    pub family: Family,
    pub voice: Voice,
    pub to: IpAddr,
    pub port: u16,
    /// The sender's port, or the ping's number.
    pub from_port: u16,
}

impl Journey {
    /// Sends, has it answered and sends once more, and compares all that happens with what is right. Says how many
    /// reached somebody.
    pub fn run(&self, world: &mut World) -> usize {
        let said = if self.voice == Voice::Ping { Said::Ping } else { Said::To(self.port) };
        let sightings = reaches(world, self.sender, self.family, self.to, said);
        let wire = world.tenancy.cluster.wire.len();
        let frame = self.frame(self.sender.address(world, self.family), SYN);
        let deliveries = self.send(world, &frame);
        if sightings.is_empty() {
            self.assert_is_told_at_most(world, &deliveries);
            self.assert_wire(world, wire, &self.known_vnis(world));
            return 0;
        }
        let (sighting, got) = self.assert_seen(world, &deliveries, &sightings);
        let delivery = &deliveries[0];
        for flags in [SYN | ACK, ACK] {
            let answer = self.voice.answer(&got, flags);
            let back = send_from(&mut world.tenancy.cluster, delivery, &answer);
            self.assert_answered(world, &back);
        }
        let frame = self.frame(self.sender.address(world, self.family), ACK);
        let again = self.send(world, &frame);
        self.assert_seen(world, &again, &[sighting]);
        self.assert_wire(world, wire, &BTreeSet::from([sighting.vni]));
        1
    }

    fn frame(&self, from: IpAddr, flags: u8) -> Vec<u8> {
        self.voice.frame((from, self.from_port), (self.to, self.port), flags)
    }

    fn send(&self, world: &mut World, frame: &[u8]) -> Vec<Delivery> {
        let cluster = &mut world.tenancy.cluster;
        match self.sender {
            Sender::Pod(pod) => {
                let mut bytes = frame.to_vec();
                bytes[6..12].copy_from_slice(&world.pods[pod].mac.0);
                let ingress = Ingress::Port(world.pods[pod].port);
                cluster.follow(world.pods[pod].node, Frame::from_bytes(&bytes, ingress))
            }
            Sender::Node(node) | Sender::Outside(node) => cluster.send_from_host(node, frame),
        }
    }

    /// Expects that it came out at one place, as one of these says.
    fn assert_seen(
        &self,
        world: &World,
        deliveries: &[Delivery],
        sightings: &[Sighting],
    ) -> (Sighting, Read) {
        let complain = |what: &str| -> ! {
            panic!("{what}: {self:?}\nexpected: {sightings:?}\ngot: {deliveries:?}\n{}", told(world))
        };
        let [delivery] = deliveries else { complain("not once") };
        let place = world.place(delivery);
        let Some(sighting) = sightings.iter().find(|sighting| place == Some(sighting.place)) else {
            complain("elsewhere")
        };
        let got = read(&delivery.frame);
        if (got.source, got.destination) != (sighting.source, sighting.destination) {
            complain("in another name")
        }
        let is_from_own = sighting.source == self.sender.address(world, self.family);
        match self.voice {
            Voice::Service(_) if got.ports.1 != sighting.port => complain("to another port"),
            Voice::Service(_) if is_from_own && got.ports.0 != self.from_port => {
                complain("from another port")
            }
            _ => (*sighting, got),
        }
    }

    /// Expects that an answer came to the sender alone, as from whom it spoke to.
    fn assert_answered(&self, world: &World, back: &[Delivery]) {
        let complain = |what: &str| -> ! { panic!("{what}: {self:?}\ngot: {back:?}\n{}", told(world)) };
        let [delivery] = back else { complain("the answer came not once") };
        if world.place(delivery) != Some(self.sender.place()) {
            complain("the answer came elsewhere")
        }
        let got = read(&delivery.frame);
        if (got.source, got.destination) != (self.to, self.sender.address(world, self.family)) {
            complain("the answer is another's")
        }
        let is_from_port = self.voice == Voice::Ping || got.ports.0 == self.port;
        if !is_from_port || self.voice.answered_port(&got) != self.from_port {
            complain("the answer is another connection's")
        }
    }

    /// Expects that nobody got anything, save that the sender may have been told so. A node gets back what is its own
    /// affair.
    fn assert_is_told_at_most(&self, world: &World, deliveries: &[Delivery]) {
        for delivery in deliveries {
            let is_senders = world.place(delivery) == Some(self.sender.place());
            let got = read(&delivery.frame);
            let is_to_sender = got.destination == self.sender.address(world, self.family);
            let is_handed_back = delivery.port == HOST_PORT && got.destination == self.to;
            assert!(
                is_senders && (is_handed_back || (is_to_sender && is_refused(self.voice, &got, self.family))),
                "nobody is there: {self:?}\ngot: {delivery:?}\n{}",
                told(world)
            );
        }
        assert!(deliveries.len() <= 1, "told twice: {self:?}, {deliveries:?}");
    }

    /// The networks that an attempt in vain may have gone through.
    fn known_vnis(&self, world: &World) -> BTreeSet<Vni> {
        let Sender::Pod(pod) = self.sender else {
            return world
                .topology
                .networks
                .iter()
                .map(|network| network.vni())
                .chain([fabric_vni()])
                .collect();
        };
        let home = world.topology.pods[pod].network;
        let known = [home].into_iter().chain(world.topology.leaked(home));
        known.map(|network| world.topology.networks[network].vni()).collect()
    }

    /// Expects that all that went from node to node since bore one of these.
    fn assert_wire(&self, world: &World, since: usize, allowed: &BTreeSet<Vni>) {
        for tunnelled in &world.tenancy.cluster.wire[since..] {
            let Egress::Tunnel { vni, .. } = tunnelled.egress else { panic!("the wire is between nodes") };
            assert!(allowed.contains(&vni), "VNI {vni} is not of {allowed:?}: {self:?}\n{}", told(world));
        }
    }
}

/// Whether it says that nobody is there, or no way.
fn is_refused(voice: Voice, got: &Read, family: Family) -> bool {
    match voice {
        Voice::Service(protocol) => is_refusal(got, protocol, family) || is_unreachable(got),
        Voice::Ping => is_unreachable(got),
    }
}

fn is_unreachable(got: &Read) -> bool {
    matches!((got.protocol, got.payload.first()), (1, Some(3)) | (58, Some(1)))
}

/// Why the nodes dropped what they dropped, and what they know of.
fn told(world: &World) -> String {
    let nodes = 0..world.tenancy.cluster.nodes.len();
    let drops: Vec<_> = nodes.map(|node| drops(&world.tenancy.cluster, node)).collect();
    format!("drops by node: {drops:?}\n{:?}\n{:?}", world.topology, world.pods)
}
