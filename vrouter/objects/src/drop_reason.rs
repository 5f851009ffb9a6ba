//! The one list of reasons why a packet was not forwarded. Command line, metrics and documentation read it here.

macro_rules! drop_reasons {
    ($($variant:ident, $name:literal, $group:ident, $help:literal;)*) => {
        /// The one reason a packet was not forwarded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $help] $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name in command line, metrics and documentation.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it means and what to look at, in one sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }

            /// The part of the packet's way it belongs to.
            pub const fn group(self) -> DropGroup {
                match self { $(Self::$variant => DropGroup::$group,)* }
            }
        }
    };
}

drop_reasons! {
    PacketTruncated, "packet-truncated", Packet, "The frame ends before a header it announces.";
    InvalidEthernet, "invalid-ethernet", Packet, "The Ethernet header makes no sense, such as a multicast source.";
    UnknownEtherType, "unknown-ethertype", Packet, "Neither ARP, IPv4 nor IPv6.";
    InvalidIpv4, "invalid-ipv4", Packet, "The IPv4 header's version, header length or total length is wrong.";
    InvalidIpv6, "invalid-ipv6", Packet, "The IPv6 header's version or payload length is wrong.";
    InvalidExtension, "invalid-extension", Packet, "An IPv6 extension header is truncated, repeated beyond reason or out of place.";
    InvalidTransport, "invalid-transport", Packet, "A TCP, UDP, SCTP or ICMP header has a wrong length, or ports or flags that cannot be.";
    InvalidAddress, "invalid-address", Packet, "A source or destination that no unicast packet may have, or source and destination the same (land).";
    InvalidOffload, "invalid-offload", Packet, "The frame's offload header does not fit its contents.";
    ChecksumError, "checksum-error", Packet, "A checksum that had to be read or finished is wrong.";
    TtlExceeded, "ttl-exceeded", Packet, "TTL or hop limit ran out here; the sender was told by ICMP, within its rate.";
    TooBig, "too-big", Packet, "Larger than the next link takes and may not be fragmented; the sender was told by ICMP, within its rate.";
    VlanTagged, "vlan-tagged", Packet, "It bears an 802.1Q tag with a VLAN id; virtual networks have none.";
    UnknownPort, "unknown-port", Interface, "It came from a port that has no interface (any more).";
    InterfaceDown, "interface-down", Interface, "The interface it should leave by has no port.";
    TransmitFailed, "transmit-failed", Interface, "The kernel refused the write.";
    QueueFull, "queue-full", Interface, "The queue of the interface or tunnel it should leave by is full.";
    SpoofedMac, "spoofed-mac", Interface, "Its source MAC is not the interface's.";
    SpoofedAddress, "spoofed-address", Interface, "Its source IP is none of the interface's.";
    InvalidArp, "invalid-arp", Layer2, "An ARP or neighbour message that makes no sense or claims what is not the sender's.";
    NotForUs, "not-for-us", Layer2, "Its destination MAC is neither the gateway's nor broadcast.";
    Multicast, "multicast", Layer2, "Multicast or broadcast that no local service answers.";
    NoRoute, "no-route", NextHop, "Its VRF has no route to the destination.";
    DiscardRoute, "discard-route", NextHop, "The route says to discard.";
    InvalidNextHop, "invalid-next-hop", NextHop, "The route's next hop names something this node does not hold.";
    RouteLoop, "route-loop", NextHop, "It would leave by the tunnel side it came in by, or through too many VRFs.";
    NoService, "no-service", NextHop, "A service address, but no service at this protocol and port; the sender was told.";
    SourceRange, "source-range", NextHop, "To a load balancer's address from a source that loadBalancerSourceRanges does not list.";
    NoMembers, "no-members", NextHop, "A service without a usable member; the sender was told where the service says so.";
    InvalidVxlan, "invalid-vxlan", Tunnel, "A VXLAN header that is too short, or has its I bit clear.";
    UnknownVni, "unknown-vni", Tunnel, "No network here has this VNI.";
    UnknownVtep, "unknown-vtep", Tunnel, "The outer source is no known node.";
    UnknownRouterMac, "unknown-router-mac", Tunnel, "The inner destination MAC is not this node's tunnel end.";
    TunnelPort, "tunnel-port", Tunnel, "To a port where nodes take tunnels, in the node's own name: nobody may speak as a tunnel's end.";
    PolicyEgress, "policy-egress", Policy, "No policy of the sending pod allows it, or one denies it; `vrctl policy` shows which.";
    PolicyIngress, "policy-ingress", Policy, "No policy of the receiving pod allows it, or one denies it; `vrctl policy` shows which.";
    FlowTableFull, "flow-table-full", Flow, "No slot is left for a new flow.";
    VmiFlowLimit, "vmi-flow-limit", Flow, "The interface has as many flows as one may have.";
    UnrepliedLimit, "unreplied-limit", Flow, "The interface has as many unanswered flows as one may have.";
    NoFlow, "no-flow", Flow, "In the middle of a connection that nobody here knows; a sender to a service was told.";
    MemberGone, "member-gone", Flow, "The member of an established connection is gone; the client was told.";
    NatPortsExhausted, "nat-ports-exhausted", Flow, "No source port is left to tell two connections apart.";
    IcmpUnrelated, "icmp-unrelated", Flow, "An ICMP error about a packet that no flow sent.";
    FragmentTimeout, "fragment-timeout", Fragment, "Later fragments whose first one did not come in time.";
    FragmentLimit, "fragment-limit", Fragment, "More datagrams in fragments, or more held fragments, than may be.";
}

/// The part of the packet's way a [`DropReason`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropGroup {
    /// The packet itself.
    Packet,
    /// The interface it came from or should leave by.
    Interface,
    /// Ethernet, ARP and neighbour discovery.
    Layer2,
    /// Routes, next hops and services.
    NextHop,
    /// VXLAN.
    Tunnel,
    /// Network policy.
    Policy,
    /// The flow table.
    Flow,
    /// IP fragments.
    Fragment,
}

impl DropGroup {
    /// Its name in command line and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Interface => "interface",
            Self::Layer2 => "layer2",
            Self::NextHop => "next-hop",
            Self::Tunnel => "tunnel",
            Self::Policy => "policy",
            Self::Flow => "flow",
            Self::Fragment => "fragment",
        }
    }
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_are_dense() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
        for (number, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
        }
    }
}
