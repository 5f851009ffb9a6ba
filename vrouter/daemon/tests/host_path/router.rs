//! The other end of `vhost0`.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use tun_tap::{Iface, Mode};
use vrouter_objects::MacAddress;

/// What `vhost0` has.
pub const MAC: MacAddress = MacAddress::local(0x48, 1);
/// What tells that everything sent before it has come. Its port is one of source translation.
pub const LAST: &[u8] = b"the last";
/// Nothing here takes long; what takes longer than these seconds will never come.
const PATIENCE: i64 = 10;

/// Whoever has `vhost0` open is the router. What it gets is seen by a socket that hears all links.
pub struct Router {
    tap: Iface,
    ears: OwnedFd,
}

/// A packet that the router got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub from: IpAddr,
    pub to: IpAddr,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Tcp(u16),
    Udp(u16),
    Icmp(u8),
    Fragment,
    Other,
}

impl Router {
    pub fn open() -> Self {
        let tap = Iface::without_packet_info("vhost0", Mode::Tap).unwrap();
        let everything = SockProtocol::EthAll;
        let ears = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, everything).unwrap();
        setsockopt(&ears, sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE, 0)).unwrap();
        Self { tap, ears }
    }

    /// What came before the last packet.
    pub fn seen(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        loop {
            let packet = self.next();
            if packet.ends_with(LAST) {
                return seen;
            }
            seen.push(read(&packet));
        }
    }

    /// Gives an IP packet to the node.
    pub fn send(&self, packet: &[u8]) {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [0x08, 0] } else { [0x86, 0xdd] };
        let frame = [&MAC.0[..], &MacAddress::GATEWAY.0, &kind, packet].concat();
        self.tap.send(&frame).unwrap();
    }

    /// The next IP packet.
    fn next(&self) -> Vec<u8> {
        loop {
            let mut frame = vec![0; 4096];
            let length = recv(self.ears.as_raw_fd(), &mut frame, MsgFlags::empty()).expect("nothing comes");
            frame.truncate(length);
            if frame.starts_with(&MacAddress::GATEWAY.0) {
                assert_eq!(frame[6..12], MAC.0, "it comes from vhost0");
                return frame.split_off(14);
            }
        }
    }
}

fn read(packet: &[u8]) -> Seen {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let net = sliced.net.as_ref().unwrap();
    let (from, to): (IpAddr, IpAddr) = match net {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => panic!("the router's address is known"),
    };
    let is_fragment = match net {
        NetSlice::Ipv4(ip) => ip.is_payload_fragmented(),
        NetSlice::Ipv6(ip) => ip.is_payload_fragmented(),
        NetSlice::Arp(_) => false,
    };
    let what = match &sliced.transport {
        _ if is_fragment => What::Fragment,
        Some(TransportSlice::Tcp(tcp)) => What::Tcp(tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => What::Udp(udp.destination_port()),
        Some(TransportSlice::Icmpv4(icmp)) => What::Icmp(icmp.type_u8()),
        Some(TransportSlice::Icmpv6(icmp)) => What::Icmp(icmp.type_u8()),
        _ => What::Other,
    };
    Seen { from, to, what }
}
