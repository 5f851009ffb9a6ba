//! SCTP's first two packets (RFC 9260), on raw sockets: not every kernel has SCTP sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, recvfrom};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use vrouter_tests::crc32c::crc32c;
use vrouter_tests::report::Associations;

use crate::until_told::UntilTold;

const SCTP: i32 = 132;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const FIRST_PORT: u16 = 41_000;
const PATIENCE: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(20);

/// A packet with one chunk that begins an association.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    source: u16,
    destination: u16,
    verification_tag: u32,
    chunk: u8,
    initiate_tag: u32,
}

impl Packet {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.verification_tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend([self.chunk, 0, 0, 20]);
        bytes.extend(self.initiate_tag.to_be_bytes());
        bytes.extend(0x0001_0000_u32.to_be_bytes());
        // One stream each way, and the first sequence number.
        bytes.extend([0, 1, 0, 1, 0, 0, 0, 1]);
        let checksum = crc32c(&bytes);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None`: too short, or the checksum is wrong.
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 20 {
            return None;
        }
        let mut without = bytes.to_vec();
        without[8..12].fill(0);
        if crc32c(&without).to_le_bytes() != bytes[8..12] {
            return None;
        }
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Self {
            source: short(0),
            destination: short(2),
            verification_tag: long(4),
            chunk: bytes[12],
            initiate_tag: long(16),
        })
    }
}

struct Raw {
    socket: Socket,
    domain: Domain,
}

impl Raw {
    fn open(domain: Domain) -> Result<Self> {
        let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(SCTP))).context("raw SCTP socket")?;
        Ok(Self { socket, domain })
    }

    fn send(&self, packet: &Packet, to: IpAddr) -> Result<()> {
        // Of a raw socket's address, the port means nothing.
        let to = SockAddr::from(SocketAddr::new(to, 0));
        self.socket.send_to(&packet.to_bytes(), &to).context("raw SCTP socket")?;
        Ok(())
    }

    /// The next valid packet; `None`: something else, or nothing in time.
    fn receive(&self) -> Result<Option<(Packet, IpAddr)>> {
        let mut bytes = [0; 1 << 11];
        let (length, peer) = match recvfrom::<SockaddrStorage>(self.socket.as_raw_fd(), &mut bytes) {
            Ok((length, peer)) => (length, peer.as_ref().and_then(ip)),
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error).context("raw SCTP socket"),
        };
        // The kernel passes the IP header along for IPv4 only.
        let header = if self.domain == Domain::IPV4 { usize::from(bytes[0] & 0x0f) * 4 } else { 0 };
        let packet = bytes[..length].get(header..).and_then(Packet::read);
        Ok(packet.zip(peer))
    }
}

fn ip(peer: &SockaddrStorage) -> Option<IpAddr> {
    let ipv4 = peer.as_sockaddr_in().map(|peer| peer.ip().into());
    ipv4.or_else(|| peer.as_sockaddr_in6().map(|peer| peer.ip().into()))
}

/// Answers INITs to this port, for both families, for as long as the process lives.
pub fn serve(port: u16) -> Result<()> {
    for domain in [Domain::IPV4, Domain::IPV6] {
        let raw = Raw::open(domain)?;
        let any = match domain {
            Domain::IPV4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            _ => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        raw.socket.bind(&any.into())?;
        thread::spawn(move || {
            loop {
                let Ok(Some((packet, client))) = raw.receive() else { continue };
                if packet.chunk == INIT && packet.destination == port {
                    // A client that is gone needs no answer.
                    let _ = raw.send(&answer(&packet), client);
                }
            }
        });
    }
    Ok(())
}

/// Answers INITs to this port until told to stop; returns the port.
pub fn answer_until_told(port: u16) -> Result<u16> {
    serve(port)?;
    let told = UntilTold::begin()?;
    while !told.is_over() {
        thread::sleep(GLANCE);
    }
    Ok(port)
}

fn answer(init: &Packet) -> Packet {
    Packet {
        source: init.destination,
        destination: init.source,
        verification_tag: init.initiate_tag,
        chunk: INIT_ACK,
        initiate_tag: !init.initiate_tag,
    }
}

/// Begins so many associations, each from a port of its own, and awaits the answers.
pub fn ask(target: SocketAddr, count: u16) -> Result<Associations> {
    let raw = Raw::open(Domain::for_address(target))?;
    raw.socket.set_read_timeout(Some(PATIENCE))?;
    let mut report = Associations::default();
    for number in 0..count {
        let init = Packet {
            source: FIRST_PORT + number,
            destination: target.port(),
            verification_tag: 0,
            chunk: INIT,
            initiate_tag: 0x1000 + u32::from(number),
        };
        raw.send(&init, target.ip())?;
        report.sent += 1;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let Some((packet, peer)) = raw.receive()? else { continue };
            if packet == answer(&init) && peer == target.ip() {
                report.answered += 1;
                break;
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_read_back() {
        let init = Packet { source: 1, destination: 2, verification_tag: 0, chunk: INIT, initiate_tag: 7 };
        let mut bytes = init.to_bytes();
        assert_eq!(Packet::read(&bytes), Some(init));
        bytes[3] ^= 1;
        assert_eq!(Packet::read(&bytes), None);
    }
}
