//! Making frames, and writing them down.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result, bail};
use etherparse::{PacketBuilder, PacketBuilderStep};

/// A MAC address.
pub type Mac = [u8; 6];

/// The MAC address that every pod sees its gateway at.
pub const GATEWAY_MAC: Mac = [0x00, 0x00, 0x5e, 0x00, 0x01, 0x00];

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// Who a frame is from, and whom it is for.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// The sender's MAC address.
    pub source_mac: Mac,
    /// The receiver's, on this link.
    pub destination_mac: Mac,
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's, of the same family.
    pub destination: IpAddr,
}

impl Ends {
    /// A UDP datagram.
    pub fn udp(&self, ports: (u16, u16), payload: &[u8]) -> Result<Vec<u8>> {
        let packet = self.ip()?.udp(ports.0, ports.1);
        let mut frame = Vec::new();
        packet.write(&mut frame, payload)?;
        Ok(frame)
    }

    /// A TCP segment that opens a connection.
    pub fn tcp_syn(&self, ports: (u16, u16)) -> Result<Vec<u8>> {
        let packet = self.ip()?.tcp(ports.0, ports.1, 1, 64_240).syn();
        let mut frame = Vec::new();
        packet.write(&mut frame, &[])?;
        Ok(frame)
    }

    fn ip(&self) -> Result<PacketBuilderStep<etherparse::IpHeaders>> {
        let ethernet = PacketBuilder::ethernet2(self.source_mac, self.destination_mac);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Ok(ethernet.ipv4(source.octets(), destination.octets(), 64))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Ok(ethernet.ipv6(source.octets(), destination.octets(), 64))
            }
            (source, destination) => bail!("{source} and {destination} are of two families"),
        }
    }
}

/// What a host asks that wants to know whether anybody has this address before it takes it itself (RFC 4862).
pub fn neighbour_solicitation(source_mac: Mac, target: Ipv6Addr) -> Result<Vec<u8>> {
    let [.., a, b, c] = target.octets();
    let destination = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let destination_mac = [0x33, 0x33, 0xff, a, b, c];
    let packet = PacketBuilder::ethernet2(source_mac, destination_mac)
        .ipv6([0; 16], destination, 255)
        .icmpv6_raw(135, 0, [0; 4]);
    let mut frame = Vec::new();
    packet.write(&mut frame, &target.octets())?;
    Ok(frame)
}

/// A VXLAN packet's UDP payload.
pub fn vxlan(vni: u32, inner: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x08, 0, 0, 0];
    packet.extend((vni << 8).to_be_bytes());
    packet.extend(inner);
    packet
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for.
pub fn from_hex(digits: &str) -> Result<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        bail!("an odd number of digits");
    }
    let byte = |pair: &[u8]| -> Result<u8> { Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?) };
    digits.chunks(2).map(byte).collect()
}

/// A MAC address as people write it.
pub fn mac(text: &str) -> Result<Mac> {
    let octets: Vec<_> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16))
        .collect::<Result<_, _>>()
        .context("MAC address")?;
    Mac::try_from(octets).ok().with_context(|| format!("{text:?} is no MAC address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes() {
        assert_eq!(from_hex(&to_hex(&[0, 0x5e, 0xff])).unwrap(), [0, 0x5e, 0xff]);
        assert!(from_hex("123").is_err() && from_hex("zz").is_err());
        assert_eq!(mac("00:00:5e:00:01:00").unwrap(), GATEWAY_MAC);
        assert!(mac("02:00").is_err() && mac("x").is_err());
    }

    #[test]
    fn families_do_not_mix() {
        let (source, destination) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        let ends = Ends { source_mac: [2; 6], destination_mac: [4; 6], source, destination };
        assert!(ends.udp((1, 2), b"").is_err());
    }
}
