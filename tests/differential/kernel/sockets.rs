//! The sockets that packets go in and out by.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recvfrom, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use vrouter_tests::frame::{ETHERNET, Mac};

use super::links::Link;
use super::stage::Stage;

const BUFFER: usize = 16 << 20;
const LARGEST: usize = 2048;
/// How long something that must come may take.
const PATIENCE: TimeVal = TimeVal::new(20, 0);
/// How the kernel marks what a machine sent itself (`PACKET_OUTGOING`).
const OUTGOING: u8 = 4;

/// Packet sockets at the far ends, and raw sockets of a process on the node.
#[derive(Debug)]
pub struct Sockets {
    frames: OwnedFd,
    links: BTreeMap<Link, LinkAddr>,
    node: [OwnedFd; 2],
}

/// A packet that came out of the node.
#[derive(Debug)]
pub struct Arrival {
    /// By this link.
    pub link: Link,
    /// To this MAC address.
    pub to: Mac,
    /// The IP packet, or whatever it is.
    pub packet: Vec<u8>,
}

impl Sockets {
    /// Opens them all.
    pub fn open(stage: &Stage) -> Result<Self> {
        let (frames, links) = stage.at_far_end(|| {
            let frames = open(AddressFamily::Packet, SockProtocol::EthAll)?;
            setsockopt(&frames, sockopt::RcvBufForce, &BUFFER)?;
            setsockopt(&frames, sockopt::ReceiveTimeout, &PATIENCE)?;
            Ok((frames, far_links()?))
        })?;
        // Who writes the IP header itself speaks this protocol.
        let raw = |family| open(family, SockProtocol::Raw);
        let node = [raw(AddressFamily::Inet)?, raw(AddressFamily::Inet6)?];
        Ok(Self { frames, links, node })
    }

    /// Lets an IP packet come in at the node by a link.
    pub fn send_frame(&self, link: Link, packet: &[u8]) -> Result<()> {
        let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        let frame = [&link.near_mac(), &link.far_mac(), &ethertype[..], packet].concat();
        let to = self.links.get(&link).context("no such link")?;
        sendto(self.frames.as_raw_fd(), &frame, to, MsgFlags::empty()).context("a frame")?;
        Ok(())
    }

    /// Sends an IP packet as a process on the node does.
    pub fn send_from_node(&self, to: IpAddr, packet: &[u8]) -> Result<()> {
        let socket = &self.node[usize::from(to.is_ipv6())];
        let to = SockaddrStorage::from(SocketAddr::new(to, 0));
        match sendto(socket.as_raw_fd(), packet, &to, MsgFlags::empty()) {
            // What the filter does not let out is no failure of the test's.
            Ok(_) | Err(Errno::EPERM) => Ok(()),
            Err(error) => Err(error).context("a packet of the node"),
        }
    }

    /// The next packet that comes out.
    pub fn receive(&self) -> Result<Arrival> {
        let mut buffer = [0; LARGEST];
        loop {
            let (length, from) = match recvfrom::<LinkAddr>(self.frames.as_raw_fd(), &mut buffer) {
                Ok(received) => received,
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(from) = from.filter(|from| from.pkttype() != OUTGOING) else { continue };
            let mut links = self.links.iter();
            let Some((&link, _)) = links.find(|(_, address)| address.ifindex() == from.ifindex()) else {
                bail!("a frame from no link, {}", from.ifindex());
            };
            let Some((header, packet)) = buffer[..length].split_at_checked(ETHERNET) else { continue };
            let to: Mac = *header.first_chunk().expect("an Ethernet header begins with it");
            return Ok(Arrival { link, to, packet: packet.to_vec() });
        }
    }
}

fn open(family: AddressFamily, protocol: SockProtocol) -> Result<OwnedFd> {
    socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).context("a raw socket")
}

fn far_links() -> Result<BTreeMap<Link, LinkAddr>> {
    let mut found = BTreeMap::new();
    for entry in getifaddrs()? {
        let address = entry.address.and_then(|address| address.as_link_addr().copied());
        let link = Link::all().find(|link| link.name() == entry.interface_name);
        found.extend(link.zip(address));
    }
    Ok(found)
}
