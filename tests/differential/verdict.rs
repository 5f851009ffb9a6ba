//! What becomes of a packet, in words that both worlds share.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use crate::packet::{Probe, SeenKind};
use crate::place::{Client, OWN, Place, family_of, pod_gateway};

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It arrived.
    Delivered(Delivery),
    /// It arrived, and where is chance.
    Arrived,
    /// Its sender was told that it did not.
    Refused(Refusal),
    /// Nobody heard of it.
    Silent,
}

/// How a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    /// Where.
    pub place: Place,
    /// Whom it was from.
    pub source: Source,
    /// Whom it was for at last.
    pub destination: SocketAddr,
}

/// Whom a packet says that it is from. In the node's name any of its addresses will do, and any port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The client, as it was sent. A client on the node may have got another port.
    Client,
    /// The node.
    Node,
    /// The gateway of the pods.
    Gateway,
    /// Somebody else, or the client at a port that it did not use.
    Other(SocketAddr),
}

/// How a sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// By a TCP reset.
    Reset,
    /// By ICMP: the port is unreachable.
    PortUnreachable,
    /// By another ICMP error: its type and code.
    Icmp(u8, u8),
}

/// What became of all the packets that asked one question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Each thing that became of some of them.
    pub verdicts: BTreeSet<Verdict>,
    /// Client addresses whose packets did not all go the same way.
    pub wavering: usize,
}

impl Verdict {
    /// What a packet that came out at a place says about the one that was sent.
    pub fn of(probe: &Probe, kind: SeenKind, place: Place) -> Self {
        match kind {
            SeenKind::Itself { source, destination } => {
                let source = Source::of(probe, source);
                Self::Delivered(Delivery { place, source, destination })
            }
            SeenKind::Reset => Self::Refused(Refusal::Reset),
            SeenKind::Error(3, 3) if probe.source.is_ipv4() => Self::Refused(Refusal::PortUnreachable),
            SeenKind::Error(1, 4) if probe.source.is_ipv6() => Self::Refused(Refusal::PortUnreachable),
            SeenKind::Error(kind, code) => Self::Refused(Refusal::Icmp(kind, code)),
        }
    }

    /// The same, where it is chance which member a packet to this destination is given to.
    pub fn of_any_member(self, destination: SocketAddr) -> Self {
        match self {
            Self::Delivered(delivery) if delivery.destination != destination => Self::Arrived,
            other => other,
        }
    }
}

impl Answer {
    /// Adds what became of further packets.
    pub fn extend(&mut self, others: Vec<Self>) {
        for other in others {
            self.verdicts.extend(other.verdicts);
            self.wavering += other.wavering;
        }
    }
}

impl Source {
    fn of(probe: &Probe, source: SocketAddr) -> Self {
        let family = family_of(source.ip());
        let is_same_address = source.ip() == probe.source.ip();
        if is_same_address && (source.port() == probe.source.port() || probe.client == Client::Node) {
            Self::Client
        } else if OWN.addresses(family).contains(&source.ip()) {
            Self::Node
        } else if source.ip() == pod_gateway(family) {
            Self::Gateway
        } else {
            Self::Other(source)
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered(Delivery { place, source, destination }) => {
                write!(f, "delivered to {place:?} as {destination} from {source:?}")
            }
            Self::Arrived => f.write_str("delivered to some member"),
            Self::Refused(refusal) => write!(f, "refused by {refusal:?}"),
            Self::Silent => f.write_str("dropped"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdicts.iter().try_for_each(|verdict| writeln!(f, "    {verdict}"))?;
        match self.wavering {
            0 => Ok(()),
            count => writeln!(f, "    ({count} client addresses met more than one member)"),
        }
    }
}
