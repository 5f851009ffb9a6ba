//! Packets that are alike but for who sends them to whom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use vrouter_arch::checksum::{add, sum};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::PacketBuilder;
use vrouter_objects::MacAddress;

/// How the packets of one host come in.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Where.
    pub ingress: Ingress,
    /// The destination and source of their Ethernet headers.
    pub macs: (MacAddress, MacAddress),
    /// Its address.
    pub address: IpAddr,
}

/// A TCP segment to be sent by anybody to anybody. Sending it again takes few instructions: its headers are copied
/// into a buffer that still has the rest of it, and addresses, ports and checksums are filled in.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    family: Family,
    addresses: Range<usize>,
}

const ETHERNET_LEN: usize = 14;
const TCP_LEN: usize = 20;
const IPV4_CHECKSUM: usize = ETHERNET_LEN + 10;
const TCP_CHECKSUM: usize = 16;

impl Template {
    /// With these control bits and so many bytes of payload.
    pub fn new(family: Family, flags: u8, payload: usize) -> Self {
        let (nobody, addresses) = match family {
            Family::V4 => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), ETHERNET_LEN + 12..ETHERNET_LEN + 20),
            Family::V6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), ETHERNET_LEN + 8..ETHERNET_LEN + 40),
        };
        let packet = PacketBuilder::new(nobody, nobody).tcp(0, 0, flags).payload(&vec![0; payload]);
        Self { bytes: packet.build(), family, addresses }
    }

    /// A buffer for this template.
    pub fn frame(&self, host: &Host) -> Frame {
        Frame::from_bytes(&self.bytes, host.ingress)
    }

    /// Makes this frame, one of [`Template::frame`], the packet from `host` between these ends.
    pub fn write(&self, frame: &mut Frame, host: &Host, source: SocketAddr, destination: SocketAddr) {
        frame.reset();
        frame.set_len(self.bytes.len());
        frame.ingress = host.ingress;
        let transport = self.addresses.end;
        let bytes = &mut frame.bytes_mut()[..transport + TCP_LEN];
        bytes.copy_from_slice(&self.bytes[..transport + TCP_LEN]);
        bytes[..6].copy_from_slice(&host.macs.0.0);
        bytes[6..12].copy_from_slice(&host.macs.1.0);
        write_addresses(&mut bytes[self.addresses.clone()], source.ip(), destination.ip());
        bytes[transport..transport + 2].copy_from_slice(&source.port().to_be_bytes());
        bytes[transport + 2..transport + 4].copy_from_slice(&destination.port().to_be_bytes());
        let addresses = sum(&bytes[self.addresses.clone()]);
        if self.family == Family::V4 {
            take_into_checksum(bytes, IPV4_CHECKSUM, addresses);
        }
        let ports = sum(&bytes[transport..transport + 4]);
        take_into_checksum(bytes, transport + TCP_CHECKSUM, add(addresses, ports));
    }
}

fn write_addresses(field: &mut [u8], source: IpAddr, destination: IpAddr) {
    let (first, second) = field.split_at_mut(field.len() / 2);
    for (half, address) in [(first, source), (second, destination)] {
        match address {
            IpAddr::V4(address) => half.copy_from_slice(&address.octets()),
            IpAddr::V6(address) => half.copy_from_slice(&address.octets()),
        }
    }
}

/// Adds to a checksum what was zero when it was computed.
fn take_into_checksum(bytes: &mut [u8], at: usize, added: u16) {
    let field = &mut bytes[at..at + 2];
    let old = u16::from_be_bytes([field[0], field[1]]);
    field.copy_from_slice(&(!add(!old, added)).to_be_bytes());
}
