//! Conversations: somebody says something to somebody, who answers.

use std::net::IpAddr;

use vrouter_forward::Family;
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT, PacketBuilder, PodHandle};
use vrouter_objects::ServiceProtocol;

use super::network::{ACK, ALL_PROTOCOLS, FAMILIES, RST, SYN, packet};
use super::reader::{Read, read};
use super::service::{Client, send_from};

/// What somebody speaks by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    Service(ServiceProtocol),
    Ping,
}

pub const VOICES: [Voice; 4] = [
    Voice::Service(ServiceProtocol::Tcp),
    Voice::Service(ServiceProtocol::Udp),
    Voice::Service(ServiceProtocol::Sctp),
    Voice::Ping,
];

/// Every voice in both families.
pub fn voices() -> impl Iterator<Item = (Family, Voice)> {
    FAMILIES.into_iter().flat_map(|family| VOICES.map(|voice| (family, voice)))
}

/// Every protocol of services in both families.
pub fn protocols() -> impl Iterator<Item = (Family, ServiceProtocol)> {
    FAMILIES.into_iter().flat_map(|family| ALL_PROTOCOLS.map(|protocol| (family, protocol)))
}

impl Voice {
    /// A packet; `flags` are TCP's, and a ping has the first port for its number.
    pub fn frame(self, from: (IpAddr, u16), to: (IpAddr, u16), flags: u8) -> Vec<u8> {
        match self {
            Self::Service(protocol) => packet(from.0, to.0, protocol, (from.1, to.1), flags),
            Self::Ping => PacketBuilder::new(from.0, to.0).echo_request(from.1, 1).payload(b"ping").build(),
        }
    }

    /// What whoever got a packet answers.
    pub fn answer(self, got: &Read, flags: u8) -> Vec<u8> {
        match self {
            Self::Service(protocol) => {
                packet(got.destination, got.source, protocol, (got.ports.1, got.ports.0), flags)
            }
            Self::Ping => {
                let kind = if got.source.is_ipv4() { 0 } else { 129 };
                let rest = [got.payload[4], got.payload[5], 0, 1];
                PacketBuilder::new(got.destination, got.source).icmp(kind, 0, rest).payload(b"ping").build()
            }
        }
    }

    /// The port, or number, that an answer is for.
    pub fn answered_port(self, got: &Read) -> u16 {
        match self {
            Self::Service(_) => got.ports.1,
            Self::Ping => u16::from_be_bytes([got.payload[4], got.payload[5]]),
        }
    }
}

/// A connection from a client to an address and port.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub client: Client,
    pub voice: Voice,
    pub to: IpAddr,
    pub port: u16,
    pub from_port: u16,
}

impl Conversation {
    pub fn new(client: Client, voice: Voice, to: IpAddr, port: u16) -> Self {
        Self { client, voice, to, port, from_port: 4000 }
    }

    /// From a pod to an address.
    pub fn of(pod: &PodHandle, voice: Voice, to: IpAddr, port: u16) -> Self {
        Self::new(Client::Pod(pod.clone()), voice, to, port)
    }

    #[must_use]
    pub fn by(mut self, from_port: u16) -> Self {
        self.from_port = from_port;
        self
    }

    fn family(&self) -> Family {
        if self.to.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    fn from(&self) -> IpAddr {
        self.client.address(self.family())
    }

    /// Lets the client send, and says what came of it.
    pub fn say(&self, cluster: &mut Cluster, flags: u8) -> Vec<Delivery> {
        let frame = self.voice.frame((self.from(), self.from_port), (self.to, self.port), flags);
        self.client.clone().send(cluster, &frame)
    }

    /// Lets the client send, and says where it came out, if it came to somebody else and once.
    #[track_caller]
    pub fn heard(&self, cluster: &mut Cluster, flags: u8) -> Option<Delivery> {
        let mut deliveries = self.say(cluster, flags);
        deliveries.retain(|delivery| !self.is_told(delivery));
        assert!(deliveries.len() <= 1, "{self:?}: {deliveries:?}");
        deliveries.pop()
    }

    /// Whether a frame is what the router told the client: a reset or an ICMP error.
    fn is_told(&self, delivery: &Delivery) -> bool {
        let got = read(&delivery.frame);
        let is_error = match got.protocol {
            1 => matches!(got.payload[0], 3 | 11),
            58 => got.payload[0] < 128,
            _ => got.tcp_flags & RST != 0,
        };
        self.client.is_at(delivery) && got.destination == self.from() && is_error
    }

    /// Lets whoever got a packet answer, and says whether that came to the client.
    #[track_caller]
    pub fn is_answered(&self, cluster: &mut Cluster, delivery: &Delivery, flags: u8) -> bool {
        let answer = self.voice.answer(&read(&delivery.frame), flags);
        let back = send_from(cluster, delivery, &answer);
        let mine: Vec<_> = back.iter().filter(|back| self.client.is_at(back)).collect();
        let [back] = mine[..] else {
            let told = |back: &Delivery| (back.node, back.port) == (delivery.node, delivery.port);
            assert!(back.iter().all(told), "{self:?}: an answer came to a stranger: {back:?}");
            return false;
        };
        let got = read(&back.frame);
        assert_eq!((got.source, got.destination), (self.to, self.from()), "{self:?}: {got:?}");
        assert_eq!(self.voice.answered_port(&got), self.from_port, "{self:?}: {got:?}");
        true
    }

    /// Opens it, as far as both sides have spoken; `None`: it cannot be.
    #[track_caller]
    pub fn open(&self, cluster: &mut Cluster) -> Option<Delivery> {
        let delivery = self.heard(cluster, SYN)?;
        assert!(self.is_answered(cluster, &delivery, SYN | ACK), "{self:?}: what is let in is let out");
        assert!(self.heard(cluster, ACK).is_some(), "{self:?}: what was let in once is let in again");
        Some(delivery)
    }

    /// Whether it can be opened.
    #[track_caller]
    pub fn is_open(&self, cluster: &mut Cluster) -> bool {
        self.open(cluster).is_some()
    }

    /// Opens it where nothing must be in its way.
    #[track_caller]
    pub fn must_open(&self, cluster: &mut Cluster) -> Delivery {
        self.open(cluster).unwrap_or_else(|| panic!("{self:?} is not heard"))
    }

    /// Expects that it goes on, in both directions.
    #[track_caller]
    pub fn must_go_on(&self, cluster: &mut Cluster, delivery: &Delivery) {
        let there = self.heard(cluster, ACK).unwrap_or_else(|| panic!("{self:?} is not heard any more"));
        assert_eq!((there.node, there.port), (delivery.node, delivery.port), "{self:?}");
        assert!(self.is_answered(cluster, &there, ACK), "{self:?} is not answered any more");
    }

    /// Expects that neither side hears the other any more.
    #[track_caller]
    pub fn must_be_cut(&self, cluster: &mut Cluster, delivery: &Delivery) {
        assert_eq!(self.heard(cluster, ACK), None, "{self:?} is heard");
        assert!(!self.is_answered(cluster, delivery, ACK), "{self:?} is answered");
        assert_eq!(self.heard(cluster, ACK), None, "{self:?} is heard by way of the answers");
    }
}

/// Whether a frame came out at a pod.
pub fn is_at(delivery: &Delivery, pod: &PodHandle) -> bool {
    (delivery.node, delivery.port) == (pod.node, pod.port)
}

/// Whether a frame came out at a node's own stack.
pub fn is_at_host(delivery: &Delivery, node: usize) -> bool {
    (delivery.node, delivery.port) == (node, HOST_PORT)
}
