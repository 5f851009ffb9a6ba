//! Fragments in an order that no sender's kernel would choose.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, UdpHeader};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use vrouter_tests::report::Datagrams;

use crate::source;

const PATIENCE: Duration = Duration::from_secs(2);
const IDENTIFICATION: u16 = 0x5ca1;
/// A multiple of eight that any link bears.
const PIECE: usize = 1200;

/// What to send, and how.
#[derive(Debug, Args)]
pub struct Options {
    target: SocketAddr,
    /// Bytes of the datagram.
    #[arg(long, default_value_t = 4000)]
    size: usize,
    #[arg(long, value_enum)]
    order: Order,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// As they are numbered.
    Forward,
    /// The last one first.
    Backward,
    /// The first one in between.
    Inward,
}

/// Sends one datagram and waits for it to come back.
pub fn run(options: &Options) -> Result<Datagrams> {
    let socket = UdpSocket::bind(source(options.target, 0))?;
    socket.connect(options.target).context("connect")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let payload: Vec<u8> = (0..options.size).map(|at| (at * 7) as u8).collect();
    let mut packets = packets(socket.local_addr()?, options.target, &payload)?;
    match options.order {
        Order::Forward => {}
        Order::Backward => packets.reverse(),
        Order::Inward => packets.rotate_left(1),
    }
    send(options.target.ip(), &packets)?;
    let mut answer = vec![0; 1 << 16];
    let mut report = Datagrams { sent: 1, ..Datagrams::default() };
    match socket.recv(&mut answer) {
        Ok(length) if answer[..length] == payload => report.answered = 1,
        Ok(_) => report.damaged = 1,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        Err(_) => report.refused = 1,
    }
    Ok(report)
}

/// The datagram as whole packets, each with one fragment.
fn packets(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<Vec<Vec<u8>>> {
    let udp = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => UdpHeader::with_ipv4_checksum(
            from.port(),
            to.port(),
            &Ipv4Header::new(0, 64, IpNumber::UDP, source.octets(), destination.octets())?,
            payload,
        )?,
        (IpAddr::V6(source), IpAddr::V6(destination)) => UdpHeader::with_ipv6_checksum(
            from.port(),
            to.port(),
            &Ipv6Header {
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            },
            payload,
        )?,
        (from, to) => bail!("{from} and {to} are of two families"),
    };
    let datagram = [udp.to_bytes().as_slice(), payload].concat();
    let pieces: Vec<_> = datagram.chunks(PIECE).collect();
    ensure!(pieces.len() > 2, "--size {}: too small for an order", payload.len());
    let fragment = |(number, piece): (usize, &&[u8])| {
        let offset = IpFragOffset::try_new((number * PIECE / 8).try_into()?)?;
        packet(from.ip(), to.ip(), offset, number + 1 < pieces.len(), piece)
    };
    pieces.iter().enumerate().map(fragment).collect()
}

fn packet(from: IpAddr, to: IpAddr, offset: IpFragOffset, more: bool, piece: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = piece.len().try_into()?;
            let mut header = Ipv4Header::new(length, 64, IpNumber::UDP, from.octets(), to.octets())?;
            header.identification = IDENTIFICATION;
            header.dont_fragment = false;
            header.more_fragments = more;
            header.fragment_offset = offset;
            header.header_checksum = header.calc_header_checksum();
            header.write(&mut bytes)?;
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, IDENTIFICATION.into());
            let header = Ipv6Header {
                payload_length: (Ipv6FragmentHeader::LEN + piece.len()).try_into()?,
                next_header: IpNumber::IPV6_FRAGMENTATION_HEADER,
                hop_limit: 64,
                source: from.octets(),
                destination: to.octets(),
                ..Ipv6Header::default()
            };
            header.write(&mut bytes)?;
            fragment.write(&mut bytes)?;
        }
        (from, to) => bail!("{from} and {to} are of two families"),
    }
    bytes.extend(piece);
    Ok(bytes)
}

/// Sends packets as they are; the kernel only finds the way.
fn send(target: IpAddr, packets: &[Vec<u8>]) -> Result<()> {
    // Of a raw socket's address, the port means nothing.
    let to = SockAddr::from(SocketAddr::new(target, 0));
    let raw = Protocol::from(nix::libc::IPPROTO_RAW);
    let socket = Socket::new(Domain::for_address(SocketAddr::new(target, 0)), Type::RAW, Some(raw))?;
    for packet in packets {
        socket.send_to(packet, &to).context("raw socket")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_make_up_the_datagram() {
        for (from, to) in [("10.0.0.1:1", "10.0.0.2:2"), ("[fd00::1]:1", "[fd00::2]:2")] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let packets = packets(from, to, &[7; 4000]).unwrap();
            let header = if from.is_ipv4() { 20 } else { 48 };
            assert_eq!(packets.len(), 4);
            assert_eq!(packets.iter().map(|packet| packet.len() - header).sum::<usize>(), 4008);
        }
    }
}
