//! Anything at all from one tenant's pod: frames put together at random from parts that each mean harm.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use vrouter_forward::Family;
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::{MacAddress, ServiceProtocol};

use crate::frames::{group_or_gateway, tagged, vxlan};
use crate::stage::{NETWORKS, Stage};
use crate::support::{FAMILIES, MEMBER_PORT, Voice, address, is_at, is_at_host, node_address, node_mac, vip};

/// One frame, as choices out of what there is.
#[derive(Debug, Clone)]
struct Throw {
    family: Family,
    source: Index,
    destination: Index,
    source_mac: Option<Index>,
    contents: Contents,
    ports: (u16, u16),
    flags: u8,
    hops: u8,
    dressing: Dressing,
    /// Which byte of it is another.
    mutation: Option<(Index, u8)>,
}

/// What is in it.
#[derive(Debug, Clone, Copy)]
enum Contents {
    Service(ServiceProtocol),
    Ping,
    /// An error about another's connection.
    Error,
    /// A frame in an envelope.
    Envelope(u8),
    Tunnel,
    /// Bytes of this protocol.
    Bytes(u8),
}

/// What is around it.
#[derive(Debug, Clone, Copy)]
enum Dressing {
    None,
    Fragments,
    /// One of its fragments alone.
    Later,
    Tag(u16),
    Extension(u8),
    Options,
}

fn any_contents() -> impl Strategy<Value = Contents> {
    prop_oneof![
        4 => select(&crate::support::ALL_PROTOCOLS[..]).prop_map(Contents::Service),
        1 => Just(Contents::Ping),
        2 => Just(Contents::Error),
        1 => select(&[4_u8, 41, 47, 50][..]).prop_map(Contents::Envelope),
        1 => Just(Contents::Tunnel),
        1 => any::<u8>().prop_map(Contents::Bytes),
    ]
}

fn any_dressing() -> impl Strategy<Value = Dressing> {
    prop_oneof![
        6 => Just(Dressing::None),
        1 => Just(Dressing::Fragments),
        1 => Just(Dressing::Later),
        1 => any::<u16>().prop_map(Dressing::Tag),
        1 => select(&[0_u8, 43, 44, 51, 60][..]).prop_map(Dressing::Extension),
        1 => Just(Dressing::Options),
    ]
}

fn any_throw() -> impl Strategy<Value = Throw> {
    let port = || select(&[4000_u16, 4443, 443, MEMBER_PORT, 4789, 30_080, 61_000][..]);
    let who = (any::<Index>(), any::<Index>(), prop::option::weighted(0.1, any::<Index>()));
    let how = (any_contents(), (port(), port()), any::<u8>(), select(&[0_u8, 1, 2, 64, 255][..]));
    let around = (any_dressing(), prop::option::weighted(0.2, (any::<Index>(), any::<u8>())));
    (select(&FAMILIES[..]), who, how, around).prop_map(
        |(
            family,
            (source, destination, source_mac),
            (contents, ports, flags, hops),
            (dressing, mutation),
        )| Throw {
            family,
            source,
            destination,
            source_mac,
            contents,
            ports,
            flags,
            hops,
            dressing,
            mutation,
        },
    )
}

impl Throw {
    /// Half of all are in the attacker's own name, or nothing would get anywhere.
    fn source(&self, stage: &Stage) -> IpAddr {
        let everybody: Vec<_> = stage.everybody(self.family).into_iter().collect();
        let at = self.source.index(2 * everybody.len());
        everybody.get(at).copied().unwrap_or_else(|| address(&stage.attacker(), self.family))
    }

    fn destination(&self, stage: &Stage) -> IpAddr {
        let groups = if self.family == Family::V4 {
            ["224.0.0.251", "255.255.255.255"]
        } else {
            ["ff02::1", "fe80::1"]
        };
        let groups = groups.map(|text| text.parse().expect("a literal address"));
        let everybody: Vec<_> =
            stage.everybody(self.family).into_iter().chain([vip(self.family)]).chain(groups).collect();
        *self.destination.get(&everybody)
    }

    fn frames(&self, stage: &Stage) -> Vec<Vec<u8>> {
        let macs =
            [stage.neighbour().mac, stage.far().mac, MacAddress::GATEWAY, node_mac(0), MacAddress::BROADCAST];
        let from = self.source_mac.as_ref().map_or(stage.attacker().mac, |at| *at.get(&macs));
        let destination = self.destination(stage);
        let packet = PacketBuilder::new(self.source(stage), destination)
            .macs(from, group_or_gateway(destination))
            .hops(self.hops)
            .identification(7);
        let packet = self.filled(packet, stage);
        let mut frames = match self.dressing {
            Dressing::None => vec![packet.build()],
            Dressing::Fragments => packet.build_fragments(16),
            Dressing::Later => packet.build_fragments(16).split_off(1),
            Dressing::Tag(tag) => vec![tagged(&packet.build(), 0x8100, tag)],
            Dressing::Extension(kind) if self.family == Family::V6 => {
                vec![packet.extension(kind, &[0, 0, 0, 1, 0, 0, 0, 7]).build()]
            }
            Dressing::Extension(_) => vec![packet.build()],
            Dressing::Options => vec![packet.ip_options(&[0x83, 7, 4, 10, 244, 1, 21, 0]).build()],
        };
        if let Some((at, byte)) = &self.mutation {
            frames.iter_mut().for_each(|frame| *at.get_mut(frame) = *byte);
        }
        frames
    }

    fn filled(&self, packet: PacketBuilder, stage: &Stage) -> PacketBuilder {
        let (from, to) = self.ports;
        let [_, victim, far] = &stage.pods[self.destination.index(NETWORKS.len())];
        let ends = (address(victim, self.family), address(far, self.family));
        let anothers = Voice::Service(ServiceProtocol::Tcp).frame((ends.0, 4000), (ends.1, MEMBER_PORT), 16);
        match self.contents {
            Contents::Service(ServiceProtocol::Tcp) => packet.tcp(from, to, self.flags),
            Contents::Service(ServiceProtocol::Udp) => packet.udp(from, to).payload(&[7; 40]),
            Contents::Service(ServiceProtocol::Sctp) => packet.sctp(from, to).payload(&[1, 0, 0, 4]),
            Contents::Ping => packet.echo_request(from, to).payload(&[7; 40]),
            Contents::Error => {
                let kind = if self.family == Family::V4 { 3 } else { 1 };
                packet.icmp(kind, self.flags % 6, [0; 4]).payload(&anothers[14..])
            }
            Contents::Envelope(protocol) => packet.protocol(protocol, &anothers[14..]),
            Contents::Tunnel => packet.udp(from, 4789).payload(&vxlan(self.flags.into(), &anothers)),
            Contents::Bytes(protocol) => packet.protocol(protocol, &[self.flags; 40]),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// What comes out anywhere is to a pod of its own network, in its own name; or out of the cluster or to a node, in its
    /// own name where it is known, else in its own node's, and then never to a tunnel's end. And all others go on.
    #[test]
    fn nothing_that_a_pod_throws_hits_another_tenant(
        home in select(&NETWORKS[..]),
        throws in prop::collection::vec(any_throw(), 1..250),
    ) {
        let mut stage = Stage::new(home);
        let attacker = stage.attacker();
        for throw in &throws {
            for frame in throw.frames(&stage) {
                for delivery in stage.throw(&frame) {
                    if is_at(&delivery, &attacker) {
                        continue; // It was told something.
                    }
                    let is_v4 = delivery.frame[12..14] == [8, 0];
                    let family = if is_v4 { Family::V4 } else { Family::V6 };
                    let source = source_of(&delivery.frame, family);
                    let is_own_pod = stage.pods[home].iter().any(|pod| is_at(&delivery, pod));
                    let is_host = (0..2).find(|node| is_at_host(&delivery, *node));
                    let own = address(&attacker, family);
                    let nodes = node_address(attacker.node, family);
                    prop_assert!(is_own_pod || is_host.is_some(), "network {home}: {throw:?}: {delivery:?}");
                    let is_honest = source == own || (is_host == Some(attacker.node) && source == nodes);
                    prop_assert!(is_honest, "network {home}: {throw:?}: {delivery:?}");
                    let is_to_tunnel = source == nodes && is_vxlan(&delivery.frame, family);
                    prop_assert!(!is_to_tunnel, "network {home}: {throw:?}: {delivery:?}");
                }
            }
        }
        stage.assert_all_is_well();
    }
}

fn source_of(frame: &[u8], family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from(<[u8; 4]>::try_from(&frame[26..30]).expect("four bytes")),
        Family::V6 => IpAddr::from(<[u8; 16]>::try_from(&frame[22..38]).expect("sixteen bytes")),
    }
}

/// Whether it is UDP to a tunnel's end, without options or extension headers, which those here do not get with.
fn is_vxlan(frame: &[u8], family: Family) -> bool {
    let (protocol, transport) = if family == Family::V4 { (frame[23], 34) } else { (frame[20], 54) };
    protocol == 17 && frame.get(transport + 2..transport + 4) == Some(&4789_u16.to_be_bytes()[..])
}
