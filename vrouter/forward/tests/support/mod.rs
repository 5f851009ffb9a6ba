//! Reading packets with an independent parser, for all tests of this folder.
#![allow(dead_code)] // Each test file uses its part.

use std::net::IpAddr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use vrouter_forward::frame::{Checksum, Offload};
use vrouter_forward::sim::Delivery;

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
    let (source, destination, hops, protocol) = match packet.net.as_ref().expect("an IP packet") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum(), "IPv4 checksum");
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.ttl(), ip.payload().ip_number.0)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let (source, destination) = (header.source_addr().into(), header.destination_addr().into());
            (source, destination, header.hop_limit(), ip.payload().ip_number.0)
        }
        other => panic!("not IP: {other:?}"),
    };
    let mut read = Read {
        source,
        destination,
        hops,
        protocol,
        ports: (0, 0),
        tcp_flags: 0,
        payload: packet.ip_payload().map(|payload| payload.payload.to_vec()).unwrap_or_default(),
    };
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
        None if protocol == 132 => {
            let bytes = &read.payload;
            read.ports = (u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]]));
        }
        None => {}
    }
    check_transport_checksum(&packet);
    read
}

/// Compares the transport checksum with one that etherparse computes afresh.
fn check_transport_checksum(packet: &SlicedPacket<'_>) {
    let (found, expected) = match (&packet.transport, packet.net.as_ref()) {
        (Some(TransportSlice::Tcp(tcp)), Some(NetSlice::Ipv4(ip))) => {
            let header = ip.header();
            (tcp.checksum(), tcp.calc_checksum_ipv4(header.source(), header.destination()).unwrap())
        }
        (Some(TransportSlice::Tcp(tcp)), Some(NetSlice::Ipv6(ip))) => {
            let header = ip.header();
            (tcp.checksum(), tcp.calc_checksum_ipv6(header.source(), header.destination()).unwrap())
        }
        (Some(TransportSlice::Udp(udp)), Some(NetSlice::Ipv4(ip))) if udp.checksum() != 0 => {
            let header = ip.header().to_header();
            let expected = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            (udp.checksum(), expected)
        }
        (Some(TransportSlice::Udp(udp)), Some(NetSlice::Ipv6(ip))) => {
            let header = ip.header().to_header();
            let expected = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap();
            (udp.checksum(), expected)
        }
        (Some(TransportSlice::Icmpv4(icmp)), _) => {
            let expected = icmp.icmp_type().calc_checksum(icmp.payload());
            (icmp.checksum(), expected)
        }
        (Some(TransportSlice::Icmpv6(icmp)), Some(NetSlice::Ipv6(ip))) => {
            let header = ip.header();
            let expected = icmp
                .icmp_type()
                .calc_checksum(header.source(), header.destination(), icmp.payload())
                .unwrap();
            (icmp.checksum(), expected)
        }
        _ => return,
    };
    assert_eq!(found, expected, "transport checksum of {packet:?}");
}

/// Reads the one frame that was delivered.
pub fn only(deliveries: &[Delivery]) -> Read {
    assert_eq!(deliveries.len(), 1, "{deliveries:#?}");
    read(&deliveries[0].frame)
}

/// A super-frame's offload: a partial checksum at this transport offset, to be cut by `size`.
pub fn super_frame(kind: vrouter_forward::frame::SegmentKind, start: u16, size: u16) -> Offload {
    let offset = match kind {
        vrouter_forward::frame::SegmentKind::Tcp => 16,
        vrouter_forward::frame::SegmentKind::Udp => 6,
    };
    Offload {
        checksum: Checksum::Partial { start, offset },
        segmentation: Some(vrouter_forward::frame::Segmentation { kind, size: size.try_into().unwrap() }),
    }
}
