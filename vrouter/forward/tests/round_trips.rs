//! Any packet that a service translates comes back as it was sent, once its answer is translated the other
//! way.

mod support;

use proptest::prelude::*;
use support::{ACK, FAMILIES, SYN, address, crc32c, drops, has_valid_checksums, read, reassemble, vip};
use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, ServiceProtocol};

const CLIENT_PORT: u16 = 4000;
const SERVICE_PORT: u16 = 80;
/// Swapping it with the client's port and back, or not translating it at all, must make no difference.
const MEMBER_PORTS: [u16; 3] = [8080, SERVICE_PORT, CLIENT_PORT];

/// What makes one packet different from another.
#[derive(Debug, Clone)]
struct Shape {
    family: Family,
    protocol: ServiceProtocol,
    flags: u8,
    tcp_options: Vec<u8>,
    ip_options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    traffic_class: u8,
    hops: u8,
    id: u16,
    payload: Vec<u8>,
    /// `None`: in one piece. Else the bytes of a fragment.
    fragments: Option<usize>,
    member_port: u16,
    member_node: usize,
}

/// Which part of its datagram a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Later,
}

/// Extension headers that may stand before a transport, with contents that mean nothing to a router.
fn any_extensions() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let options = |kind: u8| {
        (0..4_u8).prop_map(move |units| {
            let len = (usize::from(units) + 1) * 8;
            // One PadN option over all of it.
            let mut contents = vec![0; len];
            (contents[1], contents[2], contents[3]) = (units, 1, len as u8 - 4);
            (kind, contents)
        })
    };
    let routed_already = prop::collection::vec(any::<u8>(), 4).prop_map(|data| {
        let contents = [&[0, 0, 253, 0], &data[..]].concat();
        (43, contents)
    });
    let authentication = prop::collection::vec(any::<u8>(), 20).prop_map(|data| {
        let contents = [&[0, 4, 0, 0], &data[..]].concat();
        (51, contents)
    });
    let hop_by_hop = prop::option::of(options(0));
    let others = prop::collection::vec(prop_oneof![options(60), routed_already, authentication], 0..4);
    (hop_by_hop, others).prop_map(|(first, others)| first.into_iter().chain(others).collect())
}

/// TCP options with the odd offsets that real stacks avoid; no segment size, which a router may change.
fn any_tcp_options() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![Just(vec![1]), Just(vec![4, 2]), Just(vec![8, 10, 1, 2, 3, 4, 5, 6, 7, 8])],
        0..6,
    )
    .prop_map(|options| {
        let mut bytes = options.concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.truncate(40);
        bytes
    })
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let kind = (
        prop::sample::select(FAMILIES.to_vec()),
        prop::sample::select(support::ALL_PROTOCOLS.to_vec()),
        prop::sample::select(vec![SYN, SYN | 0xc0, SYN | 0x08]),
        any_tcp_options(),
        prop::collection::vec(Just(1_u8), 0..=10).prop_map(|words| vec![1; words.len() * 4]),
        any_extensions(),
    );
    let rest = (
        any::<u8>(),
        // Four routers on the way there and back.
        5..=255_u8,
        any::<u16>(),
        prop::collection::vec(any::<u8>(), 0..1100),
        prop::option::of((1..150_usize).prop_map(|units| units * 8)),
        prop::sample::select(MEMBER_PORTS.to_vec()),
        0..2_usize,
    );
    (kind, rest).prop_map(|(kind, rest)| {
        let (family, protocol, flags, tcp_options, ip_options, extensions) = kind;
        let (traffic_class, hops, id, payload, fragments, member_port, member_node) = rest;
        // A first fragment must have the whole transport header.
        let fragments = fragments.map(|size| size.max(64));
        Shape {
            family,
            protocol,
            flags,
            tcp_options,
            ip_options,
            extensions,
            traffic_class,
            hops,
            id,
            payload,
            fragments,
            member_port,
            member_node,
        }
    })
}

impl Shape {
    fn frames(&self, client: &PodHandle) -> Vec<Vec<u8>> {
        let builder = PacketBuilder::new(address(client, self.family), vip(self.family))
            .traffic_class(self.traffic_class)
            .hops(self.hops)
            .identification(self.id)
            .ip_options(&self.ip_options)
            .payload(&self.payload);
        let builder = match self.family {
            Family::V4 => builder,
            Family::V6 => {
                self.extensions.iter().fold(builder, |builder, (kind, bytes)| builder.extension(*kind, bytes))
            }
        };
        let builder = match self.protocol {
            ServiceProtocol::Tcp => {
                builder.tcp_segment(CLIENT_PORT, SERVICE_PORT, self.flags, 7, 9, &self.tcp_options)
            }
            ServiceProtocol::Udp => builder.udp(CLIENT_PORT, SERVICE_PORT),
            ServiceProtocol::Sctp => builder.sctp(CLIENT_PORT, SERVICE_PORT),
        };
        match self.fragments {
            Some(size) => builder.build_fragments(size),
            None => vec![builder.build()],
        }
    }

    /// An SCTP checksum cannot be kept right over ports that change where the datagram is not all there.
    fn is_untranslatable(&self, frames: &[Vec<u8>]) -> bool {
        self.protocol == ServiceProtocol::Sctp && frames.len() > 1 && self.member_port != SERVICE_PORT
    }

    fn addresses(&self) -> (usize, usize, usize) {
        if self.family == Family::V4 { (26, 30, 4) } else { (22, 38, 16) }
    }

    /// Where the transport header is, by walking the packet's own shape.
    fn transport(&self) -> usize {
        let fragment = if self.fragments.is_some() { 8 } else { 0 };
        match self.family {
            Family::V4 => 34 + self.ip_options.len(),
            Family::V6 => 54 + fragment + self.extensions.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(),
        }
    }

    /// The frame with both ends changed places: the answer that says the same. What sums cover stays the same
    /// sum.
    fn mirrored(&self, frame: &[u8], part: Part) -> Vec<u8> {
        let mut frame = frame.to_vec();
        let (source, destination, len) = self.addresses();
        (0..len).for_each(|at| frame.swap(source + at, destination + at));
        if part != Part::Later {
            let transport = self.transport();
            (0..2).for_each(|at| frame.swap(transport + at, transport + 2 + at));
            if self.protocol == ServiceProtocol::Sctp && part == Part::Whole {
                let contents = &frame[transport..];
                let crc = crc32c(&[&contents[..8], &[0; 4], &contents[12..]].concat());
                frame[transport + 8..transport + 12].copy_from_slice(&crc.to_le_bytes());
            }
        }
        frame
    }

    /// The frame without what every router changes: link addresses, hops, and the checksum over those.
    fn without_hops(&self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        frame[..12].fill(0);
        match self.family {
            Family::V4 => {
                frame[22] = 0;
                frame[24..26].fill(0);
            }
            Family::V6 => frame[21] = 0,
        }
        frame
    }
}

fn round_trip(shape: &Shape) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::with_slots(2, 256);
    let (client, server) = (cluster.pod(0), cluster.pod(shape.member_node));
    let member = (address(&server, shape.family), shape.member_port);
    cluster.put(&[ServiceSpec::new(1, vip(shape.family), shape.protocol, SERVICE_PORT, &[member]).object()]);
    let sent = shape.frames(&client);

    let mut there = Vec::new();
    for frame in &sent {
        there.extend(cluster.send(&client, frame));
    }
    if shape.is_untranslatable(&sent) {
        prop_assert_eq!(there.len(), 0);
        prop_assert_eq!(drops(&cluster, 0), [(DropReason::ChecksumError, sent.len() as u64)]);
        return Ok(());
    }
    prop_assert_eq!(there.len(), sent.len(), "dropped: {:?}", drops(&cluster, 0));
    for (delivery, original) in there.iter().zip(&sent) {
        prop_assert_eq!((delivery.node, delivery.port), (server.node, server.port));
        prop_assert_eq!(delivery.frame.len(), original.len());
    }
    let whole = match sent.len() {
        1 => there[0].frame.clone(),
        _ => reassemble(there.iter().map(|delivery| &delivery.frame[..])).expect("all of it"),
    };
    let got = read(&whole);
    prop_assert_eq!((got.source, got.destination), (address(&client, shape.family), member.0));
    prop_assert_eq!(got.ports, (CLIENT_PORT, member.1));

    for (number, (delivery, original)) in there.iter().zip(&sent).enumerate() {
        let part = match (number, sent.len()) {
            (0, 1) => Part::Whole,
            (0, _) => Part::First,
            _ => Part::Later,
        };
        let answer = shape.mirrored(&delivery.frame, part);
        prop_assert!(has_valid_checksums(&answer), "the test's own mirror is wrong");
        let mut answer = answer;
        answer[..6].copy_from_slice(&vrouter_objects::MacAddress::GATEWAY.0);
        let back = cluster.send(&server, &answer);
        prop_assert_eq!(back.len(), 1, "dropped: {:?}", drops(&cluster, shape.member_node));
        prop_assert_eq!((back[0].node, back[0].port), (client.node, client.port));
        let again = shape.mirrored(&back[0].frame, part);
        prop_assert_eq!(shape.without_hops(&again), shape.without_hops(original), "fragment {}", number);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_translated_there_and_back_is_what_was_sent(shape in any_shape()) {
        round_trip(&shape)?;
    }
}

/// The same for the flags of a connection's middle and end, which follow an opening.
#[test]
fn every_control_bit_passes_unchanged() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let members = [(address(&server, family), 8080)];
        cluster.put(&[ServiceSpec::new(1, vip(family), ServiceProtocol::Tcp, 80, &members).object()]);
        let packet = PacketBuilder::new(address(&client, family), vip(family));
        for flags in [SYN, ACK, ACK | 0x08, ACK | 0x20, ACK | 0x40, ACK | 0x80, ACK | 0x01, 0x14] {
            let delivered = cluster.send(&client, &packet.clone().tcp(4000, 80, flags).build());
            let got = support::only(&delivered);
            assert_eq!((got.ports, got.tcp_flags), ((4000, 8080), flags), "{family:?}");
        }
    }
}
