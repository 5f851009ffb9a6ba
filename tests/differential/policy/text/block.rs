//! Ranges of addresses in CIDR notation, read bit by bit.

use std::net::IpAddr;

use k8s_openapi::api::networking::v1::IPBlock;

/// A range of addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    address: IpAddr,
    length: u32,
}

impl Range {
    /// Reads CIDR notation; `None`: it is none.
    pub fn read(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
        (length <= bits(address).1).then_some(Self { address, length })
    }

    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        let ((own, width), (other, _)) = (bits(self.address), bits(address));
        let differ = (own ^ other).checked_shr(width - self.length).unwrap_or(0);
        self.address.is_ipv4() == address.is_ipv4() && differ == 0
    }

    fn is_inside(self, other: Self) -> bool {
        other.contains(self.address) && self.length > other.length
    }
}

/// Whether a block means an address. "Except values will be rejected if they are outside the cidr range": a block with one
/// means nobody.
pub fn means(block: &IPBlock, address: IpAddr) -> bool {
    let Some(range) = Range::read(&block.cidr) else { return false };
    let except: Option<Vec<Range>> = block.except.iter().flatten().map(|text| Range::read(text)).collect();
    let Some(except) = except.filter(|list| list.iter().all(|range_out| range_out.is_inside(range))) else {
        return false;
    };
    range.contains(address) && !except.iter().any(|range| range.contains(address))
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}
