use std::cell::{Cell, RefCell};

use super::*;
use crate::testing::{Recorded, Transport, frame_of, leave_checksum, packet, packet_from, super_frame};
use vrouter_forward::frame::Offload;

const VNI: u32 = 0x01_02_03;

/// One call: to where, how many bytes a packet, all bytes.
type Call = (Tunnel, Datagrams, Vec<u8>);

#[derive(Debug, Default)]
struct Sink {
    calls: RefCell<Vec<Call>>,
    refuse_several: Option<i32>,
    refuse_all: Option<i32>,
    /// The one call to fail, by its number from 0 on, and how.
    fail_once: Cell<Option<(usize, i32)>>,
}

impl DatagramSink for &Sink {
    fn send(&self, tunnel: &Tunnel, datagrams: Datagrams, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let refusal = if datagrams == Datagrams::One { None } else { self.refuse_several };
        if let Some(errno) = refusal.or(self.refuse_all) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if let Some((0, errno)) = self.fail_once.get() {
            self.fail_once.set(None);
            return Err(io::Error::from_raw_os_error(errno));
        }
        self.fail_once.set(self.fail_once.get().map(|(left, errno)| (left - 1, errno)));
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.calls.borrow_mut().push((*tunnel, datagrams, bytes));
        Ok(())
    }
}

impl Sink {
    /// The inner frames as they are on the wire, each without its VXLAN header, which is looked at.
    fn on_the_wire(&self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for (_, datagrams, bytes) in self.calls.borrow().iter() {
            let size = match datagrams {
                Datagrams::One => bytes.len(),
                Datagrams::Of(size) => usize::from(*size),
            };
            for packet in bytes.chunks(size) {
                let (header, frame) = packet.split_at(HEADER_LEN);
                assert_eq!(header, [8, 0, 0, 0, 1, 2, 3, 0]);
                frames.push(frame.to_vec());
            }
        }
        frames
    }

    fn sizes(&self) -> Vec<Datagrams> {
        self.calls.borrow().iter().map(|(_, datagrams, _)| *datagrams).collect()
    }
}

fn to(node: u8, entropy: u32) -> Option<Egress> {
    Some(Egress::Tunnel {
        destination: IpAddr::from([172, 30, 0, node]),
        vni: Vni::new(VNI).unwrap(),
        entropy,
    })
}

fn send(sink: &Sink, mut frames: Vec<Frame>) -> Recorded {
    for frame in &mut frames {
        frame.egress = frame.egress.or(to(2, 7));
    }
    let mut ledger = Recorded::default();
    TunnelTransmitter::new(sink).send(&mut frames, &mut ledger);
    ledger
}

#[test]
fn equal_packets_of_a_flow_go_in_one_call() {
    for transport in Transport::ALL {
        let mut packets: Vec<_> = (0..5).map(|index| packet(transport, index, 1_000)).collect();
        packets.push(packet(transport, 5, 10));
        packets.push(packet(transport, 6, 10));
        let sink = Sink::default();
        let ledger = send(&sink, packets.iter().map(|packet| frame_of(packet)).collect());
        let size = (HEADER_LEN + packets[0].len()) as u16;
        assert_eq!(sink.sizes(), [Datagrams::Of(size), Datagrams::One]);
        assert_eq!(sink.on_the_wire(), packets);
        assert_eq!(ledger, Recorded::default());
    }
}

#[test]
fn flows_and_nodes_are_kept_apart_and_in_order() {
    let mut frames: Vec<_> = (0..6).map(|index| frame_of(&packet(Transport::Udp4, index, 100))).collect();
    let ways = [to(2, 1), to(2, 1), to(2, 2), to(3, 2), to(3, 2), to(2, 1)];
    for (frame, way) in frames.iter_mut().zip(ways) {
        frame.egress = way;
    }
    let sink = Sink::default();
    send(&sink, frames);
    let size = (HEADER_LEN + packet(Transport::Udp4, 0, 100).len()) as u16;
    assert_eq!(sink.sizes(), [Datagrams::Of(size), Datagrams::One, Datagrams::Of(size), Datagrams::One]);
    let entropies: Vec<_> = sink.calls.borrow().iter().map(|(tunnel, ..)| tunnel.entropy).collect();
    assert_eq!(entropies, [1, 2, 2, 1]);
    assert_eq!(
        sink.on_the_wire(),
        (0..6).map(|index| packet(Transport::Udp4, index, 100)).collect::<Vec<_>>()
    );
}

#[test]
fn offl_11_a_partial_checksum_is_completed_before_the_tunnel() {
    for transport in Transport::ALL {
        let whole = packet(transport, 0, 999);
        let sink = Sink::default();
        send(&sink, vec![leave_checksum(&whole)]);
        assert_eq!(sink.on_the_wire(), [whole]);
    }
}

#[test]
fn a_super_frame_is_cut_into_whole_packets() {
    for transport in Transport::ALL {
        let frame = super_frame(transport, 60_000, 1_400);
        let cut = Cut::of(frame.bytes(), frame.offload.segmentation.unwrap()).unwrap();
        let expected: Vec<_> = (0..cut.count())
            .map(|index| {
                let mut packet = frame_of(&[]);
                cut.copy_segment(&frame, index, SegmentChecksum::Full, &mut packet);
                packet.bytes().to_vec()
            })
            .collect();
        let sink = Sink::default();
        let ledger = send(&sink, vec![super_frame(transport, 60_000, 1_400)]);
        assert_eq!(sink.on_the_wire(), expected);
        assert_eq!(sink.calls.borrow().len(), 1);
        assert!(sink.calls.borrow().iter().all(|(_, _, bytes)| bytes.len() <= MAX_BYTES));
        assert_eq!(ledger, Recorded { cut: vec![43], ..Recorded::default() });
    }
}

#[test]
fn small_segments_take_several_calls() {
    let sink = Sink::default();
    let ledger = send(&sink, vec![super_frame(Transport::Tcp6, 20_000, 100)]);
    assert_eq!(sink.on_the_wire().len(), 200);
    assert_eq!(sink.calls.borrow().len(), 200_usize.div_ceil(MAX_SEGMENTS));
    assert_eq!(ledger.cut, [200]);
}

#[test]
fn offl_13_datagram_boundaries_are_kept() {
    let sink = Sink::default();
    send(&sink, vec![super_frame(Transport::Udp4, 5_000, 1_000)]);
    assert_eq!(sink.on_the_wire().iter().map(|frame| frame.len() - 42).collect::<Vec<_>>(), [1_000; 5]);
}

#[test]
fn offl_8_what_the_kernel_refuses_together_goes_singly() {
    for errno in [libc::EINVAL, libc::EIO, libc::EMSGSIZE] {
        let packets: Vec<_> = (0..3).map(|index| packet(Transport::Udp6, index, 500)).collect();
        let mut frames: Vec<_> = packets.iter().map(|packet| leave_checksum(packet)).collect();
        frames.push(super_frame(Transport::Tcp4, 2_500, 1_000));
        let sink = Sink { refuse_several: Some(errno), ..Sink::default() };
        let ledger = send(&sink, frames);
        assert_eq!(sink.sizes(), [Datagrams::One; 6]);
        assert_eq!(sink.on_the_wire()[..3], packets);
        assert_eq!(ledger, Recorded { cut: vec![3], ..Recorded::default() });
    }
}

#[test]
fn what_the_kernel_does_not_take_is_counted() {
    let table = [
        (libc::EMSGSIZE, DropReason::TooBig),
        (libc::EAGAIN, DropReason::QueueFull),
        (libc::ENOBUFS, DropReason::QueueFull),
        (libc::ENETUNREACH, DropReason::TransmitFailed),
    ];
    for (errno, reason) in table {
        let mut frames: Vec<_> = (0..3).map(|index| frame_of(&packet(Transport::Udp4, index, 500))).collect();
        frames.push(super_frame(Transport::Tcp4, 2_500, 1_000));
        frames.push(frame_of(&packet_from(9, Transport::Tcp6, 0, 0)));
        let sink = Sink { refuse_all: Some(errno), ..Sink::default() };
        assert_eq!(send(&sink, frames), Recorded { lost: vec![reason; 5], ..Recorded::default() });
    }
}

#[test]
fn one_failed_call_loses_its_own_packets_and_the_frame_is_lost_once() {
    // In batches of 64, 64 and 22 packets; and each packet singly, once the batch was refused.
    for (refuse_several, failing, arrived) in [(None, 0, 86), (None, 2, 128), (Some(libc::EINVAL), 70, 149)] {
        let fail_once = Cell::new(Some((failing, libc::ENOBUFS)));
        let sink = Sink { refuse_several, fail_once, ..Sink::default() };
        let ledger = send(&sink, vec![super_frame(Transport::Tcp4, 15_000, 100)]);
        assert_eq!(sink.on_the_wire().len(), arrived, "call {failing} fails");
        assert_eq!(ledger, Recorded { lost: vec![DropReason::QueueFull], ..Recorded::default() });
    }
}

#[test]
fn a_frame_without_offload_is_sent_as_it_is() {
    let mut odd = packet(Transport::Udp4, 0, 100);
    odd.push(0xaa);
    let sink = Sink::default();
    let mut frame = frame_of(&odd);
    frame.offload = Offload::default();
    send(&sink, vec![frame]);
    assert_eq!(sink.on_the_wire(), [odd]);
}
