//! Checksums and super-frames through translation: whatever a sender left undone is still right to finish.

mod support;

use support::{
    ACK, FAMILIES, Read, SYN, address, dropped, has_valid_checksums, leave_checksum, only, read,
    read_datagram, vip,
};
use vrouter_forward::Family;
use vrouter_forward::frame::{Checksum, Frame, Ingress, Offload, PortId, SegmentKind, Segmentation};
use vrouter_forward::offload::{Cut, SegmentChecksum, finish_checksum};
use vrouter_forward::sim::{Cluster, Delivery, PacketBuilder, PodHandle, ServiceSpec};
use vrouter_objects::{DropReason, ServiceProtocol};

const KINDS: [SegmentKind; 2] = [SegmentKind::Tcp, SegmentKind::Udp];

/// A client with a service on one node, and the service's only member on another. The connection is
/// established.
struct Scene {
    cluster: Cluster,
    client: PodHandle,
    server: PodHandle,
    family: Family,
    kind: SegmentKind,
}

impl Scene {
    fn new(family: Family, kind: SegmentKind) -> Self {
        let mut cluster = Cluster::new(2);
        let (client, server) = (cluster.pod(0), cluster.pod(1));
        let protocol = match kind {
            SegmentKind::Tcp => ServiceProtocol::Tcp,
            SegmentKind::Udp => ServiceProtocol::Udp,
        };
        let service = ServiceSpec::new(1, vip(family), protocol, 80, &[(address(&server, family), 8080)]);
        cluster.put(&[service.object()]);
        let mut scene = Self { cluster, client, server, family, kind };
        let opening = scene.request(SYN, &[]);
        assert_eq!(scene.send(&opening, Offload::default()).len(), 1);
        scene
    }

    fn all() -> impl Iterator<Item = Self> {
        FAMILIES.into_iter().flat_map(|family| KINDS.map(|kind| Self::new(family, kind)))
    }

    fn label(&self) -> String {
        format!("{:?} {:?}", self.family, self.kind)
    }

    fn request(&self, flags: u8, payload: &[u8]) -> Vec<u8> {
        self.between(address(&self.client, self.family), vip(self.family), (4000, 80), flags, payload)
    }

    /// What is to arrive of [`Scene::request`], hops aside.
    fn translated_request(&self, flags: u8, payload: &[u8]) -> Vec<u8> {
        let server = address(&self.server, self.family);
        self.between(address(&self.client, self.family), server, (4000, 8080), flags, payload)
    }

    fn between(
        &self,
        from: std::net::IpAddr,
        to: std::net::IpAddr,
        (source, destination): (u16, u16),
        flags: u8,
        payload: &[u8],
    ) -> Vec<u8> {
        let packet = PacketBuilder::new(from, to).payload(payload);
        match self.kind {
            SegmentKind::Tcp => packet.tcp(source, destination, flags).build(),
            SegmentKind::Udp => packet.udp(source, destination).build(),
        }
    }

    fn checksum(&self, frame: &[u8]) -> u16 {
        let transport = if self.family == Family::V4 { 34 } else { 54 };
        let at = transport + if self.kind == SegmentKind::Tcp { 16 } else { 6 };
        u16::from_be_bytes([frame[at], frame[at + 1]])
    }

    fn send(&mut self, bytes: &[u8], offload: Offload) -> Vec<Delivery> {
        let client = self.client.clone();
        self.cluster.send_with(&client, bytes, offload)
    }

    /// Sends a super-frame to be cut by `size` through the service, and returns it as it arrives.
    fn send_super_frame(&mut self, payload: &[u8], size: u16) -> (Delivery, Offload) {
        let mut bytes = self.request(ACK, payload);
        let checksum = leave_checksum(&mut bytes, self.kind);
        let segmentation = Some(Segmentation { kind: self.kind, size: size.try_into().unwrap() });
        let offload = Offload { checksum, segmentation };
        let mut delivered = self.send(&bytes, offload);
        assert_eq!(delivered.len(), 1, "{}", self.label());
        (delivered.remove(0), offload)
    }
}

fn frame_of(delivery: &Delivery) -> Frame {
    let mut frame = Frame::from_bytes(&delivery.frame, Ingress::Port(PortId(0)));
    frame.offload = delivery.offload;
    frame
}

/// Cuts a super-frame into complete packets.
fn segments(frame: &Frame) -> Vec<Vec<u8>> {
    let cut = Cut::of(frame.bytes(), frame.offload.segmentation.unwrap()).expect("a super-frame");
    let one = |index| {
        let mut segment = Frame::with_capacity(2000);
        cut.copy_segment(frame, index, SegmentChecksum::Full, &mut segment);
        segment.bytes().to_vec()
    };
    (0..cut.count()).map(one).collect()
}

#[test]
fn offl_2_an_absent_udp_checksum_stays_absent() {
    let mut scene = Scene::new(Family::V4, SegmentKind::Udp);
    let mut bytes = scene.request(0, b"unsummed");
    bytes[40..42].fill(0);
    let there = scene.send(&bytes, Offload::default());
    assert_eq!(only(&there).ports, (4000, 8080));
    assert_eq!(scene.checksum(&there[0].frame), 0);

    let mut answer =
        PacketBuilder::new(scene.server.v4, scene.client.v4).udp(8080, 4000).payload(b"so am I").build();
    answer[40..42].fill(0);
    let server = scene.server.clone();
    let back = scene.cluster.send(&server, &answer);
    assert_eq!(only(&back).source, vip(Family::V4));
    assert_eq!(scene.checksum(&back[0].frame), 0);
}

/// IPv6 has no UDP without a checksum (RFC 8200 section 8.1): what is translated may not lose the little it
/// has.
#[test]
fn offl_2_an_absent_udp_checksum_is_not_translated_in_ipv6() {
    let mut scene = Scene::new(Family::V6, SegmentKind::Udp);
    let mut bytes = scene.request(0, b"unsummed");
    bytes[60..62].fill(0);
    assert_eq!(scene.send(&bytes, Offload::default()), []);
    assert_eq!(dropped(&scene.cluster, 0, DropReason::ChecksumError), 1);
    // Untranslated, it is the receiver's affair (RFC 6936).
    let mut plain = PacketBuilder::new(scene.client.v6, scene.server.v6).udp(1, 2).payload(b"plain").build();
    plain[60..62].fill(0);
    assert_eq!(scene.send(&plain, Offload::default()).len(), 1);
}

#[test]
fn offl_3_a_computed_udp_checksum_of_zero_is_sent_as_ones() {
    for family in FAMILIES {
        let mut scene = Scene::new(family, SegmentKind::Udp);
        // The builder writes ones where the sum comes to zero.
        let comes_to_zero = |payload: &[u8]| scene.checksum(&scene.translated_request(0, payload)) == 0xffff;
        let payload =
            (0..=u16::MAX).map(u16::to_be_bytes).find(|word| comes_to_zero(word)).expect("one in 65536");
        let mut request = scene.request(0, &payload);
        let whole = scene.send(&request, Offload::default());
        assert_eq!(scene.checksum(&whole[0].frame), 0xffff, "{family:?}");

        let checksum = leave_checksum(&mut request, SegmentKind::Udp);
        let unfinished = scene.send(&request, Offload { checksum, segmentation: None });
        let mut frame = frame_of(&unfinished[0]);
        finish_checksum(&mut frame);
        assert_eq!(scene.checksum(frame.bytes()), 0xffff, "{family:?}, finished later");
    }
}

#[test]
fn offl_12_a_checksum_left_undone_is_right_once_it_is_finished() {
    for mut scene in Scene::all() {
        for len in [0, 1, 2, 37, 1000] {
            let payload = vec![0xa7; len];
            let mut bytes = scene.request(ACK, &payload);
            let checksum = leave_checksum(&mut bytes, scene.kind);
            let offload = Offload { checksum, segmentation: None };
            let delivered = scene.send(&bytes, offload);
            let label = format!("{} with {len} bytes", scene.label());
            assert_eq!(delivered[0].offload, offload, "{label}: the seed and what says so travel together");
            let mut frame = frame_of(&delivered[0]);
            finish_checksum(&mut frame);
            let expected = read(&scene.translated_request(ACK, &payload));
            assert_eq!(read(frame.bytes()), Read { hops: 62, ..expected }, "{label}");
        }
    }
}

/// A priority tag is taken off, and what counts from the frame's start moves along.
#[test]
fn offl_12_a_tag_taken_off_moves_the_checksum() {
    for mut scene in Scene::all() {
        let mut bytes = scene.request(ACK, b"tagged");
        let Checksum::Partial { start, offset } = leave_checksum(&mut bytes, scene.kind) else {
            unreachable!()
        };
        let tagged = [&bytes[..12], &[0x81, 0, 0xa0, 0], &bytes[12..]].concat();
        let checksum = Checksum::Partial { start: start + 4, offset };
        let delivered = scene.send(&tagged, Offload { checksum, segmentation: None });
        assert_eq!(delivered[0].offload.checksum, Checksum::Partial { start, offset }, "{}", scene.label());
        let mut frame = frame_of(&delivered[0]);
        finish_checksum(&mut frame);
        assert_eq!(read(frame.bytes()).payload, b"tagged", "{}", scene.label());
    }
}

#[test]
fn offl_12_fragments_of_an_unfinished_packet_are_finished() {
    let mut scene = Scene::new(Family::V4, SegmentKind::Udp);
    let mut bytes = scene.request(0, &[0x5c; 3000]);
    let checksum = leave_checksum(&mut bytes, SegmentKind::Udp);
    let delivered = scene.send(&bytes, Offload { checksum, segmentation: None });
    assert!(delivered.iter().all(|fragment| fragment.offload == Offload::default()));
    assert_eq!(read_datagram(&delivered).payload, [0x5c; 3000]);
}

/// What the router makes of a packet is complete, whatever that one was.
#[test]
fn offl_12_answers_leave_nothing_undone() {
    for mut scene in Scene::all() {
        let packet = PacketBuilder::new(address(&scene.client, scene.family), vip(scene.family)).hops(1);
        let mut expired = match scene.kind {
            SegmentKind::Tcp => packet.tcp(4000, 80, ACK).build(),
            SegmentKind::Udp => packet.udp(4000, 80).build(),
        };
        let checksum = leave_checksum(&mut expired, scene.kind);
        let told = scene.send(&expired, Offload { checksum, segmentation: None });
        assert_eq!(told[0].offload, Offload::default(), "{}", scene.label());
        assert_eq!(
            (told[0].port, only(&told).destination),
            (scene.client.port, address(&scene.client, scene.family))
        );
    }
}

#[test]
fn offl_9_a_translated_super_frame_has_its_ip_checksum_and_seed() {
    for mut scene in Scene::all() {
        let payload: Vec<u8> = (0..10_000_u32).map(|at| (at * 7) as u8).collect();
        let (delivery, offload) = scene.send_super_frame(&payload, 1200);
        let mut expected = scene.translated_request(ACK, &payload);
        leave_checksum(&mut expected, scene.kind);
        assert_eq!(scene.checksum(&delivery.frame), scene.checksum(&expected), "{}: the seed", scene.label());

        // A sender may leave the IPv4 header's checksum out too; it is there before a write to a TAP.
        let mut frame = frame_of(&delivery);
        if scene.family == Family::V4 {
            frame.bytes_mut()[24..26].fill(0);
        }
        let cut = Cut::of(frame.bytes(), offload.segmentation.unwrap()).unwrap();
        cut.write_whole_checksums(frame.bytes_mut());
        assert_eq!(scene.checksum(frame.bytes()), scene.checksum(&expected), "{}", scene.label());
        frame.offload.segmentation = None;
        finish_checksum(&mut frame);
        assert!(has_valid_checksums(frame.bytes()), "{}", scene.label());
    }
}

#[test]
fn offl_10_15_the_kind_and_size_of_segments_stay_as_the_sender_said() {
    for mut scene in Scene::all() {
        for (len, size) in [(1201, 1200), (20_000, 1200), (65_000, 1390)] {
            let (delivery, offload) = scene.send_super_frame(&vec![1; len], size);
            assert_eq!(delivery.offload, offload, "{} {len} by {size}", scene.label());
        }
    }
}

/// Segments of a translated super-frame are what the sender would have sent itself, one by one.
#[test]
fn offl_13_segments_cut_after_translation_are_complete_packets() {
    for mut scene in Scene::all() {
        for (len, size) in [(5000_usize, 1000), (5001, 1000), (30_000, 1390), (1200, 1199)] {
            let payload: Vec<u8> = (0..len as u32).map(|at| (at * 31 + at / 253) as u8).collect();
            let (delivery, _) = scene.send_super_frame(&payload, size);
            let frame = frame_of(&delivery);
            let cut: Vec<_> = segments(&frame).iter().map(|segment| read(segment)).collect();
            let label = format!("{} {len} by {size}", scene.label());
            assert_eq!(cut.len(), len.div_ceil(size.into()), "{label}");
            for (segment, expected) in cut.iter().zip(payload.chunks(size.into())) {
                assert_eq!(segment.ports, (4000, 8080), "{label}");
                assert_eq!(segment.destination, address(&scene.server, scene.family), "{label}");
                assert_eq!(segment.payload, expected, "{label}");
            }
        }
    }
}

#[test]
fn a_super_frame_counts_as_its_packets() {
    for mut scene in Scene::all() {
        scene.send_super_frame(&[0; 10_000], 1000);
        let flows = scene.cluster.nodes[0].flows(scene.cluster.now);
        let sent = flows.iter().map(|flow| flow.packets).sum::<u64>();
        assert_eq!(sent, 1 + 10, "{}: {flows:#?}", scene.label());
        let totals = scene.cluster.nodes[0].shared.totals();
        assert_eq!((totals.received, totals.super_frames_received), (2, 1));
    }
}
