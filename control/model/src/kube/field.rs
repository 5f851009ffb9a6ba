//! Reading single fields.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{ObjectError, ServiceProtocol};

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
    let special = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    special || address.is_unspecified() || address.is_loopback() || address.is_multicast()
}

/// A prefix, whose host bits are ignored.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    text.trim()
        .parse::<IpNet>()
        .map(|prefix| prefix.trunc())
        .map_err(|_| format!("\"{text}\" is not a prefix"))
}

/// A protocol; absent it is TCP.
pub fn protocol(text: Option<&str>) -> Result<ServiceProtocol, ObjectError> {
    text.map_or(Ok(ServiceProtocol::Tcp), str::parse)
}
