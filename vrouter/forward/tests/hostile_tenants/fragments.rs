//! Fragments that would have the rest of a packet pass for another: in each attack, policy allows port 5000 and no other.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle};
use vrouter_objects::{DropReason, IpProtocol, Peers, ServiceProtocol};

use crate::support::{
    FAMILIES, RST, SYN, address, allow, dropped, govern, ingress, one_port, read, reassemble,
};

const ALLOWED: u16 = 5000;
const FORBIDDEN: u16 = 5001;

struct Scene {
    cluster: Cluster,
    attacker: PodHandle,
    victim: PodHandle,
    family: Family,
}

/// One node and two, in both families; the victim admits one port of UDP and of TCP.
fn scenes() -> impl Iterator<Item = Scene> {
    FAMILIES.into_iter().flat_map(|family| {
        [0, 1].map(|far| {
            let mut cluster = Cluster::new(2);
            let (attacker, victim) = (cluster.pod(0), cluster.pod(far));
            let rules = [ServiceProtocol::Udp, ServiceProtocol::Tcp]
                .map(|protocol| allow(Peers::Any, one_port(protocol, ALLOWED)));
            govern(&mut cluster, &victim, ingress(1, &rules));
            Scene { cluster, attacker, victim, family }
        })
    })
}

impl Scene {
    fn packet(&self) -> PacketBuilder {
        self.packet_to(address(&self.victim, self.family))
    }

    fn packet_to(&self, to: IpAddr) -> PacketBuilder {
        PacketBuilder::new(address(&self.attacker, self.family), to).identification(7)
    }

    fn send(&mut self, frames: &[Vec<u8>]) -> Vec<Delivery> {
        frames.iter().flat_map(|frame| self.cluster.send(&self.attacker.clone(), frame)).collect()
    }

    /// A fragment of this protocol with these contents, at this offset in bytes.
    fn fragment(&self, protocol: IpProtocol, offset: u16, more: bool, contents: &[u8]) -> Vec<u8> {
        let packet = self.packet();
        match self.family {
            Family::V4 => {
                let mut frame = packet.protocol(protocol.0, contents).build();
                let field = (u16::from(more) << 13) | (offset / 8);
                frame[20..22].copy_from_slice(&field.to_be_bytes());
                set_header_checksum(&mut frame);
                frame
            }
            Family::V6 => {
                let [high, low] = (offset | u16::from(more)).to_be_bytes();
                let header = [0, 0, high, low, 0, 0, 0, 7];
                packet.extension(44, &header).protocol(protocol.0, contents).build()
            }
        }
    }

    /// Expects that the victim can make no packet to the forbidden port, and none of half a header, of what it got.
    #[track_caller]
    fn assert_cannot_assemble(&self, delivered: &[Delivery], what: &str) {
        let got: Vec<_> = delivered
            .iter()
            .filter(|delivery| (delivery.node, delivery.port) == (self.victim.node, self.victim.port))
            .map(|delivery| &delivery.frame[..])
            .collect();
        let contents = |frame: &[u8]| frame[if self.family == Family::V4 { 34 } else { 62 }..].to_vec();
        let is_first = |frame: &[u8]| {
            let at = if self.family == Family::V4 { 20 } else { 56 };
            let field = u16::from_be_bytes([frame[at], frame[at + 1]]);
            if self.family == Family::V4 { field & 0x1fff == 0 } else { field >> 3 == 0 }
        };
        for frame in got.iter().filter(|frame| is_first(frame)) {
            let contents = contents(frame);
            assert!(contents.len() >= 8, "{what}: a first fragment without a header: {frame:02x?}");
            assert_eq!(contents[2..4], ALLOWED.to_be_bytes(), "{what}: {frame:02x?}");
        }
    }
}

fn set_header_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let header: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (header & 0xffff) + (header >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

fn tcp_header(port: u16, flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&4000_u16.to_be_bytes());
    header[2..4].copy_from_slice(&port.to_be_bytes());
    (header[12], header[13]) = (0x50, flags);
    header
}

fn udp_header(port: u16, len: u16) -> Vec<u8> {
    [4000_u16, port, len, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// RFC 1858 section 3: a first fragment too small for the header that is to be looked at.
#[test]
fn a_tiny_first_fragment_gets_nowhere() {
    for mut scene in scenes() {
        let header = tcp_header(ALLOWED, SYN);
        for cut in [8, 16] {
            let frames = [
                scene.fragment(IpProtocol::TCP, 0, true, &header[..cut]),
                scene.fragment(IpProtocol::TCP, cut as u16, true, &[0; 24]),
                scene.fragment(IpProtocol::TCP, cut as u16 + 24, false, &[0; 24]),
            ];
            for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
                let frames = order.map(|at| frames[at].clone());
                assert_eq!(scene.send(&frames), [], "{cut} bytes, {order:?}");
            }
        }
        for protocol in [IpProtocol::UDP, IpProtocol::SCTP, IpProtocol::ICMP, IpProtocol::ICMPV6] {
            let tiny = scene.fragment(protocol, 0, true, &[0; 0]);
            assert_eq!(scene.send(&[tiny]), [], "{protocol}");
        }
    }
}

/// A chain of headers that goes on in the second fragment (RFC 7112).
#[test]
fn a_first_fragment_without_its_transport_header_gets_nowhere() {
    for mut scene in scenes().filter(|scene| scene.family == Family::V6) {
        // A destination options header fills the first fragment; UDP is to come.
        let options = [17, 0, 1, 4, 0, 0, 0, 0];
        let first = scene.fragment(IpProtocol(60), 0, true, &options);
        let rest = scene.fragment(IpProtocol(60), 8, false, &udp_header(ALLOWED, 8));
        assert_eq!(scene.send(&[first.clone(), rest.clone()]), []);
        assert_eq!(scene.send(&[rest, first]), []);
    }
}

/// Two first fragments of one datagram, one for the allowed port and one for another, in every order.
#[test]
fn a_second_first_fragment_does_not_bring_the_other_port_in() {
    for mut scene in scenes() {
        let first = |port| scene.fragment(IpProtocol::UDP, 0, true, &udp_header(port, 48));
        let last = scene.fragment(IpProtocol::UDP, 8, false, &[1; 40]);
        let (good, bad) = (first(ALLOWED), first(FORBIDDEN));
        for frames in [
            [good.clone(), bad.clone(), last.clone()],
            [bad.clone(), good.clone(), last.clone()],
            [good.clone(), last.clone(), bad.clone()],
            [last.clone(), bad.clone(), good.clone()],
            [last.clone(), good.clone(), bad.clone()],
        ] {
            let delivered = scene.send(&frames);
            scene.assert_cannot_assemble(&delivered, "two first ones");
        }
    }
}

/// A later fragment that overlaps the header of the first: what the first was let in by is not at an offset but the
/// first's own. The parts that it can overwrite hold no ports.
#[test]
fn an_overlapping_fragment_changes_no_port() {
    for mut scene in scenes() {
        let first =
            scene.fragment(IpProtocol::UDP, 0, true, &[&udp_header(ALLOWED, 48)[..], &[1; 16]].concat());
        let over = scene.fragment(IpProtocol::UDP, 8, true, &[2; 16]);
        let end = scene.fragment(IpProtocol::UDP, 24, false, &[3; 24]);
        for frames in [[first.clone(), over.clone(), end.clone()], [over, first, end]] {
            let delivered = scene.send(&frames);
            scene.assert_cannot_assemble(&delivered, "overlapping");
        }
        // And none at all of it where the first is not let in.
        let first =
            scene.fragment(IpProtocol::UDP, 0, true, &[&udp_header(FORBIDDEN, 48)[..], &[1; 16]].concat());
        let over = scene.fragment(IpProtocol::UDP, 8, true, &[2; 16]);
        assert_eq!(scene.send(&[first, over]), []);
    }
}

/// The rest comes first, by the allowed datagram's name, and the first that then comes is another's.
#[test]
fn later_fragments_wait_for_their_own_first_one() {
    for mut scene in scenes() {
        let later = scene.fragment(IpProtocol::UDP, 8, false, &[1; 40]);
        assert_eq!(scene.send(&[later]), [], "before its first");
        let bad = scene.fragment(IpProtocol::UDP, 0, true, &udp_header(FORBIDDEN, 48));
        assert_eq!(scene.send(&[bad]), [], "its first is not let in");
        // A whole packet, which has the same identification, does not release anything either.
        let whole = scene.packet().udp(4000, ALLOWED).payload(&[5; 8]).build();
        let delivered = scene.send(&[whole]);
        assert_eq!(delivered.len(), 1, "it alone");
        assert_eq!(read(&delivered[0].frame).payload, [5; 8]);
    }
}

/// Another protocol's first fragment with the same identification. Of IPv6, later ones do not say what they are.
#[test]
fn a_first_fragment_of_another_protocol_opens_nothing() {
    for mut scene in scenes() {
        let good = scene.fragment(IpProtocol::UDP, 0, true, &udp_header(ALLOWED, 48));
        let bad = scene.fragment(IpProtocol::TCP, 0, true, &tcp_header(FORBIDDEN, SYN)[..]);
        let bad_later = scene.fragment(IpProtocol::TCP, 24, false, &[1; 40]);
        let delivered = scene.send(&[good, bad, bad_later]);
        scene.assert_cannot_assemble(&delivered, "of another protocol");
        let frames: Vec<&[u8]> = delivered.iter().map(|delivery| &delivery.frame[..]).collect();
        assert_eq!(reassemble(frames), None, "nothing whole comes of it");
    }
}

/// Offsets that wrap round, and fragments that end beyond the largest datagram.
#[test]
fn fragments_beyond_the_largest_datagram_get_nowhere() {
    for mut scene in scenes() {
        let first = scene.fragment(IpProtocol::UDP, 0, true, &udp_header(ALLOWED, 48));
        assert_eq!(scene.send(&[first]).len(), 1);
        let beyond = scene.fragment(IpProtocol::UDP, 65_528, false, &[1; 64]);
        assert_eq!(scene.send(&[beyond]), []);
        let reset = scene.fragment(IpProtocol::TCP, 65_528, true, &tcp_header(ALLOWED, RST));
        assert_eq!(scene.send(&[reset]), []);
    }
}

/// Waiting fragments are bounded for each sender, and one who fills its share takes nobody else's.
#[test]
fn a_flood_of_later_fragments_is_held_within_bounds_and_keeps_nobody_from_theirs() {
    for mut scene in scenes() {
        let neighbour = scene.cluster.pod(0);
        for id in 0..2000 {
            let (from, to) = (address(&scene.attacker, scene.family), address(&scene.victim, scene.family));
            let packet =
                PacketBuilder::new(from, to).identification(id).udp(4000, ALLOWED).payload(&[1; 2000]);
            let later = packet.build_fragments(1200).remove(1);
            assert_eq!(scene.send(&[later]), []);
        }
        let totals = scene.cluster.nodes[0].shared.totals();
        assert!(totals.held <= 64, "{} are held", totals.held);
        assert!(dropped(&scene.cluster, 0, DropReason::FragmentLimit) > 0);
        let (from, to) = (address(&neighbour, scene.family), address(&scene.victim, scene.family));
        let packet = PacketBuilder::new(from, to).udp(4000, ALLOWED).payload(&[9; 2000]);
        let [first, second] = packet.build_fragments(1200).try_into().expect("two fragments");
        let delivered: Vec<_> =
            [second, first].iter().flat_map(|frame| scene.cluster.send(&neighbour, frame)).collect();
        assert_eq!(delivered.len(), 2, "another's arrive");
    }
}
