//! Ethernet and 802.1Q.

use vrouter_objects::DropReason;

use super::read_u16;
use crate::address::Family;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
/// Bytes of an Ethernet header without a tag.
pub(crate) const HEADER_LEN: usize = 14;
const TAG_LEN: usize = 4;

/// The EtherType of a family's packets.
pub(crate) const fn ethertype(family: Family) -> u16 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

/// The EtherType and where its packet begins. A priority tag (VLAN 0) is passed over; there are no VLANs in a
/// virtual network, so any other tag is refused.
pub(super) fn parse(frame: &[u8]) -> Result<(u16, usize), DropReason> {
    if frame.len() < HEADER_LEN {
        return Err(DropReason::PacketTruncated);
    }
    if frame[6] & 1 == 1 {
        return Err(DropReason::InvalidEthernet);
    }
    match read_u16(frame, 12) {
        VLAN if frame.len() < HEADER_LEN + TAG_LEN => Err(DropReason::PacketTruncated),
        VLAN if read_u16(frame, 14) & 0x0fff != 0 => Err(DropReason::VlanTagged),
        VLAN => Ok((read_u16(frame, 16), HEADER_LEN + TAG_LEN)),
        ethertype => Ok((ethertype, HEADER_LEN)),
    }
}
