//! Packets that cannot be: each is dropped for the right reason, whether from a pod or out of a tunnel, makes
//! no flow and brings nothing down.

mod support;

use support::{FAMILIES, SYN, address, drops, from_tunnel, node_mac, only, packet, vip, vtep};
use vrouter_forward::Family;
use vrouter_forward::frame::{Frame, Ingress};
use vrouter_forward::sim::{Cluster, PacketBuilder, ServiceSpec};
use vrouter_objects::{DropReason, IpProtocol, MacAddress, ServiceProtocol};

/// Where the IP header begins, and where the transport header does behind a plain IP header.
const IP: usize = 14;
const V4_TRANSPORT: usize = 34;
const V6_TRANSPORT: usize = 54;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const NOTHING: &[u8] = &[0; 8];

type Malformed = (&'static str, Vec<u8>, DropReason);

/// The frame with these bytes at this offset.
fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// The frame with so many bytes of transport header and payload, and an IP header that says so.
fn cut_contents(mut frame: Vec<u8>, len: usize) -> Vec<u8> {
    let (at, transport, total) = match frame[12] {
        0x08 => (IP + 2, V4_TRANSPORT, len + 20),
        _ => (IP + 4, V6_TRANSPORT, len),
    };
    frame.truncate(transport + len);
    with(frame, at, &(total as u16).to_be_bytes())
}

fn ethernet(packet: &PacketBuilder) -> Vec<Malformed> {
    use DropReason::{InvalidEthernet, PacketTruncated, UnknownEtherType, VlanTagged};
    let frame = packet.clone().udp(1, 2).build();
    let tagged = |id: u16| [&frame[..12], &[0x81, 0], &id.to_be_bytes(), &frame[12..]].concat();
    vec![
        ("nothing at all", Vec::new(), PacketTruncated),
        ("Ethernet cut short", frame[..13].to_vec(), PacketTruncated),
        ("group as source", with(frame.clone(), 6, &[0x01]), InvalidEthernet),
        ("LLDP", with(frame.clone(), 12, &[0x88, 0xcc]), UnknownEtherType),
        ("802.3 length for a type", with(frame.clone(), 12, &[0, 46]), UnknownEtherType),
        ("VLAN 5", tagged(5), VlanTagged),
        ("VLAN 5 with a priority", tagged(0xa005), VlanTagged),
        ("tag cut short", tagged(0)[..17].to_vec(), PacketTruncated),
        ("tag in tag", with(tagged(0), 16, &[0x81, 0]), UnknownEtherType),
    ]
}

fn ipv4(packet: &PacketBuilder) -> Vec<Malformed> {
    use DropReason::{InvalidAddress, InvalidIpv4, PacketTruncated};
    let frame = packet.clone().udp(1, 2).payload(&[0; 20]).build();
    let source = |octets: [u8; 4]| with(frame.clone(), IP + 12, &octets);
    let destination = |octets: [u8; 4]| with(frame.clone(), IP + 16, &octets);
    let own: [u8; 4] = frame[IP + 12..IP + 16].try_into().unwrap();
    vec![
        ("IPv4 cut short", frame[..IP + 19].to_vec(), PacketTruncated),
        ("version 6 under IPv4's type", with(frame.clone(), IP, &[0x65]), InvalidIpv4),
        ("header length 4", with(frame.clone(), IP, &[0x44]), InvalidIpv4),
        ("header longer than the packet", with(frame.clone(), IP, &[0x4f]), InvalidIpv4),
        ("total length 19", with(frame.clone(), IP + 2, &[0, 19]), InvalidIpv4),
        ("total length 0", with(frame.clone(), IP + 2, &[0, 0]), InvalidIpv4),
        ("total length past the frame", with(frame.clone(), IP + 2, &[0, 49]), PacketTruncated),
        ("total length far past the frame", with(frame.clone(), IP + 2, &[0xff, 0xff]), PacketTruncated),
        ("from a group", source([224, 0, 0, 5]), InvalidAddress),
        ("from everybody", source([255; 4]), InvalidAddress),
        ("from loopback", source([127, 0, 0, 1]), InvalidAddress),
        ("from this network", source([0, 1, 2, 3]), InvalidAddress),
        ("to loopback", destination([127, 0, 0, 1]), InvalidAddress),
        ("to the reserved block", destination([240, 0, 0, 1]), InvalidAddress),
        ("to nobody", destination([0; 4]), InvalidAddress),
        ("land", destination(own), InvalidAddress),
    ]
}

fn ipv6(packet: &PacketBuilder) -> Vec<Malformed> {
    use DropReason::{InvalidAddress, InvalidIpv6, PacketTruncated};
    let frame = packet.clone().udp(1, 2).payload(&[0; 20]).build();
    let source = |octets: &[u8]| with(frame.clone(), IP + 8, octets);
    let destination = |octets: &[u8]| with(frame.clone(), IP + 24, octets);
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 244, 1, 2];
    let loopback = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    vec![
        ("IPv6 cut short", frame[..IP + 39].to_vec(), PacketTruncated),
        ("version 4 under IPv6's type", with(frame.clone(), IP, &[0x45]), InvalidIpv6),
        ("jumbogram", with(frame.clone(), IP + 4, &[0, 0]), InvalidIpv6),
        ("payload length past the frame", with(frame.clone(), IP + 4, &[0, 29]), PacketTruncated),
        ("from a group", source(&[0xff, 2]), InvalidAddress),
        ("from loopback", source(&loopback), InvalidAddress),
        ("from a mapped address", source(&mapped), InvalidAddress),
        ("to loopback", destination(&loopback), InvalidAddress),
        ("to nobody", destination(&[0; 16]), InvalidAddress),
        ("to a mapped address", destination(&mapped), InvalidAddress),
        ("land", destination(&frame[IP + 8..IP + 24]), InvalidAddress),
    ]
}

fn extensions(packet: &PacketBuilder) -> Vec<Malformed> {
    let chain = |extensions: &[(u8, &[u8])]| {
        let packet =
            extensions.iter().fold(packet.clone(), |packet, (kind, bytes)| packet.extension(*kind, bytes));
        packet.udp(1, 2).payload(&[0; 20]).build()
    };
    let beyond = [0, 200, 0, 0, 0, 0, 0, 0];
    let to_be_routed = [0, 0, 0, 1, 0, 0, 0, 0];
    let none_in_front = cut_contents(packet.clone().protocol(HOP_BY_HOP, &[17, 0, 0, 0]).build(), 4);
    let cases = vec![
        ("hop-by-hop cut short", none_in_front),
        ("hop-by-hop past the packet", chain(&[(HOP_BY_HOP, &beyond)])),
        ("hop-by-hop behind another", chain(&[(DESTINATION_OPTIONS, NOTHING), (HOP_BY_HOP, NOTHING)])),
        ("hop-by-hop twice", chain(&[(HOP_BY_HOP, NOTHING), (HOP_BY_HOP, NOTHING)])),
        ("destination options past the packet", chain(&[(DESTINATION_OPTIONS, &beyond)])),
        ("authentication past the packet", chain(&[(AUTHENTICATION, &beyond)])),
        ("source route with a segment left", chain(&[(ROUTING, &to_be_routed)])),
        ("source route behind others", chain(&[(HOP_BY_HOP, NOTHING), (ROUTING, &to_be_routed)])),
        ("fragment header twice", chain(&[(FRAGMENT, NOTHING), (FRAGMENT, NOTHING)])),
        ("chain without end", chain(&[(DESTINATION_OPTIONS, NOTHING); 9])),
        ("only extension headers, cut short", cut_contents(chain(&[(DESTINATION_OPTIONS, NOTHING)]), 7)),
    ];
    cases.into_iter().map(|(name, frame)| (name, frame, DropReason::InvalidExtension)).collect()
}

fn transports(packet: &PacketBuilder, transport: usize) -> Vec<Malformed> {
    let tcp = packet.clone().tcp(1, 2, SYN).build();
    let udp = packet.clone().udp(1, 2).payload(&[0; 20]).build();
    let sctp = packet.clone().sctp(1, 2).payload(&[1, 0, 0, 4]).build();
    let ping = packet.clone().echo_request(1, 1).build();
    let tcp_with = |at: usize, bytes: &[u8]| with(tcp.clone(), transport + at, bytes);
    let udp_with = |at: usize, bytes: &[u8]| with(udp.clone(), transport + at, bytes);
    let foreign_icmp = if transport == V4_TRANSPORT { IpProtocol::ICMPV6 } else { IpProtocol::ICMP };
    let cases = vec![
        ("TCP cut short", cut_contents(tcp.clone(), 19)),
        ("TCP data offset 4", tcp_with(12, &[0x40])),
        ("TCP data offset past the packet", tcp_with(12, &[0x60])),
        ("TCP data offset 15 and no options", tcp_with(12, &[0xf0])),
        ("TCP from port 0", tcp_with(0, &[0, 0])),
        ("TCP to port 0", tcp_with(2, &[0, 0])),
        ("TCP without flags", tcp_with(13, &[0])),
        ("TCP with every flag", tcp_with(13, &[0xff])),
        ("TCP SYN and FIN", tcp_with(13, &[0x03])),
        ("TCP SYN and RST", tcp_with(13, &[0x06])),
        ("TCP FIN without ACK", tcp_with(13, &[0x01])),
        ("UDP cut short", cut_contents(udp.clone(), 7)),
        ("UDP length 7", udp_with(4, &[0, 7])),
        ("UDP length 0", udp_with(4, &[0, 0])),
        ("UDP length past the packet", udp_with(4, &[0, 29])),
        ("UDP to port 0", udp_with(2, &[0, 0])),
        ("SCTP cut short", cut_contents(sctp.clone(), 11)),
        ("SCTP from port 0", with(sctp.clone(), transport, &[0, 0])),
        ("SCTP to port 0", with(sctp, transport + 2, &[0, 0])),
        ("ping cut short", cut_contents(ping, 7)),
        ("the other family's ICMP", packet.clone().protocol(foreign_icmp.0, &[8; 8]).build()),
        (
            "first fragment without all of TCP's header",
            packet.clone().tcp(1, 2, SYN).build_fragments(16).remove(0),
        ),
    ];
    cases.into_iter().map(|(name, frame)| (name, frame, DropReason::InvalidTransport)).collect()
}

fn table(packet: &PacketBuilder, family: Family) -> Vec<Malformed> {
    let mut table = ethernet(packet);
    match family {
        Family::V4 => {
            table.extend(ipv4(packet));
            table.extend(transports(packet, V4_TRANSPORT));
        }
        Family::V6 => {
            table.extend(ipv6(packet));
            table.extend(extensions(packet));
            table.extend(transports(packet, V6_TRANSPORT));
        }
    }
    table
}

#[test]
fn malf_4_bad_lengths_are_dropped_and_counted() {
    for family in FAMILIES {
        let mut cluster = Cluster::new(2);
        let (pod, other) = (cluster.pod(0), cluster.pod(0));
        let packet = PacketBuilder::new(address(&pod, family), address(&other, family));
        for (name, bytes, reason) in table(&packet.clone().macs(pod.mac, MacAddress::GATEWAY), family) {
            let frame = Frame::from_bytes(&bytes, Ingress::Port(pod.port));
            check(&mut cluster, frame, reason, &format!("{family:?} from a pod: {name}"));
        }
        for (name, bytes, reason) in table(&packet.macs(node_mac(1), node_mac(0)), family) {
            let frame = from_tunnel(&bytes, vtep(1));
            check(&mut cluster, frame, reason, &format!("{family:?} from a tunnel: {name}"));
        }
    }
}

fn check(cluster: &mut Cluster, frame: Frame, reason: DropReason, label: &str) {
    let before = drops(cluster, 0);
    assert_eq!(cluster.follow(0, frame), [], "{label}");
    let after = drops(cluster, 0);
    let count =
        |drops: &[(DropReason, u64)]| drops.iter().find(|(other, _)| *other == reason).map_or(0, |(_, n)| *n);
    let total = |drops: &[(DropReason, u64)]| drops.iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(
        (count(&after), total(&after)),
        (count(&before) + 1, total(&before) + 1),
        "{label}: {after:?}"
    );
    assert_eq!(cluster.nodes[0].flows(cluster.now), [], "{label}");
}

/// Whoever looks like TCP to the service behind a header that is none of TCP's does not get the service's
/// port.
#[test]
fn malf_2_ports_behind_unknown_headers_are_none() {
    let looks_like_tcp =
        &PacketBuilder::new(vip(Family::V4), "10.0.0.1".parse::<std::net::IpAddr>().unwrap())
            .tcp(4000, 80, SYN)
            .build_ip()[20..];
    // Encapsulation, security, mobility, host identity, shim6, experiments: none has the common layout.
    for protocol in [4, 41, 47, 50, 59, 135, 139, 140, 253, 254] {
        for family in FAMILIES {
            let mut cluster = Cluster::new(1);
            let (client, server) = (cluster.pod(0), cluster.pod(0));
            let members = [(address(&server, family), 8080)];
            cluster.put(&[ServiceSpec::new(1, vip(family), ServiceProtocol::Tcp, 80, &members).object()]);
            let label = format!("{family:?} protocol {protocol}");

            let to_service = PacketBuilder::new(address(&client, family), vip(family));
            let refused = cluster.send(&client, &to_service.protocol(protocol, looks_like_tcp).build());
            assert_eq!(refused.len(), 1, "{label}: {refused:?}");
            assert_eq!(refused[0].port, client.port, "{label}");
            assert_eq!(drops(&cluster, 0), [(DropReason::NoService, 1)], "{label}");

            let to_pod = PacketBuilder::new(address(&client, family), address(&server, family));
            let passed = cluster.send(&client, &to_pod.protocol(protocol, looks_like_tcp).build());
            assert_eq!(passed.len(), 1, "{label}");
            let flows = cluster.nodes[0].flows(cluster.now);
            let key = flows[0].key;
            assert_eq!((key.protocol.0, key.source_port, key.destination_port), (protocol, 0, 0), "{label}");
        }
    }
}

/// Every extension header that may stand before a transport is passed over, and the transport is translated.
#[test]
fn malf_3_transport_behind_known_extension_headers_is_found() {
    // Length 4 counts units of four bytes: 24 bytes in all.
    let authentication: &[u8] = &[0, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9];
    let options: &[u8] = &[0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routed_already: &[u8] = &[0, 0, 253, 0, 0, 0, 0, 0];
    let chains: [&[(u8, &[u8])]; 6] = [
        &[(AUTHENTICATION, authentication)],
        &[(HOP_BY_HOP, options)],
        &[(DESTINATION_OPTIONS, options)],
        &[(ROUTING, routed_already)],
        &[(FRAGMENT, NOTHING)],
        &[
            (HOP_BY_HOP, options),
            (DESTINATION_OPTIONS, options),
            (ROUTING, routed_already),
            (FRAGMENT, NOTHING),
            (AUTHENTICATION, authentication),
            (DESTINATION_OPTIONS, options),
        ],
    ];
    for extensions in chains {
        for member_node in [0, 1] {
            let mut cluster = Cluster::new(2);
            let (client, server) = (cluster.pod(0), cluster.pod(member_node));
            let service =
                ServiceSpec::new(1, vip(Family::V6), ServiceProtocol::Tcp, 80, &[(server.v6, 8080)]);
            cluster.put(&[service.object()]);
            let builder = PacketBuilder::new(client.v6, vip(Family::V6));
            let builder =
                extensions.iter().fold(builder, |builder, (kind, bytes)| builder.extension(*kind, bytes));
            let got = only(&cluster.send(&client, &builder.tcp(4000, 80, SYN).build()));
            assert_eq!((got.destination, got.ports), (server.v6, (4000, 8080)), "{extensions:?}");
            let answer = packet(server.v6, client.v6, ServiceProtocol::Tcp, (8080, 4000), SYN | support::ACK);
            assert_eq!(only(&cluster.send(&server, &answer)).source, vip(Family::V6), "{extensions:?}");
        }
    }
}

/// An authentication header of eight bytes would end before its own sequence number.
#[test]
fn malf_3_an_authentication_header_has_its_fixed_part() {
    let mut cluster = Cluster::new(2);
    let (pod, far) = (cluster.pod(0), cluster.pod(1));
    let packet = PacketBuilder::new(pod.v6, far.v6).extension(51, &[0; 8]).tcp(4000, 80, SYN);
    assert_eq!(cluster.send(&pod, &packet.build()), []);
    let totals = cluster.nodes[0].shared.totals();
    assert_eq!(totals.dropped_for(DropReason::InvalidExtension), 1);
    assert_eq!(cluster.nodes[0].flows(cluster.now), []);
}
