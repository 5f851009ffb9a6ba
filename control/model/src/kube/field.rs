//! Reading single fields.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{ObjectError, ServiceProtocol};

use crate::family;

/// An address as Kubernetes writes it.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.trim().parse().map_err(|_| format!("\"{text}\" is not an IP address"))
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
    text.trim()
        .parse::<IpNet>()
        .map(|prefix| prefix.trunc())
        .map_err(|_| format!("\"{text}\" is not a prefix"))
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
