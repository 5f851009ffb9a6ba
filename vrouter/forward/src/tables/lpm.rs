//! Longest-prefix match: one hash map over (prefix, length), tried from the longest length in use to the shortest.
//!
//! A VRF of a cluster has a handful of lengths (host routes, node blocks, service prefixes, a default), so a lookup
//! is a handful of hash look-ups, and copies of the table share everything that did not change.

use vrouter_objects::{IpNet, NextHop};

use super::sharded::Sharded;
use crate::address::{Address, Family};

/// The routes of one VRF.
#[derive(Debug, Clone)]
pub(super) struct RouteTable {
    routes: Sharded<(Address, u8), NextHop>,
    v4: Lengths,
    v6: Lengths,
}

/// The prefix lengths in use by one family, longest first, with how many routes have each.
#[derive(Debug, Clone, Default)]
struct Lengths(Vec<(u8, u32)>);

impl Lengths {
    fn add(&mut self, length: u8) {
        match self.0.binary_search_by(|(other, _)| length.cmp(other)) {
            Ok(position) => self.0[position].1 += 1,
            Err(position) => self.0.insert(position, (length, 1)),
        }
    }

    fn remove(&mut self, length: u8) {
        if let Ok(position) = self.0.binary_search_by(|(other, _)| length.cmp(other)) {
            self.0[position].1 -= 1;
            if self.0[position].1 == 0 {
                self.0.remove(position);
            }
        }
    }
}

/// The first `length` of 128 bits.
#[inline]
fn masked(address: Address, length: u8) -> Address {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    Address::from_bits(address.bits() & mask)
}

/// A prefix in 128 bits: an IPv4 prefix's length grows by 96.
fn widened(prefix: IpNet) -> (Address, u8) {
    let length = prefix.prefix_len() + if prefix.addr().is_ipv4() { 96 } else { 0 };
    (masked(prefix.addr().into(), length), length)
}

impl RouteTable {
    pub(super) fn new() -> Self {
        Self { routes: Sharded::new(), v4: Lengths::default(), v6: Lengths::default() }
    }

    fn lengths_mut(&mut self, prefix: IpNet) -> &mut Lengths {
        if prefix.addr().is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }

    pub(super) fn insert(&mut self, prefix: IpNet, next_hop: NextHop) {
        let key = widened(prefix);
        if self.routes.insert(key, next_hop).is_none() {
            self.lengths_mut(prefix).add(key.1);
        }
    }

    pub(super) fn remove(&mut self, prefix: IpNet) {
        let key = widened(prefix);
        if self.routes.remove(&key).is_some() {
            self.lengths_mut(prefix).remove(key.1);
        }
    }

    /// The next hop of exactly this prefix.
    pub(super) fn exact(&self, prefix: IpNet) -> Option<&NextHop> {
        self.routes.get(&widened(prefix))
    }

    /// The next hop of the longest prefix that holds the address.
    #[inline]
    pub(super) fn lookup(&self, address: Address) -> Option<&NextHop> {
        let lengths = match address.family() {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        lengths.0.iter().find_map(|(length, _)| self.routes.get(&(masked(address, *length), *length)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use vrouter_objects::VrfId;

    use super::*;

    fn hop(number: u32) -> NextHop {
        NextHop::VrfTranslate(VrfId::new(number + 1).unwrap())
    }

    fn naive(routes: &[(IpNet, NextHop)], address: IpAddr) -> Option<&NextHop> {
        let holding = routes.iter().filter(|(prefix, _)| prefix.contains(&address));
        holding.max_by_key(|(prefix, _)| prefix.prefix_len()).map(|(_, next_hop)| next_hop)
    }

    fn any_net() -> impl Strategy<Value = IpNet> {
        // A small address space, so that prefixes overlap and addresses hit.
        prop_oneof![
            (any::<u8>(), 0..=32_u8).prop_map(|(low, length)| {
                IpNet::new(IpAddr::from([10, 0, low, low]), length).unwrap().trunc()
            }),
            (any::<u8>(), 0..=128_u8).prop_map(|(low, length)| {
                let low = u16::from(low);
                IpNet::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, low, low]), length).unwrap().trunc()
            }),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_search(
            nets in proptest::collection::vec(any_net(), 1..40),
            removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
            low in any::<u8>(),
        ) {
            let mut table = RouteTable::new();
            let mut routes: Vec<(IpNet, NextHop)> = Vec::new();
            for (number, net) in nets.iter().enumerate() {
                table.insert(*net, hop(number as u32));
                routes.retain(|(other, _)| other != net);
                routes.push((*net, hop(number as u32)));
            }
            for index in removed {
                let net = *index.get(&nets);
                table.remove(net);
                routes.retain(|(other, _)| *other != net);
            }
            let low16 = u16::from(low);
            for address in [IpAddr::from([10, 0, low, low]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, low16, low16])] {
                prop_assert_eq!(table.lookup(address.into()), naive(&routes, address));
            }
        }
    }
}
