//! The UDP sockets of a tunnel end.
//!
//! Each worker receives on a socket of its own, all of them bound to the VXLAN port, and the kernel spreads the outer
//! flows over them. A socket bound to that port would also send from it, and then every packet between two nodes would
//! have one outer 5-tuple; so packets are sent from a pool of sockets on ephemeral ports, chosen by the inner flow
//! (RFC 7348 section 5).

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
};

use super::super::syscall;
use super::transmit::{DatagramSink, Datagrams, Tunnel};
use crate::IoError;

/// Outer source ports. A hundred flows take some eighty different ones of them.
const SENDERS: usize = 256;

/// Room for what arrives while a worker is busy or has lost its core; and for super-frames on their way out.
const BUFFER_BYTES: usize = 8 << 20;

/// A tunnel end: where packets are received, by worker, and sent from.
#[derive(Debug)]
pub(super) struct TunnelSockets {
    pub(super) receivers: Vec<OwnedFd>,
    pub(super) senders: Arc<Senders>,
}

impl TunnelSockets {
    /// Opens the sockets of this address for so many workers.
    pub(super) fn open(address: SocketAddr, workers: usize) -> Result<Self, IoError> {
        let receivers = (0..workers).map(|_| open_receiver(address)).collect::<Result<_, _>>()?;
        Ok(Self { receivers, senders: Arc::new(Senders::open(address)?) })
    }
}

fn open_receiver(address: SocketAddr) -> Result<OwnedFd, IoError> {
    let fail = |step| move |errno: nix::Error| IoError::Vxlan { address, step, source: errno.into() };
    let socket = open_udp(address).map_err(fail("opening"))?;
    setsockopt(&socket, sockopt::ReusePort, &true).map_err(fail("sharing the port among workers"))?;
    // Without it the kernel hands over one packet at a time, which works too.
    if let Err(errno) = setsockopt(&socket, sockopt::UdpGroSegment, &true) {
        tracing::warn!(%address, %errno, "the kernel does not gather received VXLAN packets");
    }
    // Beyond the system's limit where we may.
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES)
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES))
        .map_err(fail("setting the receive buffer"))?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).map_err(fail("binding"))?;
    Ok(socket)
}

fn open_udp(address: SocketAddr) -> nix::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

/// The sockets that packets are sent from. All workers share them, so that a flow has one outer source port whichever
/// worker sends it; sending takes no lock of ours.
#[derive(Debug)]
pub(super) struct Senders {
    sockets: Box<[OwnedFd]>,
    vxlan_port: u16,
}

impl Senders {
    fn open(address: SocketAddr) -> Result<Self, IoError> {
        let sockets = (0..SENDERS).map(|_| Self::open_one(address.ip())).collect::<Result<_, _>>()?;
        Ok(Self { sockets, vxlan_port: address.port() })
    }

    fn open_one(address: IpAddr) -> Result<OwnedFd, IoError> {
        let address = SocketAddr::new(address, 0);
        let fail = |step| move |source: io::Error| IoError::Vxlan { address, step, source };
        let socket = open_udp(address).map_err(|errno| fail("opening")(errno.into()))?;
        never_fragment(&socket, address).map_err(fail("forbidding fragments"))?;
        setsockopt(&socket, sockopt::SndBufForce, &BUFFER_BYTES)
            .or_else(|_| setsockopt(&socket, sockopt::SndBuf, &BUFFER_BYTES))
            .map_err(|errno| fail("setting the send buffer")(errno.into()))?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address))
            .map_err(|errno| fail("binding")(errno.into()))?;
        Ok(socket)
    }
}

impl DatagramSink for Arc<Senders> {
    fn send(&self, tunnel: &Tunnel, datagrams: Datagrams, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let socket = &self.sockets[tunnel.entropy as usize % self.sockets.len()];
        let segment = match datagrams {
            Datagrams::One => None,
            Datagrams::Of(size) => Some(size),
        };
        syscall::send(socket.as_fd(), SocketAddr::new(tunnel.destination, self.vxlan_port), segment, parts)
    }
}

/// Sets DF on all outer packets. The pods' MTU is made so that they fit the link; a path that takes less is a mistake
/// to be seen, and no forged ICMP message shall make it look like one: hence PROBE, not DO.
fn never_fragment(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let (level, option) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    };
    syscall::set_option(socket, level, option, &libc::IP_PMTUDISC_PROBE)
}
