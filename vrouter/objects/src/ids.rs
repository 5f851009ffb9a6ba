//! Newtypes for everything that is a number and must not be mixed up with another number.

use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

use crate::ObjectError;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        ///
        /// Given once, kept over restarts and never given again, so that a flow may refer to it for as long as it lives.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id with this number, which must not be 0.
            pub fn new(number: u32) -> Result<Self, ObjectError> {
                NonZeroU32::new(number)
                    .map(Self)
                    .ok_or(ObjectError::ZeroId { kind: $kind })
            }

            /// The id's number, never 0.
            pub const fn get(self) -> u32 {
                self.0.get()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($kind, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A VRF: one routing instance, the forwarding table of one virtual network.
    VrfId, "vrf"
);
id!(
    /// A virtual machine interface.
    VmiId, "vmi"
);
impl VmiId {
    /// `vhost0`, on every node alike. Leases never reach it.
    pub const HOST: Self = Self(NonZeroU32::MAX);
}

id!(
    /// A floating IP.
    FloatingIpId, "floating ip"
);
id!(
    /// One listener (port mapping) of a floating IP.
    ListenerId, "listener"
);
id!(
    /// One member of a pool: a service endpoint at one port.
    MemberId, "member"
);
id!(
    /// A virtual router: a node of the cluster, ours or a plain kernel's.
    RouterId, "virtual router"
);
id!(
    /// A network policy.
    PolicyId, "policy"
);
id!(
    /// A set of addresses that policies' rules refer to.
    PeerSetId, "peer set"
);
id!(
    /// A block of addresses leased to a node.
    LeaseId, "lease"
);

/// A VXLAN network identifier, 24 bits (RFC 7348).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vni(u32);

impl Vni {
    /// The VNI with this number, at most 2²⁴ - 1.
    pub fn new(number: u32) -> Result<Self, ObjectError> {
        if number < 1 << 24 { Ok(Self(number)) } else { Err(ObjectError::VniRange(number)) }
    }

    /// The number, below 2²⁴.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A TCP, UDP or SCTP port that something can listen on: 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

impl Port {
    /// The port with this number, 1 to 65535, as Kubernetes validates it.
    pub fn new(number: i64) -> Result<Self, ObjectError> {
        u16::try_from(number).ok().and_then(NonZeroU16::new).map(Self).ok_or(ObjectError::PortRange(number))
    }

    /// The number, never 0.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The version of a node's tables: given by the controller, never going backwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
