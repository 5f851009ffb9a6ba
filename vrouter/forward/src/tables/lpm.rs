//! Longest-prefix match: one hash map over (prefix, length), tried from the longest length in use to the
//! shortest.
//!
//! A VRF of a cluster has a handful of lengths (host routes, node blocks, service prefixes, a default), so a
//! lookup is a handful of hash look-ups, and copies of the table share everything that did not change.

use vrouter_objects::{IpNet, NextHop};

use super::sharded::Sharded;
use crate::address::{Address, Family};

/// An address and how many of its bits count.
type Prefix = (Address, u8);

/// The routes of one VRF.
#[derive(Debug, Clone)]
pub(super) struct RouteTable {
    routes: Sharded<Prefix, NextHop>,
    v4: Lengths,
    v6: Lengths,
}

/// The prefix lengths in use by one family, longest first.
#[derive(Debug, Clone, Default)]
struct Lengths(Vec<Length>);

/// A prefix length in 128 bits.
#[derive(Debug, Clone, Copy)]
struct Length {
    length: u8,
    /// The bits that a prefix of this length has.
    mask: u128,
    /// How many routes have it.
    routes: u32,
    /// The prefixes of all of them lie from this one to that one: nothing else has to be looked for.
    range: (u128, u128),
}

impl Length {
    fn new(length: u8) -> Self {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { length, mask, routes: 0, range: (u128::MAX, 0) }
    }

    /// The prefix of this length that an address lies in.
    #[inline]
    fn prefix_of(&self, address: Address) -> Prefix {
        (Address::from_bits(address.bits() & self.mask), self.length)
    }

    /// Another route has it, of this prefix.
    fn add(&mut self, prefix: Address) {
        let (first, last) = self.range;
        self.range = (first.min(prefix.bits()), last.max(prefix.bits()));
        self.routes += 1;
    }

    /// Whether a route of this prefix may be there.
    #[inline]
    fn may_have(&self, (prefix, _): Prefix) -> bool {
        let (first, last) = self.range;
        (first..=last).contains(&prefix.bits())
    }
}

impl Lengths {
    fn position(&self, length: u8) -> Result<usize, usize> {
        self.0.binary_search_by(|other| length.cmp(&other.length))
    }

    fn add(&mut self, (prefix, length): Prefix) {
        let position = self.position(length).unwrap_or_else(|position| {
            self.0.insert(position, Length::new(length));
            position
        });
        self.0[position].add(prefix);
    }

    fn remove(&mut self, length: u8) {
        if let Ok(position) = self.position(length) {
            self.0[position].routes -= 1;
            if self.0[position].routes == 0 {
                self.0.remove(position);
            }
        }
    }
}

/// A prefix in 128 bits: an IPv4 prefix's length grows by 96.
fn widened(prefix: IpNet) -> Prefix {
    let length = prefix.prefix_len() + if prefix.addr().is_ipv4() { 96 } else { 0 };
    Length::new(length).prefix_of(prefix.addr().into())
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
            self.lengths_mut(prefix).add(key);
        }
    }

    pub(super) fn remove(&mut self, prefix: IpNet) {
        let key = widened(prefix);
        if self.routes.remove(key).is_some() {
            self.lengths_mut(prefix).remove(key.1);
        }
    }

    /// The next hop of exactly this prefix.
    pub(super) fn exact(&self, prefix: IpNet) -> Option<&NextHop> {
        self.routes.get(widened(prefix))
    }

    /// The next hop of the longest prefix that holds the address.
    #[inline]
    pub(super) fn lookup(&self, address: Address) -> Option<&NextHop> {
        let lengths = match address.family() {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        lengths.0.iter().find_map(|length| {
            let prefix = length.prefix_of(address);
            if length.may_have(prefix) { self.routes.get(prefix) } else { None }
        })
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
            let v4 = IpAddr::from([10, 0, low, low]);
            let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, low16, low16]);
            for address in [v4, v6] {
                prop_assert_eq!(table.lookup(address.into()), naive(&routes, address));
            }
        }
    }
}
