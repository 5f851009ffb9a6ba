//! Addresses that mean something else in each address space.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vrouter_objects::VrfId;

/// An address of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SpacedAddress {
    /// The network whose addresses these are.
    pub space: VrfId,
    /// The address.
    pub address: IpAddr,
}

impl fmt::Display for SpacedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.address)
    }
}

impl FromStr for SpacedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is not space/address");
        // Before there were others, all were the cluster's own service network's, which is VRF 2.
        let (space, address) = text.split_once('/').unwrap_or(("2", text));
        let space = space.parse().ok().and_then(|number| VrfId::new(number).ok()).ok_or_else(bad)?;
        Ok(Self { space, address: address.parse().map_err(|_| bad())? })
    }
}

impl From<SpacedAddress> for String {
    fn from(address: SpacedAddress) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for SpacedAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
