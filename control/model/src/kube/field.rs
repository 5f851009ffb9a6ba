//! Reading single fields.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{ObjectError, ServiceProtocol};

use crate::family;

/// An address as Kubernetes writes it.
pub fn address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.trim().parse().map_err(|_| format!("\"{text}\" is not an IP address"))?;
    match address.to_canonical() {
        plain if plain == address => Ok(address),
        plain => Err(format!("{address} means {plain}, and must be written so")),
    }
}

/// An address that an endpoint or a node may have.
pub fn endpoint_address(text: &str) -> Result<IpAddr, String> {
    let address = address(text)?;
    if is_special(address) { Err(format!("{address} cannot be an endpoint's address")) } else { Ok(address) }
}

/// An address at which a Service may be reached from outside.
pub fn external_address(text: &str) -> Result<IpAddr, String> {
    let address = address(text)?;
    if is_special(address) { Err(format!("{address} cannot be a Service's address")) } else { Ok(address) }
}

/// Whether an address means "here", "everybody" or "nobody", and so no single peer.
fn is_special(address: IpAddr) -> bool {
    let is_link_local = matches!(address, IpAddr::V4(address) if address.is_link_local());
    is_link_local || !family::is_routed(address)
}

/// A prefix, whose host bits are ignored.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let prefix: IpNet = text.trim().parse().map_err(|_| format!("\"{text}\" is not a prefix"))?;
    if prefix.addr().to_canonical() != prefix.addr() {
        // To packets, these are addresses of IPv4.
        return Err(format!("{prefix} means addresses of IPv4, and must be written so"));
    }
    Ok(prefix.trunc())
}

/// A prefix of interfaces: it has room for one beside its gateway, and means neither "here" nor "everybody".
pub fn pod_prefix(text: &str) -> Result<IpNet, String> {
    let prefix = prefix(text)?;
    if prefix.prefix_len() + 2 > prefix.max_prefix_len() {
        Err(format!("{prefix} has no room for pods: it must be at least a /{}", prefix.max_prefix_len() - 2))
    } else if is_special(prefix.network()) || is_special(prefix.broadcast()) {
        Err(format!("{prefix} is no prefix that pods can have"))
    } else {
        Ok(prefix)
    }
}

/// A protocol; absent it is TCP.
pub fn protocol(text: Option<&str>) -> Result<ServiceProtocol, ObjectError> {
    text.map_or(Ok(ServiceProtocol::Tcp), str::parse)
}

/// The name of a container's port, which has at least one letter (RFC 6335): a number in quotes is a slip.
pub fn port_name(name: &str) -> Result<String, String> {
    if name.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        Ok(name.to_owned())
    } else {
        Err(format!("\"{name}\" is not a port's name; a number stands without quotes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a packet bears is IPv4, whatever the text looks like: taken for IPv6, it would match nothing.
    #[test]
    fn ipv4_in_the_clothes_of_ipv6_is_refused() {
        assert!(address("10.0.0.1").is_ok() && address("2001:db8::10.0.0.1").is_ok());
        assert!(address("::ffff:10.0.0.1").unwrap_err().contains("means 10.0.0.1"));
        assert!(prefix("10.0.0.0/8").is_ok() && prefix("::/0").is_ok() && prefix("2001:db8::/32").is_ok());
        assert!(prefix("::ffff:10.0.0.0/104").unwrap_err().contains("IPv4"));
        assert!(pod_prefix("::ffff:10.0.0.0/104").unwrap_err().contains("IPv4"));
    }
}
