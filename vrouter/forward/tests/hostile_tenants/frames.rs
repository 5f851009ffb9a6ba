//! Frames as no honest host makes them, byte by byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::MacAddress;

/// An ARP packet in its frame.
#[derive(Debug, Clone, Copy)]
pub struct Arp {
    pub from: MacAddress,
    pub to: MacAddress,
    pub operation: u16,
    pub sender: (MacAddress, Ipv4Addr),
    pub target: (MacAddress, Ipv4Addr),
}

impl Arp {
    pub fn build(&self) -> Vec<u8> {
        let mut frame = [self.to.0, self.from.0].concat();
        frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4]);
        frame.extend_from_slice(&self.operation.to_be_bytes());
        for (mac, address) in [self.sender, self.target] {
            frame.extend_from_slice(&mac.0);
            frame.extend_from_slice(&address.octets());
        }
        frame
    }
}

/// A neighbour discovery message of this type with this target and an option with a link-layer address.
#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    pub kind: u8,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub target: IpAddr,
    /// The option's type and address.
    pub option: Option<(u8, MacAddress)>,
}

pub const SOLICITATION: u8 = 135;
pub const ADVERTISEMENT: u8 = 136;

impl Neighbour {
    pub fn builder(&self) -> PacketBuilder {
        let rest = if self.kind == ADVERTISEMENT { [0x60, 0, 0, 0] } else { [0; 4] };
        let mut body = octets(self.target).to_vec();
        if let Some((kind, mac)) = self.option {
            body.extend_from_slice(&[kind, 1]);
            body.extend_from_slice(&mac.0);
        }
        PacketBuilder::new(self.source, self.destination).hops(255).icmp(self.kind, 0, rest).payload(&body)
    }

    pub fn build(&self, from: MacAddress) -> Vec<u8> {
        self.builder().macs(from, group_or_gateway(self.destination)).build()
    }
}

/// Where a frame for this address goes on an Ethernet.
pub fn group_or_gateway(destination: IpAddr) -> MacAddress {
    match destination {
        IpAddr::V6(address) if address.is_multicast() => {
            let [.., a, b, c, d] = address.octets();
            MacAddress([0x33, 0x33, a, b, c, d])
        }
        IpAddr::V4(address) if address.is_multicast() => {
            let [_, b, c, d] = address.octets();
            MacAddress([1, 0, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V4(Ipv4Addr::BROADCAST) => MacAddress::BROADCAST,
        _ => MacAddress::GATEWAY,
    }
}

pub fn v4(address: IpAddr) -> Ipv4Addr {
    let IpAddr::V4(address) = address else { panic!("{address} is not IPv4's") };
    address
}

fn octets(address: IpAddr) -> [u8; 16] {
    let IpAddr::V6(address) = address else { panic!("{address} is not IPv6's") };
    Ipv6Addr::octets(&address)
}

/// Puts an 802.1Q tag (or one of another type) into a frame.
pub fn tagged(frame: &[u8], tag_type: u16, tag: u16) -> Vec<u8> {
    let tag = [tag_type.to_be_bytes(), tag.to_be_bytes()].concat();
    [&frame[..12], &tag, &frame[12..]].concat()
}

/// A VXLAN header with this VNI, and behind it a frame.
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0][..], &(vni << 8).to_be_bytes(), frame].concat()
}

/// Sets the source address of an IP packet's frame and mends its checksum, as a sender of raw packets does.
pub fn with_macs(frame: &[u8], from: MacAddress, to: MacAddress) -> Vec<u8> {
    [&to.0[..], &from.0, &frame[12..]].concat()
}
