//! Addresses, prefixes, MAC addresses and names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use vrouter_objects::{MacAddress, PodName};

use super::error::{ConvertError, Problem, Within};
use crate::v1;

impl From<IpAddr> for v1::Address {
    fn from(address: IpAddr) -> Self {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        Self { octets }
    }
}

impl TryFrom<&v1::Address> for IpAddr {
    type Error = ConvertError;

    fn try_from(message: &v1::Address) -> Result<Self, ConvertError> {
        let octets = message.octets.as_slice();
        if let Ok(octets) = <[u8; 4]>::try_from(octets) {
            return Ok(Ipv4Addr::from(octets).into());
        }
        let octets = <[u8; 16]>::try_from(octets).map_err(|_| Problem::AddressLength(octets.len()))?;
        let address = Ipv6Addr::from(octets);
        match address.to_ipv4_mapped() {
            Some(_) => Err(Problem::Ipv4Mapped.into()),
            None => Ok(address.into()),
        }
    }
}

impl From<IpNet> for v1::Prefix {
    fn from(prefix: IpNet) -> Self {
        Self { address: Some(prefix.addr().into()), length: prefix.prefix_len().into() }
    }
}

impl TryFrom<&v1::Prefix> for IpNet {
    type Error = ConvertError;

    fn try_from(message: &v1::Prefix) -> Result<Self, ConvertError> {
        let address = address(message.address.as_ref()).within("address")?;
        let too_long = Problem::PrefixLength(message.length);
        let length = u8::try_from(message.length).map_err(|_| too_long.clone()).within("length")?;
        let prefix = IpNet::new(address, length).map_err(|_| too_long).within("length")?;
        if prefix.addr() != prefix.network() {
            return Err(Problem::HostBits.into());
        }
        Ok(prefix)
    }
}

impl From<&PodName> for v1::PodName {
    fn from(pod: &PodName) -> Self {
        Self { namespace: pod.namespace.clone(), name: pod.name.clone() }
    }
}

impl TryFrom<v1::PodName> for PodName {
    type Error = ConvertError;

    fn try_from(message: v1::PodName) -> Result<Self, ConvertError> {
        name_part(&message.namespace).within("namespace")?;
        name_part(&message.name).within("name")?;
        Ok(Self { namespace: message.namespace, name: message.name })
    }
}

/// A MAC address as it travels: 6 bytes.
pub fn mac_to_bytes(mac: MacAddress) -> Vec<u8> {
    mac.0.to_vec()
}

/// One interface's MAC address that travelled.
pub fn mac_from_bytes(bytes: &[u8]) -> Result<MacAddress, ConvertError> {
    let octets = <[u8; 6]>::try_from(bytes).map_err(|_| Problem::MacLength(bytes.len()))?;
    let mac = MacAddress(octets);
    if mac.is_multicast() { Err(Problem::MulticastMac.into()) } else { Ok(mac) }
}

/// Any address, which must be there.
pub(super) fn address(message: Option<&v1::Address>) -> Result<IpAddr, ConvertError> {
    message.ok_or(Problem::Missing)?.try_into()
}

/// The address of one host, which must be there.
pub(super) fn unicast(message: Option<&v1::Address>) -> Result<IpAddr, ConvertError> {
    let address = address(message)?;
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err(Problem::NotUnicast.into());
    }
    Ok(address)
}

/// A prefix, which must be there.
pub(super) fn prefix(message: Option<&v1::Prefix>) -> Result<IpNet, ConvertError> {
    message.ok_or(Problem::Missing)?.try_into()
}

/// A name that must not be empty.
pub(super) fn name(text: String) -> Result<String, ConvertError> {
    if text.is_empty() { Err(Problem::Missing.into()) } else { Ok(text) }
}

fn name_part(text: &str) -> Result<(), Problem> {
    if text.is_empty() || text.contains('/') { Err(Problem::NamePart) } else { Ok(()) }
}
