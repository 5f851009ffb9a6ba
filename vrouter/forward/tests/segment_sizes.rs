//! The segment size that a SYN announces is lowered to what every packet of the connection can have on its
//! way.

mod support;

use support::{ACK, FAMILIES, SYN, address, leave_checksum, only, vip};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress, Offload, PortId, SegmentKind};
use vrouter_forward::offload::finish_checksum;
use vrouter_forward::sim::{Cluster, PacketBuilder, ServiceSpec};
use vrouter_objects::ServiceProtocol;

const NOP: u8 = 1;

/// The largest segment in the pods' and the tunnel's 1450 bytes.
fn limit(family: Family) -> u16 {
    if family == Family::V4 { 1410 } else { 1390 }
}

fn options_of(frame: &[u8], family: Family) -> &[u8] {
    let transport = if family == Family::V4 { 34 } else { 54 };
    &frame[transport + 20..transport + usize::from(frame[transport + 12] >> 4) * 4]
}

/// A segment size option behind so many bytes of others.
fn announcing(size: u16, before: usize) -> Vec<u8> {
    let [high, low] = size.to_be_bytes();
    let mut options = [&vec![NOP; before][..], &[2, 4, high, low]].concat();
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

#[test]
fn a_larger_size_is_lowered_and_a_smaller_kept() {
    for family in FAMILIES {
        for (server_node, before) in
            [0, 1].into_iter().flat_map(|node| (0..4).map(move |before| (node, before)))
        {
            let mut cluster = Cluster::new(2);
            let (client, server) = (cluster.pod(0), cluster.pod(server_node));
            let members = [(address(&server, family), 8080)];
            cluster.put(&[ServiceSpec::new(1, vip(family), ServiceProtocol::Tcp, 80, &members).object()]);
            let limit = limit(family);
            for (announced, expected) in
                [(65_535, limit), (1460, limit), (limit + 1, limit), (limit, limit), (536, 536), (0, 0)]
            {
                let label = format!("{family:?} {announced} behind {before} bytes, to node {server_node}");
                let options = announcing(announced, before);
                for to in [address(&server, family), vip(family)] {
                    let packet = PacketBuilder::new(address(&client, family), to);
                    let frame = packet.tcp_segment(4000, 80, SYN, 1, 0, &options).build();
                    let delivered = cluster.send(&client, &frame);
                    // Reading checks the checksum too.
                    assert_eq!(only(&delivered).tcp_flags, SYN, "{label}");
                    assert_eq!(
                        options_of(&delivered[0].frame, family),
                        announcing(expected, before),
                        "{label}"
                    );
                }
                let packet = PacketBuilder::new(address(&server, family), address(&client, family));
                let answer = packet.tcp_segment(8080, 4000, SYN | ACK, 1, 2, &options).build();
                let back = cluster.send(&server, &answer);
                assert_eq!(only(&back).source, vip(family), "{label}");
                assert_eq!(options_of(&back[0].frame, family), announcing(expected, before), "{label}");
            }
        }
    }
}

#[test]
fn an_unfinished_checksum_covers_the_lowered_size_once_finished() {
    for family in FAMILIES {
        for before in 0..4 {
            let mut cluster = Cluster::new(2);
            let (client, server) = (cluster.pod(0), cluster.pod(1));
            let packet = PacketBuilder::new(address(&client, family), address(&server, family));
            let mut bytes = packet.tcp_segment(4000, 80, SYN, 1, 0, &announcing(1460, before)).build();
            let checksum = leave_checksum(&mut bytes, SegmentKind::Tcp);
            let delivered = cluster.send_with(&client, &bytes, Offload { checksum, segmentation: None });
            let mut frame = Frame::from_bytes(&delivered[0].frame, Ingress::Port(PortId(0)));
            frame.offload = delivered[0].offload;
            finish_checksum(&mut frame);
            support::read(frame.bytes());
            assert_eq!(options_of(frame.bytes(), family), announcing(limit(family), before));
        }
    }
}

#[test]
fn what_announces_nothing_is_left_alone() {
    let size = [5, 0xb4];
    let table: [(&str, u8, Vec<u8>); 8] = [
        ("data with the option", ACK, announcing(1460, 0)),
        ("no options", SYN, Vec::new()),
        ("behind the end of options", SYN, vec![0, 0, 0, 0, 2, 4, size[0], size[1]]),
        ("of a wrong length", SYN, vec![2, 3, size[0], size[1]]),
        ("cut short", SYN, vec![NOP, NOP, 2, 4]),
        ("inside another option", SYN, vec![254, 8, 2, 4, size[0], size[1], 0, 0]),
        ("behind an option of no length", SYN, vec![254, 0, 0, 0, 2, 4, size[0], size[1]]),
        ("behind an option past the header", SYN, vec![254, 40, 2, 4, size[0], size[1], 0, 0]),
    ];
    for family in FAMILIES {
        for (name, flags, options) in &table {
            let mut cluster = Cluster::new(2);
            let (client, server) = (cluster.pod(0), cluster.pod(1));
            let packet = PacketBuilder::new(address(&client, family), address(&server, family));
            let delivered =
                cluster.send(&client, &packet.tcp_segment(4000, 80, *flags, 1, 2, options).build());
            assert_eq!(only(&delivered).tcp_flags, *flags, "{name}");
            assert_eq!(options_of(&delivered[0].frame, family), options, "{name}");
        }
    }
}
