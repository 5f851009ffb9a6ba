use super::*;
use crate::testing::{Recorded, Transport, frame_of, leave_checksum, packet, packet_from, super_frame};
use vrouter_forward::frame::{Checksum, Offload, Segmentation};

/// A descriptor that keeps what is written, and refuses what it is told to.
#[derive(Debug, Default)]
struct Sink {
    written: Vec<(VnetHeader, Vec<u8>)>,
    attempts: usize,
    refuse_super_frames: Option<i32>,
    refuse_all: Option<i32>,
    /// The interface goes once so many packets were written.
    unplug_after: Option<usize>,
}

impl PacketSink for Sink {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.attempts += 1;
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<_>>();
        let (header, frame) = bytes.split_first_chunk().unwrap();
        let header = VnetHeader::from_bytes(header);
        let refusal = if header.is_super_frame() { self.refuse_super_frames } else { None };
        let is_unplugged = self.unplug_after.is_some_and(|count| self.written.len() >= count);
        match refusal.or(self.refuse_all).or(is_unplugged.then_some(libc::ENODEV)) {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => {
                self.written.push((header, frame.to_vec()));
                Ok(())
            }
        }
    }
}

/// Sends the frames into the sink and gives back what the ledger says.
fn send(
    sink: Sink,
    super_frames: SuperFrames,
    mut frames: Vec<Frame>,
) -> (Sink, Recorded, Result<(), Unplugged>) {
    let mut transmitter = Transmitter::new(sink, super_frames);
    let mut ledger = Recorded::default();
    let result = transmitter.send(&mut frames, &mut ledger);
    (transmitter.sink, ledger, result)
}

/// The packets that a receiver gets from what was written, with complete checksums.
fn received(written: &[(VnetHeader, Vec<u8>)]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (header, bytes) in written {
        let mut frame = frame_of(bytes);
        frame.offload = header.decode(bytes).unwrap();
        match frame.offload.segmentation {
            None => {
                vrouter_forward::offload::finish_checksum(&mut frame);
                packets.push(frame.bytes().to_vec());
            }
            Some(segmentation) => {
                let cut = Cut::of(bytes, segmentation).unwrap();
                for index in 0..cut.count() {
                    let mut packet = frame_of(&[]);
                    cut.copy_segment(&frame, index, SegmentChecksum::Full, &mut packet);
                    packets.push(packet.bytes().to_vec());
                }
            }
        }
    }
    packets
}

fn stream(transport: Transport, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|index| packet(transport, index, 500)).collect()
}

#[test]
fn a_run_is_one_write_and_arrives_as_it_was() {
    for transport in Transport::ALL {
        let packets = stream(transport, 10);
        let frames = packets.iter().map(|packet| leave_checksum(packet)).collect();
        let (sink, ledger, result) = send(Sink::default(), SuperFrames::TcpAndUdp, frames);
        assert_eq!(result, Ok(()));
        assert_eq!(sink.written.len(), 1);
        assert_eq!(received(&sink.written), packets);
        assert_eq!(ledger, Recorded { gathered: vec![10], ..Recorded::default() });
    }
}

#[test]
fn flows_keep_their_order() {
    let one = |index| packet_from(1, Transport::Udp4, index, 300);
    let other = |index| packet_from(2, Transport::Udp4, index, 300);
    let packets = vec![one(0), one(1), other(0), one(2), other(1), other(2), other(3)];
    let frames = packets.iter().map(|packet| frame_of(packet)).collect();
    let (sink, ledger, _) = send(Sink::default(), SuperFrames::TcpAndUdp, frames);
    assert_eq!(received(&sink.written), packets);
    assert_eq!(ledger.gathered, [2, 3]);
}

#[test]
fn offl_4_zero_checksum_udp_passes_singly() {
    let packets: Vec<_> = (0..5)
        .map(|index| {
            let mut packet = packet(Transport::Udp4, index, 300);
            packet[40..42].fill(0);
            packet
        })
        .collect();
    let frames = packets.iter().map(|packet| frame_of(packet)).collect();
    let (sink, ledger, _) = send(Sink::default(), SuperFrames::TcpAndUdp, frames);
    assert_eq!(
        sink.written,
        packets.into_iter().map(|packet| (VnetHeader::default(), packet)).collect::<Vec<_>>()
    );
    assert_eq!(ledger, Recorded::default());
}

#[test]
fn offl_5_the_header_of_every_written_packet_is_explicit() {
    for transport in Transport::ALL {
        let mut bad = packet(transport, 0, 500);
        *bad.last_mut().unwrap() ^= 1;
        // The buffer was a super-frame's before, header in the headroom and all.
        let mut head = super_frame(transport, 5_000, 1_000);
        head.with_header_mut(HEADER_LEN)[..HEADER_LEN].fill(0xff);
        head.set(&bad);
        head.offload = Offload::default();
        let mut frames = vec![head];
        frames.extend((1..4).map(|index| frame_of(&packet(transport, index, 500))));
        let (sink, ledger, _) = send(Sink::default(), SuperFrames::TcpAndUdp, frames);
        assert_eq!(sink.written[0], (VnetHeader::default(), bad));
        assert_eq!(ledger.gathered, [3], "{transport:?}");
    }
}

#[test]
fn offl_8_what_the_kernel_refuses_gathered_goes_singly() {
    for transport in Transport::ALL {
        let mut packets = stream(transport, 6);
        packets.push(packet_with_short_tail(transport));
        let frames = packets.iter().map(|packet| leave_checksum(packet)).collect();
        let refusing = Sink { refuse_super_frames: Some(libc::EINVAL), ..Sink::default() };
        let (sink, ledger, result) = send(refusing, SuperFrames::TcpAndUdp, frames);
        assert_eq!(result, Ok(()));
        assert_eq!(sink.attempts, 1 + packets.len());
        assert_eq!(received(&sink.written), packets);
        assert_eq!(ledger, Recorded::default());
    }
}

/// The packet that ends a stream of six packets of 500 bytes.
fn packet_with_short_tail(transport: Transport) -> Vec<u8> {
    let full = packet(transport, 6, 500);
    let mut frame = super_frame(transport, 3_100, 500);
    frame.offload.segmentation =
        frame.offload.segmentation.map(|it| Segmentation { size: 500.try_into().unwrap(), ..it });
    let cut = Cut::of(frame.bytes(), frame.offload.segmentation.unwrap()).unwrap();
    let mut tail = frame_of(&[]);
    cut.copy_segment(&frame, 6, SegmentChecksum::Full, &mut tail);
    assert!(tail.len() < full.len());
    tail.bytes().to_vec()
}

#[test]
fn offl_8_a_super_frame_that_the_kernel_refuses_is_cut() {
    for transport in Transport::ALL {
        let refusing = Sink { refuse_super_frames: Some(libc::EINVAL), ..Sink::default() };
        let whole = super_frame(transport, 5_000, 1_000);
        let (sink, ledger, _) = send(refusing, SuperFrames::TcpAndUdp, vec![whole]);
        let (taking, whole_ledger, _) =
            send(Sink::default(), SuperFrames::TcpAndUdp, vec![super_frame(transport, 5_000, 1_000)]);
        assert_eq!(received(&sink.written), received(&taking.written));
        assert_eq!((ledger.cut, ledger.lost, ledger.sent_whole), (vec![5], vec![], 0));
        assert_eq!(whole_ledger, Recorded { sent_whole: 1, ..Recorded::default() });
    }
}

#[test]
fn offl_9_a_super_frame_is_written_with_ip_checksum_and_seed() {
    for transport in Transport::ALL {
        let expected = super_frame(transport, 5_000, 1_000);
        let mut spoilt = super_frame(transport, 5_000, 1_000);
        if matches!(transport, Transport::Tcp4 | Transport::Udp4) {
            spoilt.bytes_mut()[24..26].fill(0);
        }
        let Checksum::Partial { start, offset } = expected.offload.checksum else { panic!("not partial") };
        let field = usize::from(start + offset);
        spoilt.bytes_mut()[field..field + 2].fill(0);
        let (sink, ..) = send(Sink::default(), SuperFrames::TcpAndUdp, vec![spoilt]);
        assert_eq!(sink.written[0].1, expected.bytes());
    }
}

#[test]
fn without_udp_super_frames_datagrams_go_singly() {
    let packets = stream(Transport::Udp6, 4);
    let mut frames: Vec<_> = packets.iter().map(|packet| leave_checksum(packet)).collect();
    frames.push(super_frame(Transport::Udp4, 2_500, 1_000));
    let (sink, ledger, _) = send(Sink::default(), SuperFrames::Tcp, frames);
    assert_eq!(sink.attempts, 4 + 3);
    assert!(sink.written.iter().all(|(header, _)| !header.is_super_frame()));
    assert_eq!(received(&sink.written)[..4], packets);
    assert_eq!(ledger, Recorded { cut: vec![3], ..Recorded::default() });
}

#[test]
fn what_the_kernel_does_not_take_is_counted() {
    let table = [
        (libc::EIO, DropReason::InterfaceDown),
        (libc::EAGAIN, DropReason::QueueFull),
        (libc::ENOMEM, DropReason::QueueFull),
        (libc::EPERM, DropReason::TransmitFailed),
    ];
    for (errno, reason) in table {
        let mut frames: Vec<_> = stream(Transport::Udp4, 3).iter().map(|packet| frame_of(packet)).collect();
        frames.push(super_frame(Transport::Tcp4, 3_000, 1_000));
        frames.push(frame_of(&packet(Transport::Tcp6, 0, 0)));
        let refusing = Sink { refuse_all: Some(errno), ..Sink::default() };
        let (_, ledger, result) = send(refusing, SuperFrames::TcpAndUdp, frames);
        assert_eq!(result, Ok(()));
        assert_eq!(ledger.lost, [reason; 5]);
    }
}

#[test]
fn an_unplugged_interface_is_noticed_once() {
    for errno in [libc::EBADFD, libc::ENODEV] {
        let frames = (1..5).map(|port| frame_of(&packet_from(port, Transport::Udp4, 0, 100))).collect();
        let refusing = Sink { refuse_all: Some(errno), ..Sink::default() };
        let (sink, ledger, result) = send(refusing, SuperFrames::TcpAndUdp, frames);
        assert_eq!((result, sink.attempts), (Err(Unplugged), 1));
        assert_eq!(ledger.lost, [DropReason::InterfaceDown; 4]);
    }
}

#[test]
fn unplugged_amid_a_run_every_frame_is_written_or_lost_once() {
    for written in 0..=6 {
        let mut frames: Vec<_> = stream(Transport::Tcp4, 5).iter().map(|packet| frame_of(packet)).collect();
        frames.push(frame_of(&packet(Transport::Udp6, 0, 100)));
        let refuse_super_frames = Some(libc::EINVAL);
        let sink = Sink { refuse_super_frames, unplug_after: Some(written), ..Sink::default() };
        let (sink, ledger, result) = send(sink, SuperFrames::TcpAndUdp, frames);
        assert_eq!(sink.written.len(), written);
        assert_eq!(ledger.lost, vec![DropReason::InterfaceDown; 6 - written]);
        assert_eq!(result.is_err(), written < 6);
    }
}

#[test]
fn unplugged_amid_a_super_frame_that_is_cut_it_is_lost_once() {
    let frames = vec![super_frame(Transport::Udp4, 5_000, 1_000), frame_of(&packet(Transport::Tcp4, 0, 0))];
    let sink = Sink { unplug_after: Some(2), ..Sink::default() };
    let (sink, ledger, result) = send(sink, SuperFrames::Tcp, frames);
    assert_eq!((sink.written.len(), result), (2, Err(Unplugged)));
    assert_eq!(ledger, Recorded { lost: vec![DropReason::InterfaceDown; 2], ..Recorded::default() });
}
