//! Giving out addresses and interface ids from the blocks the controller leased to this node, so that a pod can start
//! while the controller is away. Pure: whoever calls keeps what was used.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;
use vrouter_objects::{AddressLease, LeaseId, VmiId, VrfId};

/// Why no address or no interface id could be given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressingError {
    /// Nothing is leased to this node in that network.
    #[error("no addresses of vrf {0} are leased to this node yet")]
    NoLease(VrfId),
    /// Every address of every lease of one family is in use.
    #[error("all addresses of {} in vrf {vrf} are in use", prefixes.join(", "))]
    Exhausted {
        /// The network.
        vrf: VrfId,
        /// The leases.
        prefixes: Vec<String>,
    },
    /// Nothing is leased to this node in any network.
    #[error("no interface ids are leased to this node yet")]
    NoVmi,
    /// Every interface id of every lease has been given once.
    #[error("all interface ids leased to this node have been given")]
    NoVmiLeft,
}

/// The leases, and how far they were used up.
#[derive(Debug, Default)]
pub struct Addressing {
    leases: BTreeMap<LeaseId, AddressLease>,
    used: Used,
}

/// How far leases were used up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// The lowest interface id that was not given yet, one beyond the last `u32` where all were. Ranges that are leased
    /// anew lie above those before, so whatever is below was given, or never will be.
    pub next_vmi: u64,
    /// The address of each lease that was given last; the next one is looked for behind it.
    pub last_address: BTreeMap<LeaseId, IpAddr>,
}

/// What a new interface gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The interface.
    pub vmi: VmiId,
    /// One address per family that is leased, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

impl Addressing {
    /// Goes on from what was used before.
    pub fn new(used: Used) -> Self {
        Self { leases: BTreeMap::new(), used }
    }

    /// A lease was given, or has changed.
    pub fn put(&mut self, lease: AddressLease) {
        self.leases.insert(lease.id, lease);
    }

    /// A lease is no longer ours. How far it was used stays known: it may come back.
    pub fn remove(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
    }

    /// How far the leases were used up, to be kept before a grant is used.
    pub fn used(&self) -> &Used {
        &self.used
    }

    /// The network a pod goes into when nobody says which: that of the first lease.
    pub fn default_network(&self) -> Option<VrfId> {
        self.leases.values().next().map(|lease| lease.vrf)
    }

    /// An interface id, and one address per family that is leased in this address space and is not `taken`; nothing is
    /// used up where this fails.
    pub fn grant(&mut self, space: VrfId, taken: impl Fn(IpAddr) -> bool) -> Result<Grant, AddressingError> {
        let found = [self.find(space, Family::V4, &taken)?, self.find(space, Family::V6, &taken)?];
        let found: Vec<_> = found.into_iter().flatten().collect();
        if found.is_empty() {
            return Err(AddressingError::NoLease(space));
        }
        let vmi = self.take_vmi()?;
        self.used.last_address.extend(found.iter().copied());
        Ok(Grant { vmi, addresses: found.into_iter().map(|(_, address)| address).collect() })
    }

    /// An interface id alone, for an interface whose addresses the controller chose. It is of any lease: ids are the
    /// node's, whatever network they are used in.
    pub fn take_vmi(&mut self) -> Result<VmiId, AddressingError> {
        if self.leases.is_empty() {
            return Err(AddressingError::NoVmi);
        }
        let left = self.leases.values().filter_map(|lease| {
            let first = u64::from(lease.first_vmi);
            let free = self.used.next_vmi.max(first);
            (free < first + u64::from(lease.vmi_count)).then_some(free)
        });
        let vmi = left.min().and_then(|id| u32::try_from(id).ok()).and_then(|id| VmiId::new(id).ok());
        let vmi = vmi.ok_or(AddressingError::NoVmiLeft)?;
        self.used.next_vmi = u64::from(vmi.get()) + 1;
        Ok(vmi)
    }

    /// The next free address of one family; `None` where none of this family is leased.
    fn find(
        &self,
        vrf: VrfId,
        family: Family,
        taken: &impl Fn(IpAddr) -> bool,
    ) -> Result<Option<(LeaseId, IpAddr)>, AddressingError> {
        let is_fitting = |lease: &&AddressLease| lease.vrf == vrf && Family::of(&lease.prefix) == family;
        let leases: Vec<_> = self.leases.values().filter(is_fitting).collect();
        for lease in &leases {
            let last = self.used.last_address.get(&lease.id).copied();
            if let Some(address) = next_free(&lease.prefix, last, taken) {
                return Ok(Some((lease.id, address)));
            }
        }
        if leases.is_empty() {
            return Ok(None);
        }
        let prefixes = leases.iter().map(|lease| lease.prefix.to_string()).collect();
        Err(AddressingError::Exhausted { vrf, prefixes })
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(prefix: &IpNet) -> Self {
        match prefix {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }
}

/// The first free address behind `last`, going round once.
fn next_free(prefix: &IpNet, last: Option<IpAddr>, taken: &impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let hosts = Hosts::of(prefix);
    let start = last.and_then(|last| hosts.offset(last)).map_or(0, |offset| offset + 1);
    hosts.round(start).find(|address| !taken(*address))
}

/// The addresses of a prefix that a host may have: not the network's own nor, for IPv4, the broadcast address — save in
/// prefixes too small to have them (RFC 3021, RFC 6164).
pub(crate) struct Hosts {
    family: Family,
    first: u128,
    count: u128,
}

impl Hosts {
    pub(crate) fn of(prefix: &IpNet) -> Self {
        let family = Family::of(prefix);
        let host_bits = prefix.max_prefix_len() - prefix.prefix_len();
        let size = 1u128.checked_shl(host_bits.into()).unwrap_or(u128::MAX);
        let network = number(prefix.network());
        match (host_bits, family) {
            (0 | 1, _) => Self { family, first: network, count: size },
            (_, Family::V4) => Self { family, first: network + 1, count: size - 2 },
            (_, Family::V6) => Self { family, first: network + 1, count: size - 1 },
        }
    }

    /// All of them once, from this one on.
    pub(crate) fn round(&self, start: u128) -> impl Iterator<Item = IpAddr> {
        // Even the smallest prefix has one.
        let start = start % self.count;
        (start..self.count).chain(0..start).map(|offset| self.at(offset))
    }

    fn at(&self, offset: u128) -> IpAddr {
        let number = self.first + offset;
        match self.family {
            // An IPv4 prefix has no numbers beyond 32 bits.
            Family::V4 => Ipv4Addr::from(number as u32).into(),
            Family::V6 => Ipv6Addr::from(number).into(),
        }
    }

    fn offset(&self, address: IpAddr) -> Option<u128> {
        number(address).checked_sub(self.first).filter(|offset| *offset < self.count)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn vrf(number: u32) -> VrfId {
        VrfId::new(number).unwrap()
    }

    fn lease(id: u32, prefix: &str, first_vmi: u32, vmi_count: u32) -> AddressLease {
        let prefix = prefix.parse().unwrap();
        AddressLease { id: LeaseId::new(id).unwrap(), vrf: vrf(1), prefix, first_vmi, vmi_count }
    }

    fn addressing(leases: &[AddressLease]) -> Addressing {
        let mut addressing = Addressing::default();
        leases.iter().cloned().for_each(|lease| addressing.put(lease));
        addressing
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_per_family_behind_the_last_one_and_round_again() {
        let mut addressing =
            addressing(&[lease(1, "10.244.0.0/29", 1, 100), lease(2, "fd00:10:244::/64", 101, 100)]);
        let gateway = ip("10.244.0.1");
        let mut held = HashSet::from([gateway]);
        let mut given = Vec::new();
        for number in 0..5 {
            let grant = addressing.grant(vrf(1), |address| held.contains(&address)).unwrap();
            assert_eq!(grant.vmi.get(), number + 1);
            assert_eq!(grant.addresses.len(), 2);
            held.extend(&grant.addresses);
            given.push(grant.addresses[0]);
        }
        assert_eq!(given, ["10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5", "10.244.0.6"].map(ip));

        let full = addressing.grant(vrf(1), |address| held.contains(&address)).unwrap_err();
        assert_eq!(full.to_string(), "all addresses of 10.244.0.0/29 in vrf 1 are in use");
        assert_eq!(addressing.used().next_vmi, 6, "a failure uses up no id");

        held.remove(&ip("10.244.0.6"));
        held.remove(&ip("10.244.0.3"));
        let grant = addressing.grant(vrf(1), |address| held.contains(&address)).unwrap();
        assert_eq!(grant.addresses[0], ip("10.244.0.3"), "the one freed last is not used at once");
    }

    #[test]
    fn hosts_of_a_prefix() {
        for (prefix, first, last) in [
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.254"),
            ("10.0.0.4/31", "10.0.0.4", "10.0.0.5"),
            ("10.0.0.4/32", "10.0.0.4", "10.0.0.4"),
            ("0.0.0.0/0", "0.0.0.1", "255.255.255.254"),
            ("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff"),
            ("fd00::4/127", "fd00::4", "fd00::5"),
            ("fd00::4/128", "fd00::4", "fd00::4"),
        ] {
            let hosts = Hosts::of(&prefix.parse().unwrap());
            assert_eq!((hosts.at(0), hosts.at(hosts.count - 1)), (ip(first), ip(last)), "{prefix}");
        }
        assert!(Hosts::of(&"::/0".parse().unwrap()).count > u128::from(u64::MAX));
    }

    #[test]
    fn no_lease_no_ids_and_a_second_lease() {
        let mut addressing = addressing(&[lease(1, "10.244.0.0/30", 1, 1)]);
        assert_eq!(addressing.grant(vrf(2), |_| false), Err(AddressingError::NoLease(vrf(2))));
        assert_eq!(Addressing::default().take_vmi(), Err(AddressingError::NoVmi));
        addressing.grant(vrf(1), |_| false).unwrap();
        assert_eq!(addressing.grant(vrf(1), |_| false), Err(AddressingError::NoVmiLeft));

        addressing.put(lease(2, "10.244.1.0/30", u32::MAX, 1));
        let grant = addressing.grant(vrf(1), |address| address < ip("10.244.1.0")).unwrap();
        assert_eq!((grant.vmi.get(), grant.addresses), (u32::MAX, vec![ip("10.244.1.1")]));
        assert_eq!(addressing.take_vmi(), Err(AddressingError::NoVmiLeft));
    }

    #[test]
    fn what_was_used_is_remembered_over_a_restart_and_a_withdrawn_lease() {
        let mut before = addressing(&[lease(1, "10.244.0.0/24", 1, 100)]);
        before.grant(vrf(1), |_| false).unwrap();
        let mut after = Addressing::new(before.used().clone());
        after.put(lease(1, "10.244.0.0/24", 1, 100));
        after.remove(LeaseId::new(1).unwrap());
        assert_eq!(after.default_network(), None);
        after.put(lease(1, "10.244.0.0/24", 1, 100));
        let grant = after.grant(vrf(1), |_| false).unwrap();
        assert_eq!((grant.vmi.get(), grant.addresses), (2, vec![ip("10.244.0.2")]));

        after.put(lease(1, "10.244.0.0/24", 500, 100));
        assert_eq!(after.take_vmi().unwrap().get(), 500, "another range starts at its own first id");
    }

    #[test]
    fn an_id_of_an_older_range_is_never_given_again() {
        let older = lease(1, "10.244.0.0/24", 1, 100);
        let mut before = addressing(std::slice::from_ref(&older));
        before.take_vmi().unwrap();
        before.put(lease(1, "10.244.0.0/24", 500, 100));
        before.take_vmi().unwrap();
        // The tables on disk are older than what was written down of their use.
        let mut after = Addressing::new(before.used().clone());
        after.put(older);
        assert_eq!(after.take_vmi(), Err(AddressingError::NoVmiLeft));
        after.put(lease(1, "10.244.0.0/24", 500, 100));
        assert_eq!(after.take_vmi().unwrap().get(), 501);
    }

    #[test]
    fn ranges_are_used_in_ascending_order_whatever_network_they_came_with() {
        let mut other = lease(3, "10.99.0.0/24", 50, 1);
        other.vrf = vrf(2);
        let mut addressing =
            addressing(&[lease(1, "10.244.0.0/24", 300, 1), lease(2, "fd00::/64", 200, 1), other]);
        let given: Vec<_> = (0..3).map(|_| addressing.take_vmi().unwrap().get()).collect();
        assert_eq!(given, [50, 200, 300]);
        assert_eq!(addressing.take_vmi(), Err(AddressingError::NoVmiLeft));
    }

    proptest! {
        /// Whatever comes and goes, with restarts in between: no two interfaces have one address, no id comes twice.
        #[test]
        fn never_two_pods_with_one_address(
            steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 1..200),
        ) {
            let leases = [lease(1, "10.244.0.0/28", 1, 1000), lease(2, "fd00::/124", 2000, 1000)];
            let mut addressing = addressing(&leases);
            let mut pods: Vec<Grant> = Vec::new();
            let mut ids = HashSet::new();
            for (step, index) in steps {
                match step {
                    0 => {
                        let held: HashSet<_> = pods.iter().flat_map(|pod| pod.addresses.clone()).collect();
                        match addressing.grant(vrf(1), |address| held.contains(&address)) {
                            Ok(grant) => {
                                prop_assert!(grant.addresses.iter().all(|address| !held.contains(address)));
                                prop_assert!(ids.insert(grant.vmi));
                                pods.push(grant);
                            }
                            Err(_) => prop_assert_eq!(pods.len(), 14),
                        }
                    }
                    1 if !pods.is_empty() => {
                        pods.swap_remove(index.index(pods.len()));
                    }
                    _ => {
                        addressing = Addressing::new(addressing.used().clone());
                        leases.iter().cloned().for_each(|lease| addressing.put(lease));
                    }
                }
            }
        }
    }
}
