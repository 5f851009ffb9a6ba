//! Routes and their next hops.

use std::fmt;

use ipnet::IpNet;

use crate::{RouterId, VmiId, VrfId};

/// One route of one VRF. The longest matching prefix decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where and what it matches.
    pub key: RouteKey,
    /// Where matching packets go.
    pub next_hop: NextHop,
}

/// What names a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteKey {
    /// The VRF that holds the route.
    pub vrf: VrfId,
    /// The destination prefix, without host bits.
    pub prefix: IpNet,
}

/// Where a packet goes. It refers to others by id and never dangles: what an id does not name is a counted drop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// Out of a local interface.
    Interface(VmiId),
    /// Over VXLAN to another node, with the VNI of the VRF that holds the route.
    Tunnel(RouterId),
    /// Equal-cost: each flow takes one of these and stays with it. Not nested.
    Composite(Vec<NextHop>),
    /// To this node's own network stack, through `vhost0`.
    Receive,
    /// Look the destination up again in another VRF.
    VrfTranslate(VrfId),
    /// Answer with a reset or an ICMP unreachable: nobody is there.
    Reject,
    /// Drop, and count it.
    Discard,
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(vmi) => write!(f, "interface {vmi}"),
            Self::Tunnel(router) => write!(f, "tunnel {router}"),
            Self::Composite(parts) => {
                f.write_str("ecmp [")?;
                for (i, part) in parts.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{part}")?;
                }
                f.write_str("]")
            }
            Self::Receive => f.write_str("receive"),
            Self::VrfTranslate(vrf) => write!(f, "vrf-translate {vrf}"),
            Self::Reject => f.write_str("reject"),
            Self::Discard => f.write_str("discard"),
        }
    }
}

impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in vrf {}", self.prefix, self.vrf)
    }
}
