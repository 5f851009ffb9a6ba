//! The one error type of the translation.

use std::fmt;

use thiserror::Error;
use vrouter_objects::{ObjectError, ServiceProtocol};

/// A message that says what no object can be: where, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConvertError {
    /// The object, such as `floating ip 7 (default/web)`; empty for a value on its own.
    object: String,
    /// Path of the field in it, such as `listeners[0].port`; empty: the object as a whole.
    field: String,
    problem: Problem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A message, a oneof or a string that must be there is not.
    #[error("is missing")]
    Missing,
    /// Enums start with a value that means "nothing was said", and may bring values that came after us.
    #[error("has no known value (number {0})")]
    UnknownValue(i32),
    /// An IP address is 4 or 16 bytes long.
    #[error("is an address of {0} bytes; it must have 4 or 16")]
    AddressLength(usize),
    /// An IPv4 address in IPv6 clothes would be a second name for the same thing.
    #[error("is an IPv4-mapped IPv6 address; it must be sent as IPv4")]
    Ipv4Mapped,
    /// Unspecified, multicast or broadcast, where one host is meant.
    #[error("is no unicast address")]
    NotUnicast,
    /// A MAC address is 6 bytes long.
    #[error("is a MAC address of {0} bytes; it must have 6")]
    MacLength(usize),
    /// The group bit is set, where one interface is meant.
    #[error("is a multicast MAC address")]
    MulticastMac,
    /// Longer than the address.
    #[error("is a prefix length of {0}, longer than the address")]
    PrefixLength(u32),
    /// Bits of the address beyond the prefix length are set.
    #[error("has host bits set beyond the prefix length")]
    HostBits,
    /// IPv4 where IPv6 is meant, or the other way round.
    #[error("is of the other address family")]
    FamilyMix,
    /// A subnet's gateway is one of its addresses.
    #[error("lies outside the subnet")]
    OutsideSubnet,
    /// One part of a pod's name is empty or has a slash in it.
    #[error("is empty or has a '/' in it")]
    NamePart,
    /// A next hop of no parts leads nowhere; there are discard and reject for that.
    #[error("has no parts")]
    EmptyComposite,
    /// Composites are flat.
    #[error("is a composite inside a composite")]
    NestedComposite,
    /// Protocol and port name one listener.
    #[error("is a second listener for {protocol} port {port}")]
    DuplicateListener {
        /// The protocol.
        protocol: ServiceProtocol,
        /// The port.
        port: u16,
    },
    /// Something that may be there once is there again.
    #[error("occurs a second time")]
    Duplicate,
    /// Members are sent in ascending order of id, so that one pool has one encoding.
    #[error("is not in ascending order of id")]
    Order,
    /// The interface ids of a lease are 1 to 2³² - 1 and at least one.
    #[error("is no range of interface ids (first {first}, count {count})")]
    VmiRange {
        /// The first id.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A range of ports ends at its end, and within 65535.
    #[error("is no range of ports ({first} to {last})")]
    PortRange {
        /// The first port.
        first: u32,
        /// The last.
        last: u32,
    },
    /// A policy's priority is at most 1000; in the namespace's tier there is none.
    #[error("is no priority of this tier ({0})")]
    Priority(u32),
    /// A policy of the namespace's tier only allows.
    #[error("is an action that the tier does not have")]
    TierAction,
    /// A number that its type does not take.
    #[error(transparent)]
    Value(#[from] ObjectError),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in [&self.object, &self.field] {
            if !place.is_empty() {
                write!(f, "{place}: ")?;
            }
        }
        self.problem.fmt(f)
    }
}

impl ConvertError {
    /// The object, such as `floating ip 7 (default/web)`; empty for a value on its own.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// Path of the field, such as `listeners[0].port`; empty: the object as a whole.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The same, found in the object with this name.
    pub(super) fn of(mut self, object: impl Into<String>) -> Self {
        self.object = object.into();
        self
    }

    /// The same, found one level deeper than `field`.
    pub(super) fn within(mut self, field: impl fmt::Display) -> Self {
        let dot = if self.field.is_empty() { "" } else { "." };
        self.field = format!("{field}{dot}{}", self.field);
        self
    }
}

impl From<Problem> for ConvertError {
    fn from(problem: Problem) -> Self {
        Self { object: String::new(), field: String::new(), problem }
    }
}

impl From<ObjectError> for ConvertError {
    fn from(error: ObjectError) -> Self {
        Problem::Value(error).into()
    }
}

/// Says in which field something went wrong.
pub(super) trait Within<T> {
    /// Names the field, where this is an error.
    fn within(self, field: impl fmt::Display) -> Result<T, ConvertError>;
}

impl<T, E: Into<ConvertError>> Within<T> for Result<T, E> {
    fn within(self, field: impl fmt::Display) -> Result<T, ConvertError> {
        self.map_err(|error| error.into().within(field))
    }
}

impl<T> Within<T> for Option<T> {
    /// What is not there is missing.
    fn within(self, field: impl fmt::Display) -> Result<T, ConvertError> {
        self.ok_or(Problem::Missing).within(field)
    }
}

/// Each element of a repeated field; what is wrong with one is said with its place.
pub(super) fn each<M, T, E: Into<ConvertError>>(
    field: &str,
    messages: &[M],
    convert: impl Fn(&M) -> Result<T, E>,
) -> Result<Vec<T>, ConvertError> {
    let place = |(index, message)| convert(message).within(format_args!("{field}[{index}]"));
    messages.iter().enumerate().map(place).collect()
}
