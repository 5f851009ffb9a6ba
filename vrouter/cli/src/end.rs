//! The ends of a connection, as people write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use vrouter_objects::{FloatingIp, IpProtocol, Listener, PodName, Port, ServiceProtocol};

/// Somebody who can begin a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Party {
    /// A pod.
    Pod(PodName),
    /// Whoever has this address.
    Address(IpAddr),
}

/// Somebody whom a connection can be to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A pod, or whoever has an address.
    Party(Party),
    /// A Service, `namespace/name`.
    Service(String),
}

/// What a connection is to at its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedPort {
    /// ICMP of the family in question.
    Icmp,
    /// A port.
    Port(ServiceProtocol, Port),
}

impl AskedPort {
    /// The protocol's number, for one address family.
    pub fn protocol(self, address: IpAddr) -> IpProtocol {
        match self {
            Self::Icmp if address.is_ipv4() => IpProtocol::ICMP,
            Self::Icmp => IpProtocol::ICMPV6,
            Self::Port(protocol, _) => protocol.into(),
        }
    }

    /// The port; 0 where there is none.
    pub fn number(self) -> u16 {
        match self {
            Self::Icmp => 0,
            Self::Port(_, port) => port.get(),
        }
    }

    /// A service's listener there.
    pub fn listener_of(self, service: &FloatingIp) -> Option<&Listener> {
        let Self::Port(protocol, port) = self else { return None };
        service.listeners.iter().find(|own| (own.protocol, own.port) == (protocol, port))
    }
}

impl fmt::Display for AskedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Icmp => f.write_str("ICMP"),
            Self::Port(protocol, port) => write!(f, "{protocol} {port}"),
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(pod) => pod.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Party(party) => party.fmt(f),
            Self::Service(name) => write!(f, "service {name}"),
        }
    }
}

impl FromStr for Party {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        text.parse().map(Self::Pod).map_err(|_| format!("\"{text}\" is neither namespace/pod nor an address"))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("service/").map(str::parse::<PodName>) {
            // What has two parts is a pod, whatever its namespace is called.
            Some(Ok(service)) => Ok(Self::Service(service.to_string())),
            _ => text.parse().map(Self::Party).map_err(|_: String| {
                format!("\"{text}\" is none of namespace/pod, service/namespace/name and an address")
            }),
        }
    }
}

impl FromStr for AskedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("icmp") {
            return Ok(Self::Icmp);
        }
        let (number, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
        let protocol = protocol
            .to_ascii_uppercase()
            .parse()
            .map_err(|_| format!("\"{protocol}\" is none of tcp, udp and sctp"))?;
        let port = number.parse().ok().and_then(|number| Port::new(number).ok());
        port.map(|port| Self::Port(protocol, port))
            .ok_or_else(|| format!("\"{number}\" is neither icmp nor a port from 1 to 65535"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_as_people_write_them() {
        let pod = |namespace: &str, name: &str| {
            Party::Pod(PodName { namespace: namespace.to_owned(), name: name.to_owned() })
        };
        let address = |text: &str| Party::Address(text.parse().unwrap());
        for (text, expected) in [
            ("shop/web", Target::Party(pod("shop", "web"))),
            ("service/web", Target::Party(pod("service", "web"))),
            ("service/shop/web", Target::Service("shop/web".to_owned())),
            ("10.244.0.5", Target::Party(address("10.244.0.5"))),
            ("fd00::5", Target::Party(address("fd00::5"))),
            ("::ffff:10.244.0.5", Target::Party(address("10.244.0.5"))),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["web", "a/b/c", "service/a/", "service//b", "10.244.0.300", ""] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let error = "service/a/b".parse::<Party>().unwrap_err();
        assert_eq!(error, "\"service/a/b\" is neither namespace/pod nor an address");
    }

    #[test]
    fn ports_are_tcps_unless_said_otherwise() {
        let port = |protocol, number| AskedPort::Port(protocol, Port::new(number).unwrap());
        for (text, expected) in [
            ("80", port(ServiceProtocol::Tcp, 80)),
            ("53/udp", port(ServiceProtocol::Udp, 53)),
            ("9/SCTP", port(ServiceProtocol::Sctp, 9)),
            ("ICMP", AskedPort::Icmp),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["0", "65536", "80/icmp", "http", "/tcp", "80/", ""] {
            assert!(text.parse::<AskedPort>().is_err(), "{text}");
        }
        let of = |address: &str| AskedPort::Icmp.protocol(address.parse().unwrap());
        assert_eq!((of("10.0.0.1"), of("fd00::1")), (IpProtocol::ICMP, IpProtocol::ICMPV6));
    }
}
