use std::net::IpAddr;

use super::*;
use crate::sim::PacketBuilder;

fn builders() -> [PacketBuilder; 2] {
    let (v4, other4) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let v6 = |host| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host]);
    [PacketBuilder::new(v4, other4), PacketBuilder::new(v6(1), v6(2))]
}

fn parsed(frame: &[u8]) -> Packet {
    match parse(frame) {
        Ok(Parsed::Ip(packet)) => packet,
        other => panic!("{other:?} of {frame:02x?}"),
    }
}

#[test]
fn offsets_and_ports_of_every_transport() {
    for builder in builders() {
        let header = if builder.build_ip()[0] >> 4 == 4 { 20 } else { 40 };
        let table = [
            (builder.clone().tcp(1, 2, TcpFlags::SYN).build(), IpProtocol::TCP, (1, 2)),
            (builder.clone().udp(3, 4).build(), IpProtocol::UDP, (3, 4)),
            (builder.clone().sctp(5, 6).build(), IpProtocol::SCTP, (5, 6)),
            (builder.clone().echo_request(7, 8).build(), builder_icmp(header), (7, 7)),
            (builder.clone().protocol(47, &[0, 1, 0, 2, 0, 0, 0, 0]).build(), IpProtocol(47), (0, 0)),
        ];
        for (frame, protocol, ports) in table {
            let packet = parsed(&frame);
            assert_eq!((packet.protocol, packet.ports()), (protocol, ports));
            assert_eq!((packet.ip, packet.ip_header_len(), packet.end as usize), (14, header, frame.len()));
            assert_eq!(packet.ip_len(), frame.len() - 14);
            assert_eq!(packet.fragment, Fragment::Whole);
        }
    }
}

fn builder_icmp(header: usize) -> IpProtocol {
    if header == 20 { IpProtocol::ICMP } else { IpProtocol::ICMPV6 }
}

#[test]
fn a_packet_ends_where_its_header_says() {
    for builder in builders() {
        let frame = builder.udp(1, 2).payload(b"x").build();
        let padded = [&frame[..], &[0; 30]].concat();
        assert_eq!(parsed(&padded), parsed(&frame));
        let tagged = [&padded[..12], &[0x81, 0, 0, 0], &padded[12..]].concat();
        let packet = parsed(&tagged);
        assert_eq!((packet.ip, packet.end as usize), (18, frame.len() + 4));
    }
}

#[test]
fn options_and_extension_headers_are_passed_over() {
    let [v4, v6] = builders();
    let with_options = parsed(&v4.ip_options(&[1; 8]).udp(1, 2).build());
    assert_eq!((with_options.ip_header_len(), with_options.ports()), (28, (1, 2)));
    let options = [0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let authentication = [0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let chain = v6.extension(0, &options).extension(43, &[0; 8]).extension(51, &authentication).udp(1, 2);
    let with_chain = parsed(&chain.build());
    assert_eq!((with_chain.ip_header_len(), with_chain.ports()), (40 + 16 + 8 + 24, (1, 2)));
}

#[test]
fn only_the_first_fragment_has_ports() {
    for builder in builders() {
        let fragments = builder.identification(77).udp(1, 2).payload(&[0; 100]).build_fragments(64);
        let (first, later) = (parsed(&fragments[0]), parsed(&fragments[1]));
        assert_eq!((first.fragment, first.ports()), (Fragment::First { id: 77 }, (1, 2)));
        assert_eq!((later.fragment, later.ports()), (Fragment::Later { id: 77 }, (0, 0)));
        assert_eq!((later.header, later.protocol), (Transport::None, IpProtocol::UDP));
    }
}

#[test]
fn a_frame_cut_short_anywhere_is_refused() {
    let [v4, v6] = builders();
    let extended = v6.clone().extension(0, &[0; 8]).extension(60, &[0; 8]);
    for frame in [v4.tcp(1, 2, TcpFlags::ACK).build(), v6.udp(1, 2).build(), extended.sctp(1, 2).build()] {
        for len in 0..frame.len() {
            assert!(parse(&frame[..len]).is_err(), "{len} of {} bytes", frame.len());
        }
    }
}

#[test]
fn what_an_error_quotes_is_found_from_eight_bytes_of_transport_on() {
    for builder in builders() {
        let packet = builder.clone().tcp(1, 2, TcpFlags::ACK).build_ip();
        let family = if packet[0] >> 4 == 4 { Family::V4 } else { Family::V6 };
        let header = if family == Family::V4 { 20 } else { 40 };
        for len in 0..packet.len() {
            // As it stands in a frame, behind other things.
            let frame = [&[0xff; 42][..], &packet[..len]].concat();
            match parse_quoted(&frame, 42, family) {
                Ok(quoted) => {
                    assert!(len >= header + 8);
                    assert_eq!((quoted.ip, quoted.transport, quoted.ports), (42, 42 + header, (1, 2)));
                }
                Err(reason) => assert_eq!((len < header + 8, reason), (true, DropReason::InvalidTransport)),
            }
        }
        let later = builder.udp(1, 2).payload(&[0; 100]).build_fragments(64).remove(1);
        assert!(parse_quoted(&later, 14, family).is_err(), "a later fragment has no ports to go by");
    }
}
