use super::*;
use crate::testing::{Recorded, Transport, frame_of, leave_checksum, packet, packet_from, super_frame};
use vrouter_forward::offload::{Cut, SegmentChecksum, finish_checksum};
use vrouter_objects::Vni;

const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(172, 30, 0, 1));

fn vxlan(vni: u32, inner: &[u8]) -> Vec<u8> {
    [&header::build(Vni::new(vni).unwrap())[..], inner].concat()
}

/// One received buffer: its sender, its packets' size if they are several, and its bytes.
type Buffer = (IpAddr, Option<usize>, Vec<u8>);

/// Each packet in a buffer of its own.
fn singly(packets: &[Vec<u8>]) -> Vec<Buffer> {
    packets.iter().map(|packet| (SOURCE, None, vxlan(1, packet))).collect()
}

/// All packets in one buffer, as the kernel gathers them.
fn gathered(packets: &[Vec<u8>]) -> Vec<Buffer> {
    let size = HEADER_LEN + packets[0].len();
    vec![(SOURCE, Some(size), packets.iter().flat_map(|packet| vxlan(1, packet)).collect())]
}

fn receive(buffers: &[Buffer]) -> (Vec<Frame>, Recorded) {
    let (mut frames, mut spare, mut ledger) = (Vec::new(), Vec::new(), Recorded::default());
    let mut gatherer = Gatherer::new(&mut frames, &mut spare);
    for (source, segment, bytes) in buffers {
        gatherer.take(&mut frame_of(bytes), *source, *segment, &mut ledger);
    }
    gatherer.finish(&mut ledger);
    (frames, ledger)
}

/// The packets that these frames stand for, complete.
fn packets_of(frames: &[Frame]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for frame in frames {
        match frame.offload.segmentation {
            None => packets.push(frame.bytes().to_vec()),
            Some(segmentation) => {
                let cut = Cut::of(frame.bytes(), segmentation).unwrap();
                for index in 0..cut.count() {
                    let mut packet = frame_of(&[]);
                    cut.copy_segment(frame, index, SegmentChecksum::Full, &mut packet);
                    packets.push(packet.bytes().to_vec());
                }
            }
        }
    }
    packets
}

#[test]
fn a_stream_becomes_one_super_frame_however_it_was_received() {
    for transport in Transport::ALL {
        let packets: Vec<_> = (0..20).map(|index| packet(transport, index, 1_000)).collect();
        let halves = [gathered(&packets[..10]), gathered(&packets[10..])].concat();
        let mixed = [singly(&packets[..3]), gathered(&packets[3..])].concat();
        for buffers in [singly(&packets), gathered(&packets), halves, mixed] {
            let (frames, ledger) = receive(&buffers);
            assert_eq!(frames.len(), 1, "{transport:?}");
            assert_eq!(packets_of(&frames), packets);
            assert_eq!(ledger, Recorded { gathered: vec![20], ..Recorded::default() });
            assert_eq!(frames[0].ingress, Ingress::Tunnel { source: SOURCE, vni: Vni::new(1).unwrap() });
        }
    }
}

#[test]
fn the_super_frame_is_as_a_sender_would_have_left_it() {
    for transport in [Transport::Tcp4, Transport::Tcp6] {
        let expected = super_frame(transport, 3_000, 1_000);
        let cut = Cut::of(expected.bytes(), expected.offload.segmentation.unwrap()).unwrap();
        let packets: Vec<_> = (0..3)
            .map(|index| {
                let mut packet = frame_of(&[]);
                cut.copy_segment(&expected, index, SegmentChecksum::Full, &mut packet);
                packet.bytes().to_vec()
            })
            .collect();
        let (frames, _) = receive(&gathered(&packets));
        assert_eq!(frames[0].bytes(), expected.bytes());
        assert_eq!(frames[0].offload, expected.offload);
    }
}

#[test]
fn flows_keep_their_order_and_their_packets() {
    let one = |index| packet_from(1, Transport::Tcp4, index, 700);
    let other = |index| packet_from(2, Transport::Tcp4, index, 700);
    let packets = vec![one(0), one(1), other(0), one(2), other(1), other(2)];
    for buffers in [singly(&packets), gathered(&packets)] {
        let (frames, ledger) = receive(&buffers);
        assert_eq!(packets_of(&frames), packets);
        assert_eq!(ledger.gathered, [2, 2]);
    }
}

#[test]
fn networks_and_senders_are_kept_apart() {
    let packets: Vec<_> = (0..2).map(|index| packet(Transport::Tcp4, index, 700)).collect();
    let other_source = IpAddr::from([172, 30, 0, 2]);
    for second in [(SOURCE, None, vxlan(2, &packets[1])), (other_source, None, vxlan(1, &packets[1]))] {
        let (frames, ledger) = receive(&[(SOURCE, None, vxlan(1, &packets[0])), second]);
        assert_eq!(frames.len(), 2);
        assert_ne!(frames[0].ingress, frames[1].ingress);
        assert_eq!(ledger, Recorded::default());
    }
}

#[test]
fn a_packet_that_is_no_vxlan_is_refused_and_its_neighbours_are_not() {
    let packets: Vec<_> = (0..3).map(|index| packet(Transport::Udp4, index, 100)).collect();
    let mut bytes: Vec<u8> = packets.iter().flat_map(|packet| vxlan(1, packet)).collect();
    let size = HEADER_LEN + packets[0].len();
    bytes[size] = 0;
    bytes.extend([0x08, 0, 0, 0]);
    let (frames, ledger) = receive(&[(SOURCE, Some(size), bytes), (SOURCE, None, vec![0x08; 7])]);
    assert_eq!(packets_of(&frames), [packets[0].clone(), packets[2].clone()]);
    assert_eq!(ledger.refused, [DropReason::InvalidVxlan; 3]);
}

#[test]
fn a_checksum_that_a_sender_nearby_left_partial_is_completed_by_whoever_needs_it() {
    for transport in Transport::ALL {
        let packets: Vec<_> = (0..3).map(|index| packet(transport, index, 700)).collect();
        let partial: Vec<_> = packets.iter().map(|packet| leave_checksum(packet).bytes().to_vec()).collect();
        let (mut frames, _) = receive(&singly(&partial[..1]));
        finish_checksum(&mut frames[0]);
        assert_eq!(frames[0].bytes(), packets[0]);
        let (frames, ledger) = receive(&singly(&partial));
        assert_eq!(packets_of(&frames), packets);
        assert_eq!(ledger.gathered, [3]);
    }
}

#[test]
fn a_wrong_checksum_is_left_for_the_receiver_to_find() {
    let mut bad = packet(Transport::Tcp4, 0, 700);
    *bad.last_mut().unwrap() ^= 1;
    let (frames, _) = receive(&singly(&[bad.clone(), packet(Transport::Tcp4, 1, 700)]));
    assert_eq!((frames.len(), frames[0].bytes()), (2, &bad[..]));
    assert_eq!(frames[0].offload, Offload::default());
}

#[test]
fn offl_13_a_super_frame_of_datagrams_that_nobody_cut_is_recognised() {
    for transport in [Transport::Udp4, Transport::Udp6] {
        let whole = super_frame(transport, 950, 100);
        let (frames, ledger) = receive(&[(SOURCE, Some(100), vxlan(1, whole.bytes()))]);
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].bytes(), frames[0].offload), (whole.bytes(), whole.offload));
        assert_eq!(ledger, Recorded::default());
    }
}
