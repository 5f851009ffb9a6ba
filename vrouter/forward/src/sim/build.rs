//! Building packets: the one way in which tests and benches make them.

use std::net::IpAddr;

use vrouter_objects::{IpProtocol, MacAddress};

use crate::address::{Address, Family};
use crate::checksum::{header_checksum, sctp_crc, transport_checksum, udp_checksum};
use crate::parse::{write_u16, write_u32};

/// A packet to be. Everything has a sensible default; checksums and lengths are right unless asked otherwise.
#[derive(Debug, Clone)]
pub struct PacketBuilder {
    source_mac: MacAddress,
    destination_mac: MacAddress,
    source: Address,
    destination: Address,
    hops: u8,
    traffic_class: u8,
    identification: u16,
    dont_fragment: bool,
    ip_options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    protocol: IpProtocol,
    transport: Vec<u8>,
    checksum_at: Option<usize>,
    payload: Vec<u8>,
}

impl PacketBuilder {
    /// An IP packet between two addresses of one family, so far without contents.
    ///
    /// # Panics
    /// If the families differ.
    pub fn new(source: impl Into<IpAddr>, destination: impl Into<IpAddr>) -> Self {
        let (source, destination) = (source.into(), destination.into());
        assert_eq!(source.is_ipv4(), destination.is_ipv4(), "{source} and {destination}");
        Self {
            source_mac: MacAddress::local(0x50, 1),
            destination_mac: MacAddress::GATEWAY,
            source: source.into(),
            destination: destination.into(),
            hops: 64,
            traffic_class: 0,
            identification: 1,
            dont_fragment: false,
            ip_options: Vec::new(),
            extensions: Vec::new(),
            protocol: IpProtocol(59),
            transport: Vec::new(),
            checksum_at: None,
            payload: Vec::new(),
        }
    }

    /// With these Ethernet addresses.
    #[must_use]
    pub fn macs(mut self, source: MacAddress, destination: MacAddress) -> Self {
        (self.source_mac, self.destination_mac) = (source, destination);
        self
    }

    /// With this TTL or hop limit.
    #[must_use]
    pub fn hops(mut self, hops: u8) -> Self {
        self.hops = hops;
        self
    }

    /// With this type of service or traffic class.
    #[must_use]
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.traffic_class = class;
        self
    }

    /// With this IPv4 identification.
    #[must_use]
    pub fn identification(mut self, id: u16) -> Self {
        self.identification = id;
        self
    }

    /// Not to be fragmented.
    #[must_use]
    pub fn dont_fragment(mut self) -> Self {
        self.dont_fragment = true;
        self
    }

    /// With IPv4 options, a multiple of four bytes.
    #[must_use]
    pub fn ip_options(mut self, options: &[u8]) -> Self {
        self.ip_options = options.to_vec();
        self
    }

    /// With one more IPv6 extension header of this type. Its first byte is set to what follows it.
    #[must_use]
    pub fn extension(mut self, kind: u8, contents: &[u8]) -> Self {
        self.extensions.push((kind, contents.to_vec()));
        self
    }

    /// TCP with these control bits.
    #[must_use]
    pub fn tcp(self, source: u16, destination: u16, flags: u8) -> Self {
        self.tcp_segment(source, destination, flags, 1000, 2000, &[])
    }

    /// TCP with everything that matters. `options` is a multiple of four bytes.
    #[must_use]
    pub fn tcp_segment(
        mut self,
        source: u16,
        destination: u16,
        flags: u8,
        sequence: u32,
        acknowledgement: u32,
        options: &[u8],
    ) -> Self {
        let mut header = vec![0; 20];
        write_u16(&mut header, 0, source);
        write_u16(&mut header, 2, destination);
        write_u32(&mut header, 4, sequence);
        write_u32(&mut header, 8, acknowledgement);
        header[12] = (5 + options.len() as u8 / 4) << 4;
        header[13] = flags;
        write_u16(&mut header, 14, 64_000);
        header.extend_from_slice(options);
        (self.protocol, self.transport, self.checksum_at) = (IpProtocol::TCP, header, Some(16));
        self
    }

    /// UDP.
    #[must_use]
    pub fn udp(mut self, source: u16, destination: u16) -> Self {
        let mut header = vec![0; 8];
        write_u16(&mut header, 0, source);
        write_u16(&mut header, 2, destination);
        (self.protocol, self.transport, self.checksum_at) = (IpProtocol::UDP, header, Some(6));
        self
    }

    /// SCTP, an INIT chunk's worth of header.
    #[must_use]
    pub fn sctp(mut self, source: u16, destination: u16) -> Self {
        let mut header = vec![0; 12];
        write_u16(&mut header, 0, source);
        write_u16(&mut header, 2, destination);
        (self.protocol, self.transport, self.checksum_at) = (IpProtocol::SCTP, header, None);
        self
    }

    /// ICMP or ICMPv6, as the family says, with the four bytes behind its checksum.
    #[must_use]
    pub fn icmp(mut self, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        let protocol = match self.source.family() {
            Family::V4 => IpProtocol::ICMP,
            Family::V6 => IpProtocol::ICMPV6,
        };
        let header = vec![kind, code, 0, 0, rest[0], rest[1], rest[2], rest[3]];
        (self.protocol, self.transport, self.checksum_at) = (protocol, header, Some(2));
        self
    }

    /// An echo request.
    #[must_use]
    pub fn echo_request(self, id: u16, sequence: u16) -> Self {
        let kind = if self.source.family() == Family::V4 { 8 } else { 128 };
        let ([a, b], [c, d]) = (id.to_be_bytes(), sequence.to_be_bytes());
        self.icmp(kind, 0, [a, b, c, d])
    }

    /// Any other protocol, contents and all.
    #[must_use]
    pub fn protocol(mut self, protocol: u8, contents: &[u8]) -> Self {
        (self.protocol, self.transport, self.checksum_at) = (IpProtocol(protocol), contents.to_vec(), None);
        self
    }

    /// With this payload behind the transport header.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The IP packet.
    pub fn build_ip(&self) -> Vec<u8> {
        let contents = self.build_transport();
        let mut packet = match self.source.family() {
            Family::V4 => self.ipv4_header(contents.len(), 0),
            Family::V6 => self.ipv6_headers(contents.len()),
        };
        packet.extend_from_slice(&contents);
        packet
    }

    /// The whole Ethernet frame.
    pub fn build(&self) -> Vec<u8> {
        self.framed(&self.build_ip())
    }

    /// The packet in IPv4 or IPv6 fragments of at most `size` bytes of transport contents each, a multiple of
    /// eight.
    pub fn build_fragments(&self, size: usize) -> Vec<Vec<u8>> {
        let contents = self.build_transport();
        let pieces = contents.chunks(size).count();
        let fragment = |(number, piece): (usize, &[u8])| {
            let more = u16::from(number + 1 < pieces);
            let units = (number * size / 8) as u16;
            let mut packet = match self.source.family() {
                Family::V4 => self.ipv4_header(piece.len(), more << 13 | units),
                Family::V6 => {
                    let id = u32::from(self.identification).to_be_bytes();
                    let [high, low] = (units << 3 | more).to_be_bytes();
                    let header = [0, 0, high, low, id[0], id[1], id[2], id[3]];
                    self.clone().extension(44, &header).ipv6_headers(piece.len())
                }
            };
            packet.extend_from_slice(piece);
            self.framed(&packet)
        };
        contents.chunks(size).enumerate().map(fragment).collect()
    }

    fn framed(&self, packet: &[u8]) -> Vec<u8> {
        let ethertype: u16 = if self.source.family() == Family::V4 { 0x0800 } else { 0x86dd };
        let mut frame = [self.destination_mac.0, self.source_mac.0].concat();
        frame.extend_from_slice(&ethertype.to_be_bytes());
        frame.extend_from_slice(packet);
        frame
    }

    fn build_transport(&self) -> Vec<u8> {
        let mut contents = [&self.transport[..], &self.payload].concat();
        if self.protocol == IpProtocol::UDP && self.checksum_at.is_some() {
            let len = contents.len() as u16;
            write_u16(&mut contents, 4, len);
        }
        if self.protocol == IpProtocol::SCTP && contents.len() >= 12 {
            let crc = sctp_crc(&contents);
            contents[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        if let Some(at) = self.checksum_at {
            let checksum = match (self.protocol, self.source.family()) {
                (IpProtocol::ICMP, _) => header_checksum(&contents),
                (protocol, Family::V4) => {
                    let (source, destination) = (self.source.v4_octets(), self.destination.v4_octets());
                    transport_checksum(&source, &destination, protocol.0, &contents)
                }
                (protocol, Family::V6) => {
                    let (source, destination) = (self.source.v6_octets(), self.destination.v6_octets());
                    transport_checksum(&source, &destination, protocol.0, &contents)
                }
            };
            let is_udp = self.protocol == IpProtocol::UDP;
            write_u16(&mut contents, at, if is_udp { udp_checksum(checksum) } else { checksum });
        }
        contents
    }

    fn ipv4_header(&self, contents: usize, fragment: u16) -> Vec<u8> {
        let len = 20 + self.ip_options.len();
        let mut header = vec![0; 20];
        header.extend_from_slice(&self.ip_options);
        header[0] = 0x40 | (len / 4) as u8;
        header[1] = self.traffic_class;
        write_u16(&mut header, 2, (len + contents) as u16);
        write_u16(&mut header, 4, self.identification);
        write_u16(&mut header, 6, u16::from(self.dont_fragment) << 14 | fragment);
        header[8] = self.hops;
        header[9] = self.protocol.0;
        header[12..16].copy_from_slice(&self.source.v4_octets());
        header[16..20].copy_from_slice(&self.destination.v4_octets());
        let checksum = header_checksum(&header);
        write_u16(&mut header, 10, checksum);
        header
    }

    fn ipv6_headers(&self, contents: usize) -> Vec<u8> {
        let extensions: usize = self.extensions.iter().map(|(_, contents)| contents.len()).sum();
        let mut header = vec![0; 40];
        header[0] = 0x60 | self.traffic_class >> 4;
        header[1] = self.traffic_class << 4;
        write_u16(&mut header, 4, (extensions + contents) as u16);
        header[6] = self.extensions.first().map_or(self.protocol.0, |(kind, _)| *kind);
        header[7] = self.hops;
        header[8..24].copy_from_slice(&self.source.v6_octets());
        header[24..40].copy_from_slice(&self.destination.v6_octets());
        for (number, (_, contents)) in self.extensions.iter().enumerate() {
            let next = self.extensions.get(number + 1).map_or(self.protocol.0, |(kind, _)| *kind);
            header.push(next);
            header.extend_from_slice(&contents[1..]);
        }
        header
    }
}
