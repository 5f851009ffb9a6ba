//! Dropped packets, as the local API shows them.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use vrouter_forward::DroppedPacket;
use vrouter_forward::frame::{Ingress, PortId, Time};
use vrouter_forward::parse::{Parsed, Transport, parse};
use vrouter_objects::DropReason;
use vrouter_proto::v1;

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
    v1::DroppedPacket {
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

/// The packet in one line, as far as its first bytes tell.
fn summary(head: &[u8], length: usize) -> String {
    match parse(head) {
        Ok(Parsed::Arp { .. }) => format!("ARP, {length} bytes"),
        Ok(Parsed::Ip(packet)) => {
            let (source, destination) = (IpAddr::from(packet.source), IpAddr::from(packet.destination));
            let ends = match packet.header {
                Transport::Tcp { source: from, destination: to, .. }
                | Transport::Udp { source: from, destination: to }
                | Transport::Sctp { source: from, destination: to } => {
                    format!("{} > {}", SocketAddr::new(source, from), SocketAddr::new(destination, to))
                }
                _ => format!("{source} > {destination}"),
            };
            format!("{} {ends}, {length} bytes", packet.protocol)
        }
        // A head that was cut off may not parse where the whole frame did.
        Err(_) => format!("frame of {length} bytes"),
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
    use super::*;

    #[test]
    fn times_of_the_data_path_are_told_as_people_count_them() {
        let clock = Clock { boot_us: 5_000, epoch_us: 1_000_000 };
        assert_eq!(clock.since_epoch(Time(4_000)), 999_000);
        assert_eq!(clock.since_epoch(Time(6_000)), 1_000_000);
    }

    #[test]
    fn what_cannot_be_parsed_is_still_told() {
        assert_eq!(summary(&[0; 4], 1500), "frame of 1500 bytes");
    }
}
