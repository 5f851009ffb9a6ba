//! Dropped packets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use vrouter_proto::v1;

use super::opinion::Opinions;
use crate::client::Client;
use crate::error::CliError;
use crate::output::{Format, Row, document, duration, print, table};
use crate::words::or_dash;

#[derive(Serialize)]
struct Drops {
    reasons: Vec<Reason>,
    recent: Vec<Packet>,
}

#[derive(Serialize)]
struct Reason {
    reason: String,
    group: String,
    packets: u64,
    help: String,
}

#[derive(Serialize)]
struct Packet {
    time_us: u64,
    reason: String,
    interface: String,
    summary: String,
    /// What policy says of its connection now, where policy dropped it: for each member of a service that might get it.
    policy: Vec<Opinions>,
    head: String,
}

impl Row for Reason {
    const HEADINGS: &'static [&'static str] = &["REASON", "GROUP", "PACKETS", "MEANING"];

    fn cells(&self) -> Vec<String> {
        vec![self.reason.clone(), self.group.clone(), self.packets.to_string(), self.help.clone()]
    }
}

impl Row for Packet {
    const HEADINGS: &'static [&'static str] = &["AGO", "REASON", "INTERFACE", "PACKET", "POLICY NOW"];

    fn cells(&self) -> Vec<String> {
        let dropped = UNIX_EPOCH + Duration::from_micros(self.time_us);
        let ago = SystemTime::now().duration_since(dropped).unwrap_or_default().as_millis();
        let ago = duration(u64::try_from(ago).unwrap_or(u64::MAX));
        vec![
            ago,
            self.reason.clone(),
            self.interface.clone(),
            self.summary.clone(),
            or_dash(self.policy_now()),
        ]
    }
}

impl Packet {
    /// Who denies its connection now, in words.
    fn policy_now(&self) -> String {
        let mut denials: Vec<_> = self.policy.iter().filter_map(Opinions::denial).collect();
        denials.dedup();
        match (denials.as_slice(), self.policy.as_slice()) {
            ([], []) => String::new(),
            ([], _) => "allowed".to_owned(),
            (denials, _) => denials.join("; "),
        }
    }
}

/// Shows why packets were dropped, and the last ones. Reasons that never occurred only where all are asked for.
pub async fn show(client: &mut Client, format: Format, all: bool) -> Result<(), CliError> {
    let message = client.drops().await?;
    let reasons = message.drops.into_iter().filter(|count| all || count.packets > 0);
    let drops = Drops {
        reasons: reasons.map(reason).collect(),
        recent: message.recent.into_iter().map(packet).collect(),
    };
    match format {
        Format::Table if drops.reasons.is_empty() => print("No packet was dropped."),
        Format::Table if drops.recent.is_empty() => print(&table(&drops.reasons)),
        Format::Table => print(&format!("{}\n\n{}", table(&drops.reasons), table(&drops.recent))),
        Format::Json | Format::Yaml => document(format, &drops),
    }
}

fn reason(count: v1::DropCount) -> Reason {
    Reason { reason: count.reason, group: count.group, packets: count.packets, help: count.help }
}

fn packet(packet: v1::DroppedPacket) -> Packet {
    let head = packet.head.iter().map(|byte| format!("{byte:02x}")).collect();
    Packet {
        time_us: packet.time_us,
        reason: packet.reason,
        interface: packet.interface,
        summary: packet.summary,
        policy: packet.opinions.iter().map(Opinions::read).collect(),
        head,
    }
}

#[cfg(test)]
mod tests {
    use vrouter_proto::v1::opinion::Kind;

    use super::*;

    fn opinions(ingress: Kind) -> v1::Opinions {
        let opinion = |kind| Some(v1::Opinion { kind: Some(kind) });
        v1::Opinions { egress: opinion(Kind::Ungoverned(v1::Empty {})), ingress: opinion(ingress) }
    }

    fn now(opinions: &[v1::Opinions]) -> String {
        packet(v1::DroppedPacket { opinions: opinions.to_vec(), ..Default::default() }).policy_now()
    }

    #[test]
    fn a_packet_that_policy_dropped_tells_which_policy() {
        let policies = vec!["NetworkPolicy shop/deny-all".to_owned()];
        let isolated = opinions(Kind::Isolated(v1::Isolation { policies }));
        let allowed = opinions(Kind::Ungoverned(v1::Empty {}));
        let denied = "ingress denied: no rule of NetworkPolicy shop/deny-all allows it";
        assert_eq!(now(&[isolated.clone(), isolated.clone()]), denied);
        assert_eq!(now(&[allowed.clone(), isolated]), denied);
        assert_eq!(now(&[allowed]), "allowed");
        assert_eq!(now(&[]), "", "another reason than policy");
    }
}
