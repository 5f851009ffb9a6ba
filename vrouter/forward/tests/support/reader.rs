//! Reading packets with an independent parser.

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;
use etherparse::defrag::IpDefragPool;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use vrouter_forward::frame::{Checksum, SegmentKind};
use vrouter_forward::sim::Delivery;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

/// What etherparse makes of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub hops: u8,
    pub protocol: u8,
    pub ports: (u16, u16),
    pub tcp_flags: u8,
    pub payload: Vec<u8>,
}

/// Reads a whole frame and checks every checksum in it.
pub fn read(frame: &[u8]) -> Read {
    let packet = SlicedPacket::from_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    let (source, destination, hops, protocol) = header(&packet);
    let mut read = Read {
        source,
        destination,
        hops,
        protocol,
        ports: (0, 0),
        tcp_flags: 0,
        payload: packet.ip_payload().map(|payload| payload.payload.to_vec()).unwrap_or_default(),
    };
    assert!(has_valid_checksums(frame), "checksums of {packet:?}");
    match &packet.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            read.ports = (tcp.source_port(), tcp.destination_port());
            read.tcp_flags = tcp.slice()[13];
            read.payload = tcp.payload().to_vec();
        }
        Some(TransportSlice::Udp(udp)) => {
            read.ports = (udp.source_port(), udp.destination_port());
            read.payload = udp.payload().to_vec();
        }
        Some(_) => {}
        None if protocol == SCTP && !is_fragment(&packet) => {
            let bytes = &read.payload;
            read.ports = (u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]]));
        }
        None => {}
    }
    read
}

fn header(packet: &SlicedPacket<'_>) -> (IpAddr, IpAddr, u8, u8) {
    match packet.net.as_ref().expect("an IP packet") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.ttl(), ip.payload().ip_number.0)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.hop_limit(), ip.payload().ip_number.0)
        }
        other => panic!("not IP: {other:?}"),
    }
}

fn is_fragment(packet: &SlicedPacket<'_>) -> bool {
    packet.ip_payload().is_some_and(|payload| payload.fragmented)
}

/// Whether the IPv4 header's checksum and the transport's are right, as far as a packet has them.
pub fn has_valid_checksums(frame: &[u8]) -> bool {
    let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return false };
    if let Some(NetSlice::Ipv4(ip)) = &packet.net {
        let header = ip.header();
        if header.header_checksum() != header.to_header().calc_header_checksum() {
            return false;
        }
    }
    let (source, destination, _, protocol) = header(&packet);
    let contents = packet.ip_payload().map_or(&[][..], |payload| payload.payload);
    is_fragment(&packet) || transport_is_valid(source, destination, protocol, contents)
}

fn transport_is_valid(source: IpAddr, destination: IpAddr, protocol: u8, contents: &[u8]) -> bool {
    let sum = match (protocol, source, destination) {
        (ICMP, ..) => Sum16BitWords::new(),
        (UDP, IpAddr::V4(_), _) if contents[6..8] == [0, 0] => return true,
        (UDP, IpAddr::V6(_), _) if contents[6..8] == [0, 0] => return false,
        (TCP | UDP | ICMPV6, IpAddr::V4(source), IpAddr::V4(destination)) => {
            Sum16BitWords::new().add_4bytes(source.octets()).add_4bytes(destination.octets())
        }
        (TCP | UDP | ICMPV6, IpAddr::V6(source), IpAddr::V6(destination)) => {
            Sum16BitWords::new().add_16bytes(source.octets()).add_16bytes(destination.octets())
        }
        (SCTP, ..) => {
            let found = u32::from_le_bytes(contents[8..12].try_into().expect("four bytes"));
            return found == crc32c(&[&contents[..8], &[0; 4], &contents[12..]].concat());
        }
        _ => return true,
    };
    let sum = if protocol == ICMP {
        sum
    } else {
        sum.add_2bytes([0, protocol]).add_2bytes((contents.len() as u16).to_be_bytes())
    };
    sum.add_slice(contents).ones_complement() == 0
}

/// CRC-32C bit by bit, as RFC 9260 appendix A describes it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

/// Reads the one frame that was delivered.
pub fn only(deliveries: &[Delivery]) -> Read {
    assert_eq!(deliveries.len(), 1, "{deliveries:#?}");
    read(&deliveries[0].frame)
}

/// Puts a datagram's fragments together, in any order, and frames it as one packet; `None` while parts are
/// missing.
pub fn reassemble<'f>(fragments: impl IntoIterator<Item = &'f [u8]>) -> Option<Vec<u8>> {
    let mut pool = IpDefragPool::<(), ()>::new();
    for frame in fragments {
        let packet = SlicedPacket::from_ethernet(frame).expect("a fragment that can be read");
        if let Some(whole) = pool.process_sliced_packet(&packet, (), ()).expect("fragments that fit together")
        {
            return Some(framed(&packet, frame, whole.ip_number.0, &whole.payload));
        }
    }
    None
}

/// The fragment's frame as it would be without fragmentation, its extension headers left out.
fn framed(packet: &SlicedPacket<'_>, frame: &[u8], protocol: u8, contents: &[u8]) -> Vec<u8> {
    let mut whole = frame[..14].to_vec();
    match packet.net.as_ref().expect("an IP packet") {
        NetSlice::Ipv4(ip) => {
            let mut header = ip.header().to_header();
            (header.more_fragments, header.fragment_offset) = (false, etherparse::IpFragOffset::ZERO);
            header.set_payload_len(contents.len()).expect("a length that fits");
            header.header_checksum = header.calc_header_checksum();
            whole.extend_from_slice(&header.to_bytes());
        }
        NetSlice::Ipv6(ip) => {
            let mut header = ip.header().to_header();
            header.next_header = etherparse::IpNumber(protocol);
            header.payload_length = contents.len() as u16;
            whole.extend_from_slice(&header.to_bytes());
        }
        other => panic!("not IP: {other:?}"),
    }
    whole.extend_from_slice(contents);
    whole
}

/// Puts the delivered fragments together and reads the datagram.
pub fn read_datagram(deliveries: &[Delivery]) -> Read {
    let fragments = deliveries.iter().map(|delivery| &delivery.frame[..]);
    let whole = reassemble(fragments).unwrap_or_else(|| panic!("parts are missing: {deliveries:#?}"));
    read(&whole)
}

/// Leaves a TCP or UDP packet's checksum to be finished, as a sender with offload does: the field holds the
/// pseudo-header's sum. Returns the packet's state.
pub fn leave_checksum(frame: &mut [u8], kind: SegmentKind) -> Checksum {
    let (transport, addresses) = if frame[12] == 0x08 { (34, 26..34) } else { (54, 22..54) };
    let (protocol, offset) = match kind {
        SegmentKind::Tcp => (TCP, 16),
        SegmentKind::Udp => (UDP, 6),
    };
    let sum = Sum16BitWords::new()
        .add_slice(&frame[addresses])
        .add_2bytes([0, protocol])
        .add_2bytes(((frame.len() - transport) as u16).to_be_bytes());
    let seed = !sum.ones_complement().to_be();
    frame[transport + offset..transport + offset + 2].copy_from_slice(&seed.to_be_bytes());
    Checksum::Partial { start: transport as u16, offset: offset as u16 }
}
