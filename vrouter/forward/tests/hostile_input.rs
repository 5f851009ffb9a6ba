//! Whatever comes in, from pods and out of tunnels: nothing panics, every frame is accounted for (the
//! simulated node asserts it), and a flow is only ever made of what an independent parser reads in the packet
//! too.

mod support;

use std::collections::HashSet;
use std::net::IpAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use support::{FAMILIES, SYN, address, from_tunnel, node_mac, vip, vtep};
use vrouter_forward::Family;
use vrouter_forward::flow::{Direction, FlowKey};
use vrouter_forward::frame::{Checksum, Frame, Ingress, Offload, SegmentKind, Segmentation};
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{MacAddress, ServiceProtocol};

/// What is done to a valid packet.
#[derive(Debug, Clone)]
enum Mutation {
    /// A byte becomes another.
    Set(prop::sample::Index, u8),
    /// A bit flips.
    Flip(prop::sample::Index, u8),
    /// It ends early.
    Cut(prop::sample::Index),
    /// Something is behind it.
    Append(Vec<u8>),
    /// A stretch is missing.
    Remove(prop::sample::Index, usize),
}

/// One frame to throw at the router.
#[derive(Debug, Clone)]
struct Throw {
    valid: usize,
    mutations: Vec<Mutation>,
    /// In place of all of it.
    arbitrary: Option<Vec<u8>>,
    through_tunnel: bool,
    unfinished: Option<Unfinished>,
}

/// An offload header that promises what it likes.
#[derive(Debug, Clone)]
struct Unfinished {
    start: prop::sample::Index,
    offset: u16,
    segmentation: Option<Segmentation>,
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    use prop::sample::Index;
    prop_oneof![
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        3 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => prop::collection::vec(any::<u8>(), 1..40).prop_map(Mutation::Append),
        1 => (any::<Index>(), 1..30_usize).prop_map(|(at, len)| Mutation::Remove(at, len)),
    ]
}

fn any_throw() -> impl Strategy<Value = Throw> {
    let kind = prop::sample::select(vec![SegmentKind::Tcp, SegmentKind::Udp]);
    let segmentation = (kind, 1..3000_u16)
        .prop_map(|(kind, size)| Segmentation { kind, size: size.try_into().expect("not zero") });
    let unfinished = (any::<prop::sample::Index>(), 0..20_u16, prop::option::of(segmentation))
        .prop_map(|(start, offset, segmentation)| Unfinished { start, offset, segmentation });
    (
        any::<usize>(),
        prop::collection::vec(any_mutation(), 0..4),
        prop::option::weighted(0.1, prop::collection::vec(any::<u8>(), 0..200)),
        any::<bool>(),
        prop::option::weighted(0.2, unfinished),
    )
        .prop_map(|(valid, mutations, arbitrary, through_tunnel, unfinished)| Throw {
            valid,
            mutations,
            arbitrary,
            through_tunnel,
            unfinished,
        })
}

impl Mutation {
    fn apply(&self, frame: &mut Vec<u8>) {
        if frame.is_empty() {
            return;
        }
        let len = frame.len();
        match self {
            Self::Set(at, byte) => frame[at.index(len)] = *byte,
            Self::Flip(at, bit) => frame[at.index(len)] ^= 1 << bit,
            Self::Cut(at) => frame.truncate(at.index(len)),
            Self::Append(bytes) => frame.extend_from_slice(bytes),
            Self::Remove(at, count) => {
                let start = at.index(len);
                frame.drain(start..len.min(start + count));
            }
        }
    }
}

/// Valid packets of every kind, from one address to another.
fn valid_packets(packet: &PacketBuilder, family: Family) -> Vec<Vec<u8>> {
    let quoted = packet.clone().udp(4000, 80).payload(&[0; 8]).build_ip();
    let (unreachable, too_big) = if family == Family::V4 { (3, 3) } else { (1, 2) };
    let extensions = packet
        .clone()
        .extension(0, &[0; 8])
        .extension(60, &[0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut packets = vec![
        packet.clone().tcp_segment(4000, 80, SYN, 1, 0, &[2, 4, 5, 0xb4, 1, 3, 3, 7]).build(),
        packet.clone().udp(4000, 80).payload(&[1; 30]).build(),
        packet.clone().sctp(4000, 80).payload(&[1, 0, 0, 4]).build(),
        packet.clone().echo_request(3, 4).payload(&[2; 20]).build(),
        packet.clone().icmp(unreachable, 3, [0; 4]).payload(&quoted).build(),
        packet.clone().icmp(too_big, 0, [0, 0, 5, 0]).payload(&quoted).build(),
        packet.clone().protocol(47, &[0; 20]).build(),
        packet.clone().ip_options(&[1, 1, 1, 0]).tcp(4001, 80, SYN).build(),
        extensions.tcp(4002, 80, SYN).build(),
        packet.clone().udp(4003, 80).payload(&[3; 1600]).build(),
    ];
    packets.extend(packet.clone().identification(9).udp(4004, 80).payload(&[4; 300]).build_fragments(128));
    packets
}

/// Two nodes with pods and services, and valid packets for them.
struct Target {
    cluster: Cluster,
    pod: PodHandle,
    from_pod: Vec<Vec<u8>>,
    from_tunnel: Vec<Vec<u8>>,
}

impl Target {
    fn new() -> Self {
        let mut cluster = Cluster::with_slots(2, 512);
        let (pod, near, far) = (cluster.pod(0), cluster.pod(0), cluster.pod(1));
        let (mut from_pod, mut from_tunnel) = (Vec::new(), Vec::new());
        for (number, family) in (1..).zip(FAMILIES) {
            let members = [(address(&near, family), 8080), (address(&far, family), 8080)];
            cluster
                .put(&[ServiceSpec::new(number, vip(family), ServiceProtocol::Tcp, 80, &members).object()]);
            for to in [vip(family), address(&near, family), address(&far, family), support::gateway(family)] {
                let packet = PacketBuilder::new(address(&pod, family), to).macs(pod.mac, MacAddress::GATEWAY);
                from_pod.extend(valid_packets(&packet, family));
            }
            let packet = PacketBuilder::new(address(&far, family), address(&pod, family));
            from_tunnel.extend(valid_packets(&packet.macs(node_mac(1), node_mac(0)), family));
        }
        from_pod.push(arp_request(&pod));
        from_pod.push(solicitation(&pod));
        Self { cluster, pod, from_pod, from_tunnel }
    }

    fn frame(&self, throw: &Throw) -> Frame {
        let valid = if throw.through_tunnel { &self.from_tunnel } else { &self.from_pod };
        let mut bytes = valid[throw.valid % valid.len()].clone();
        if let Some(arbitrary) = &throw.arbitrary {
            bytes.clone_from(arbitrary);
        }
        throw.mutations.iter().for_each(|mutation| mutation.apply(&mut bytes));
        let mut frame = match throw.through_tunnel {
            true => from_tunnel(&bytes, vtep(1)),
            false => Frame::from_bytes(&bytes, Ingress::Port(self.pod.port)),
        };
        frame.offload = offload(throw, &bytes).unwrap_or_default();
        frame
    }

    fn initiators(&self) -> HashSet<FlowKey> {
        let flows = self.cluster.nodes[0].flows(self.cluster.now);
        flows.iter().filter(|flow| flow.direction == Direction::Initiator).map(|flow| flow.key).collect()
    }
}

/// The header as far as `io` lets it pass: the checksum field lies inside the frame.
fn offload(throw: &Throw, bytes: &[u8]) -> Option<Offload> {
    let Unfinished { start, offset, segmentation } = throw.unfinished.as_ref()?;
    let room = bytes.len().checked_sub(14 + usize::from(*offset) + 2).filter(|room| *room > 0)?;
    let checksum = Checksum::Partial { start: 14 + start.index(room) as u16, offset: *offset };
    Some(Offload { checksum, segmentation: *segmentation })
}

fn arp_request(pod: &PodHandle) -> Vec<u8> {
    let mut frame = [MacAddress::BROADCAST.0, pod.mac.0].concat();
    frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend_from_slice(&pod.mac.0);
    frame.extend_from_slice(&[10, 244, 1, 2, 0, 0, 0, 0, 0, 0, 10, 244, 0, 1]);
    frame
}

fn solicitation(pod: &PodHandle) -> Vec<u8> {
    let group: IpAddr = "ff02::1:ff00:1".parse().expect("a literal address");
    let IpAddr::V6(gateway) = support::gateway(Family::V6) else { unreachable!("the IPv6 gateway") };
    let option = [&[1, 1][..], &pod.mac.0].concat();
    PacketBuilder::new(pod.v6, group)
        .macs(pod.mac, MacAddress([0x33, 0x33, 0xff, 0, 0, 1]))
        .hops(255)
        .icmp(135, 0, [0; 4])
        .payload(&[&gateway.octets()[..], &option].concat())
        .build()
}

/// Whether etherparse reads in the frame what the flow is named by.
fn is_in(key: &FlowKey, frame: &[u8]) -> bool {
    // etherparse insists on what IGMP may say, and reads on behind an authentication header of IPv4; to the
    // router both are protocols without ports.
    if key.protocol.0 == 2 || (key.protocol.0 == 51 && key.source.family() == Family::V4) {
        return (key.source_port, key.destination_port) == (0, 0);
    }
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return is_odd_timestamp(key, frame) };
    let (source, destination): (IpAddr, IpAddr) = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        Some(NetSlice::Ipv6(ip)) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        _ => return false,
    };
    let Some(contents) = packet.ip_payload() else { return false };
    let word =
        |at: usize| contents.payload.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let ports = match (&packet.transport, contents.ip_number.0) {
        (Some(TransportSlice::Tcp(tcp)), _) => Some((tcp.source_port(), tcp.destination_port())),
        (Some(TransportSlice::Udp(udp)), _) => Some((udp.source_port(), udp.destination_port())),
        // etherparse reads no transport in fragments, and no SCTP.
        (None, 6 | 17 | 132) => word(0).zip(word(2)),
        (_, 1) if matches!(contents.payload.first(), Some(0 | 8)) => word(4).zip(word(4)),
        (_, 58) if matches!(contents.payload.first(), Some(128 | 129)) => word(4).zip(word(4)),
        _ => Some((0, 0)),
    };
    let family_of = |address: IpAddr| if address.is_ipv4() { 1 } else { 58 };
    let echo_of_other_family =
        matches!(contents.ip_number.0, 1 | 58) && contents.ip_number.0 != family_of(source);
    !echo_of_other_family
        && (IpAddr::from(key.source), IpAddr::from(key.destination)) == (source, destination)
        && key.protocol.0 == contents.ip_number.0
        && ports == Some((key.source_port, key.destination_port))
}

/// ICMP timestamp messages (types 13 and 14) have one length to etherparse; to the router they are messages
/// like others.
fn is_odd_timestamp(key: &FlowKey, frame: &[u8]) -> bool {
    let Ok(packet) = LaxSlicedPacket::from_ethernet(frame) else { return false };
    let Some(LaxNetSlice::Ipv4(ip)) = &packet.net else { return false };
    let addresses: (IpAddr, IpAddr) =
        (ip.header().source_addr().into(), ip.header().destination_addr().into());
    let contents = ip.payload();
    (key.protocol.0, contents.ip_number.0) == (1, 1)
        && contents.payload.len() >= 8
        && matches!(contents.payload[0], 13 | 14)
        && (IpAddr::from(key.source), IpAddr::from(key.destination)) == addresses
        && (key.source_port, key.destination_port) == (0, 0)
}

fn bombard(throws: &[Throw]) -> Result<(), TestCaseError> {
    let mut target = Target::new();
    let mut known = target.initiators();
    for throw in throws {
        let frame = target.frame(throw);
        let bytes = frame.bytes().to_vec();
        target.cluster.follow(0, frame);
        let now = target.initiators();
        for key in now.difference(&known) {
            prop_assert!(is_in(key, &bytes), "{:?} of {:02x?}", key, bytes);
        }
        known = now;
    }
    let later = target.cluster.now.plus_millis(100_000);
    for node in &mut target.cluster.nodes {
        node.age(later);
        let totals = node.shared.totals();
        prop_assert!(totals.are_conserved(), "{:?}", totals);
        prop_assert_eq!(totals.held, 0, "fragments are held for ever");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_brings_the_router_down_and_nothing_malformed_makes_a_flow(
        throws in prop::collection::vec(any_throw(), 1..60),
    ) {
        bombard(&throws)?;
    }
}

#[test]
fn the_valid_packets_are_valid() {
    let mut target = Target::new();
    for (bytes, ingress) in [(target.from_pod.clone(), false), (target.from_tunnel.clone(), true)] {
        for bytes in bytes {
            let frame = match ingress {
                true => from_tunnel(&bytes, vtep(1)),
                false => Frame::from_bytes(&bytes, Ingress::Port(target.pod.port)),
            };
            target.cluster.follow(0, frame);
        }
    }
    let drops = support::drops(&target.cluster, 0);
    let expected = |reason| !matches!(reason, vrouter_objects::DropReason::InvalidTransport);
    assert!(drops.iter().all(|(reason, _)| expected(*reason)), "{drops:?}");
    assert!(target.initiators().len() > 20);
}
