//! Dropped packets, as the local API shows them.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use vrouter_forward::DroppedPacket;
use vrouter_forward::frame::{Ingress, PortId, Time};
use vrouter_forward::parse::{Parsed, Transport, parse};
use vrouter_forward::policy::Question;
use vrouter_objects::{DropGroup, DropReason};
use vrouter_proto::v1;

use super::opinions::opinions;
use crate::agent::{Agent, State};

/// Counts by reason, and the last packets.
pub(super) fn drops(agent: &Agent) -> v1::DropTable {
    let counters = agent.shared().totals();
    let count = |reason: &DropReason| v1::DropCount {
        reason: reason.name().to_owned(),
        group: reason.group().name().to_owned(),
        help: reason.help().to_owned(),
        packets: counters.dropped_for(*reason),
    };
    let recent = agent.plane().recent_drops();
    let clock = Clock::read(agent.plane().now());
    let state = agent.state();
    v1::DropTable {
        drops: DropReason::ALL.iter().map(count).collect(),
        recent: recent.iter().map(|packet| dropped(packet, &state, &clock)).collect(),
    }
}

fn dropped(packet: &DroppedPacket, state: &State, clock: &Clock) -> v1::DroppedPacket {
    let opinions = question(packet, state).map(|question| opinions_of(&question, state));
    v1::DroppedPacket {
        opinions: opinions.unwrap_or_default(),
        time_us: clock.since_epoch(packet.time),
        reason: packet.reason.name().to_owned(),
        interface: match packet.ingress {
            Ingress::Port(port) => port_name(port, state),
            Ingress::Tunnel { source, vni } => format!("vxlan {vni} from {source}"),
        },
        summary: summary(&packet.head, packet.length),
        head: packet.head.clone(),
    }
}

fn port_name(port: PortId, state: &State) -> String {
    let interface = state.tables.interfaces().find(|(_, at)| *at == port);
    interface.map_or_else(|| format!("port {}", port.0), |(vmi, _)| vmi.name.clone())
}

/// The connection that a packet would have begun, where policy dropped it.
fn question(packet: &DroppedPacket, state: &State) -> Option<Question> {
    if packet.reason.group() != DropGroup::Policy {
        return None;
    }
    let Ok(Parsed::Ip(read)) = parse(&packet.head) else { return None };
    let vrf = match packet.ingress {
        Ingress::Port(port) => state.tables.interfaces().find(|(_, at)| *at == port)?.0.vrf,
        Ingress::Tunnel { vni, .. } => {
            state.tables.routing_instances().find(|network| network.vni == vni)?.id
        }
    };
    Some(Question {
        vrf,
        source: read.source.into(),
        destination: read.destination.into(),
        protocol: read.protocol,
        port: ports(&read.header).map_or(0, |(_, destination)| destination),
    })
}

/// What policy says of it now.
fn opinions_of(question: &Question, state: &State) -> Vec<v1::Opinions> {
    let leads = state.snapshot.as_ref().and_then(|snapshot| snapshot.judge(question).ok());
    leads.unwrap_or_default().into_iter().map(|lead| opinions(lead.opinions)).collect()
}

/// The packet in one line, as far as its first bytes tell.
fn summary(head: &[u8], length: usize) -> String {
    match parse(head) {
        Ok(Parsed::Arp { .. }) => format!("ARP, {length} bytes"),
        Ok(Parsed::Ip(packet)) => {
            let (source, destination) = (IpAddr::from(packet.source), IpAddr::from(packet.destination));
            let ends = match ports(&packet.header) {
                Some((from, to)) => {
                    format!("{} > {}", SocketAddr::new(source, from), SocketAddr::new(destination, to))
                }
                None => format!("{source} > {destination}"),
            };
            format!("{} {ends}, {length} bytes", packet.protocol)
        }
        // A head that was cut off may not parse where the whole frame did.
        Err(_) => format!("frame of {length} bytes"),
    }
}

/// Source and destination, where there are any.
fn ports(header: &Transport) -> Option<(u16, u16)> {
    match *header {
        Transport::Tcp { source, destination, .. }
        | Transport::Udp { source, destination }
        | Transport::Sctp { source, destination } => Some((source, destination)),
        _ => None,
    }
}

/// Two clocks read at the same time: that of the data path, and that of people.
struct Clock {
    boot_us: u64,
    epoch_us: u64,
}

impl Clock {
    fn read(now: Time) -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { boot_us: now.0, epoch_us: u64::try_from(epoch.as_micros()).unwrap_or(u64::MAX) }
    }

    fn since_epoch(&self, time: Time) -> u64 {
        self.epoch_us.saturating_sub(self.boot_us.saturating_sub(time.0))
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::Vni;

    use super::*;
    use crate::api::trace::tests::node;
    use crate::testing::ip;

    #[test]
    fn times_of_the_data_path_are_told_as_people_count_them() {
        let clock = Clock { boot_us: 5_000, epoch_us: 1_000_000 };
        assert_eq!(clock.since_epoch(Time(4_000)), 999_000);
        assert_eq!(clock.since_epoch(Time(6_000)), 1_000_000);
    }

    #[test]
    fn a_packet_that_policy_dropped_is_told_with_what_policy_says_now() {
        let node = node();
        let head = |destination: [u8; 4]| {
            let builder = etherparse::PacketBuilder::ethernet2([2; 6], [2; 6]);
            let mut head = Vec::new();
            builder
                .ipv4([10, 244, 2, 5], destination, 64)
                .tcp(4000, 80, 1, 1024)
                .syn()
                .write(&mut head, &[])
                .unwrap();
            head
        };
        let packet = |reason, destination| DroppedPacket {
            time: Time(0),
            reason,
            ingress: Ingress::Tunnel { source: ip("172.30.0.2"), vni: Vni::new(1).unwrap() },
            length: 54,
            head: head(destination),
        };
        let told = |packet: &DroppedPacket| {
            dropped(packet, &node.agent.state(), &Clock { boot_us: 0, epoch_us: 0 }).opinions
        };
        let opinions = told(&packet(DropReason::PolicyIngress, [10, 244, 0, 2]));
        let policies = vec!["NetworkPolicy default/deny-all".to_owned()];
        let isolated = v1::opinion::Kind::Isolated(v1::Isolation { policies });
        assert_eq!(opinions[0].ingress.clone().unwrap().kind, Some(isolated));
        assert_eq!(told(&packet(DropReason::NoRoute, [10, 244, 0, 2])), []);
        assert_eq!(told(&packet(DropReason::PolicyIngress, [203, 0, 113, 1])), [], "it leads nowhere now");
    }

    #[test]
    fn what_cannot_be_parsed_is_still_told() {
        assert_eq!(summary(&[0; 4], 1500), "frame of 1500 bytes");
    }
}
