//! Reading what was captured, with etherparse as the independent judge.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail, ensure};
use etherparse::{Ipv4Slice, Ipv6Slice, NetSlice, SlicedPacket, TransportSlice};

/// VXLAN's UDP port.
pub const VXLAN_PORT: u16 = 4789;
const VXLAN_HEADER: usize = 8;

/// A packet of a tunnel, over IPv4.
#[derive(Debug, Clone)]
pub struct Tunnelled {
    /// The sending node.
    pub source: Ipv4Addr,
    /// The port it was sent from.
    pub source_port: u16,
    /// The outer packet's whole length.
    pub length: u16,
    /// Whether the outer header forbids fragmenting.
    pub dont_fragment: bool,
    /// The first word of the VXLAN header: flags and what is reserved.
    pub flags: u32,
    /// The network.
    pub vni: u32,
    /// The frame inside.
    pub inner: Vec<u8>,
}

impl Tunnelled {
    /// Reads a frame; `None`: it is something else. An outer fragment is an error, as it must never occur.
    pub fn read(frame: &[u8]) -> Result<Option<Self>> {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return Ok(None) };
        let Some(NetSlice::Ipv4(ip)) = &packet.net else { return Ok(None) };
        if ip.is_payload_fragmented() {
            bail!("a fragment on the underlay: {:?}", ip.header());
        }
        let Some(TransportSlice::Udp(udp)) = &packet.transport else { return Ok(None) };
        if udp.destination_port() != VXLAN_PORT {
            return Ok(None);
        }
        let payload = udp.payload();
        ensure!(payload.len() >= VXLAN_HEADER, "a VXLAN packet of {} bytes", payload.len());
        let word =
            |at: usize| u32::from_be_bytes([payload[at], payload[at + 1], payload[at + 2], payload[at + 3]]);
        Ok(Some(Self {
            source: ip.header().source_addr(),
            source_port: udp.source_port(),
            length: ip.header().total_len(),
            dont_fragment: ip.header().dont_fragment(),
            flags: word(0),
            vni: word(4) >> 8,
            inner: payload[VXLAN_HEADER..].to_vec(),
        }))
    }
}

/// Where a frame's packet comes from, and where it goes; `None`: it is no IP packet.
pub fn ends(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match SlicedPacket::from_ethernet(frame).ok()?.net? {
        NetSlice::Ipv4(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Ipv6(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Arp(_) => None,
    }
}

/// Where a frame's packet goes; `None`: it is no IP packet.
pub fn destination(frame: &[u8]) -> Option<IpAddr> {
    ends(frame).map(|(_, destination)| destination)
}

/// The ports of a TCP or UDP packet; `None`: the frame is something else.
pub fn ports(frame: &[u8]) -> Option<(u16, u16)> {
    match SlicedPacket::from_ethernet(frame).ok()?.transport? {
        TransportSlice::Tcp(tcp) => Some((tcp.source_port(), tcp.destination_port())),
        TransportSlice::Udp(udp) => Some((udp.source_port(), udp.destination_port())),
        _ => None,
    }
}

/// The addresses, ports and payload of a UDP datagram that came whole; `None`: the frame is something else.
pub fn udp(frame: &[u8]) -> Option<(IpAddr, IpAddr, u16, u16, Vec<u8>)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination): (IpAddr, IpAddr) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => return None,
    };
    let TransportSlice::Udp(udp) = packet.transport.as_ref()? else { return None };
    Some((source, destination, udp.source_port(), udp.destination_port(), udp.payload().to_vec()))
}

/// Who says that an address is taken (RFC 4861).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourAdvertisement {
    /// The address it is about.
    pub target: Ipv6Addr,
    /// Whom it is told.
    pub destination: Ipv6Addr,
    /// Whether it says to be an answer to the receiver.
    pub solicited: bool,
}

impl NeighbourAdvertisement {
    /// Reads a frame; `None`: it is something else.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(frame).ok()?;
        let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) = (&packet.net, &packet.transport)
        else {
            return None;
        };
        if icmp.type_u8() != 136 {
            return None;
        }
        let target: &[u8; 16] = icmp.payload().first_chunk()?;
        Some(Self {
            target: (*target).into(),
            destination: ip.header().destination_addr(),
            solicited: icmp.bytes5to8()[0] & 0x40 != 0,
        })
    }
}

/// Whether every checksum of a frame that etherparse knows is right. A fragment's transport checksum covers what is not
/// there, so it is left out.
pub fn verify_checksums(frame: &[u8]) -> Result<()> {
    let packet = SlicedPacket::from_ethernet(frame).context("frame")?;
    match &packet.net {
        Some(NetSlice::Ipv4(ip)) => verify_ipv4(ip, packet.transport.as_ref()),
        Some(NetSlice::Ipv6(ip)) => verify_ipv6(ip, packet.transport.as_ref()),
        _ => Ok(()),
    }
}

fn verify_ipv4(ip: &Ipv4Slice, transport: Option<&TransportSlice>) -> Result<()> {
    let header = ip.header().to_header();
    expect("IPv4 header", header.header_checksum, header.calc_header_checksum())?;
    match transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let wanted = tcp.calc_checksum_ipv4(header.source, header.destination)?;
            expect("TCP over IPv4", tcp.checksum(), wanted)
        }
        // Zero says that there is none.
        Some(TransportSlice::Udp(udp)) if udp.checksum() != 0 => {
            let wanted =
                udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, udp.payload())?;
            expect("UDP over IPv4", udp.checksum(), wanted)
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            let wanted = icmp.icmp_type().calc_checksum(icmp.payload());
            expect("ICMP", icmp.checksum(), wanted)
        }
        _ => Ok(()),
    }
}

fn verify_ipv6(ip: &Ipv6Slice, transport: Option<&TransportSlice>) -> Result<()> {
    let header = ip.header().to_header();
    match transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let wanted = tcp.calc_checksum_ipv6(header.source, header.destination)?;
            expect("TCP over IPv6", tcp.checksum(), wanted)
        }
        Some(TransportSlice::Udp(udp)) => {
            let wanted =
                udp.to_header().calc_checksum_ipv6_raw(header.source, header.destination, udp.payload())?;
            expect("UDP over IPv6", udp.checksum(), wanted)
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            ensure!(icmp.is_checksum_valid(header.source, header.destination), "ICMPv6: checksum is wrong");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn expect(what: &str, found: u16, wanted: u16) -> Result<()> {
    ensure!(found == wanted, "{what}: checksum {found:#06x}, not {wanted:#06x}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Ends, vxlan};

    fn ends(source: &str, destination: &str) -> Ends {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Ends { source_mac: [2; 6], destination_mac: [4; 6], source, destination }
    }

    #[test]
    fn a_wrong_bit_is_seen() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let ends = ends(source, destination);
            for frame in [ends.udp((1, 2), b"some payload").unwrap(), ends.tcp_syn((1, 2)).unwrap()] {
                verify_checksums(&frame).unwrap();
                let mut damaged = frame.clone();
                *damaged.last_mut().unwrap() ^= 1;
                assert!(verify_checksums(&damaged).is_err(), "{source}");
            }
        }
    }

    #[test]
    fn tunnels_are_looked_into() {
        let inner = ends("10.0.0.1", "10.0.0.2").udp((1, 2), b"x").unwrap();
        let outer = ends("172.30.0.1", "172.30.0.2").udp((40_000, VXLAN_PORT), &vxlan(7, &inner)).unwrap();
        let read = Tunnelled::read(&outer).unwrap().unwrap();
        assert_eq!((read.source_port, read.vni, read.flags), (40_000, 7, 0x0800_0000));
        let (source, _, _, port, payload) = udp(&read.inner).unwrap();
        assert_eq!((source.to_string(), port, payload), ("10.0.0.1".to_owned(), 2, b"x".to_vec()));
        assert!(Tunnelled::read(&inner).unwrap().is_none());
    }
}
