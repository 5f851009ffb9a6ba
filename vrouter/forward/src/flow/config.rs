//! Idle times and bounds.

use vrouter_objects::IpProtocol;

use super::tcp::ConnectionState;

/// How long a flow may be idle before it is forgotten, in milliseconds, by the state of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Nothing came back, or a TCP handshake is not complete.
    pub unreplied: u32,
    /// An established TCP connection or SCTP association.
    pub established: u32,
    /// A TCP connection that one side has finished.
    pub closing: u32,
    /// A TCP connection that is over.
    pub closed: u32,
    /// The same where the router put a source of its own in: its peer may remember the connection for that long, and
    /// must not meet its port again before (RFC 9293 section 3.10.7.4, TIME-WAIT).
    pub closed_translated: u32,
    /// UDP with traffic both ways, and any other protocol.
    pub datagram: u32,
    /// Answered ICMP queries.
    pub icmp: u32,
}

impl Default for Timeouts {
    /// What a node's conntrack would use under kube-proxy.
    fn default() -> Self {
        Self {
            unreplied: 30_000,
            established: 24 * 3_600_000,
            closing: 60_000,
            closed: 10_000,
            closed_translated: 120_000,
            datagram: 180_000,
            icmp: 30_000,
        }
    }
}

impl Timeouts {
    /// How long a connection of this protocol in this state may be idle, in milliseconds.
    pub const fn of(&self, protocol: IpProtocol, state: ConnectionState) -> u32 {
        match (state, protocol) {
            (ConnectionState::Unreplied | ConnectionState::Handshake, _) => self.unreplied,
            (ConnectionState::Closing, _) => self.closing,
            (ConnectionState::Closed, _) => self.closed,
            (ConnectionState::Established, IpProtocol::TCP | IpProtocol::SCTP) => self.established,
            (ConnectionState::Established, IpProtocol::ICMP | IpProtocol::ICMPV6) => self.icmp,
            (ConnectionState::Established, _) => self.datagram,
        }
    }
}

/// Bounds of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowConfig {
    /// Secret: keys are chosen by whoever sends packets. Kept with the slots, since choices depend on it.
    pub hash_seed: u64,
    /// Idle times.
    pub timeouts: Timeouts,
    /// Connections that may count against one interface: those it began, and those that came to it from other
    /// nodes.
    pub connections_per_interface: u32,
    /// The same for those that nobody answered yet.
    pub unreplied_per_interface: u32,
}

impl FlowConfig {
    /// For a table of so many slots, of which no interface may take more than its part: an eighth of the
    /// connections, and a thirty-second of them unanswered.
    pub fn sized(slots: usize, hash_seed: u64) -> Self {
        let connections = u32::try_from(slots / 2).unwrap_or(u32::MAX);
        Self {
            hash_seed,
            connections_per_interface: connections / 8,
            unreplied_per_interface: connections / 32,
            ..Self::default()
        }
    }
}

impl Default for FlowConfig {
    /// Without bounds for single interfaces.
    fn default() -> Self {
        Self {
            hash_seed: 0,
            timeouts: Timeouts::default(),
            connections_per_interface: u32::MAX,
            unreplied_per_interface: u32::MAX,
        }
    }
}
