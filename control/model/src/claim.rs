//! What each node has only once, and which service has it: node ports, and the ports of external addresses.
//!
//! Bids that could meet take part in one contest. There they are gone through in a fixed order, and each gets all that it
//! claims, or nothing where somebody before it got a part of that. So the outcome follows from who bids, and not from who
//! came first; nodes never see a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use vrouter_objects::{ExternalAddress, Port, ServiceProtocol};

use crate::allocate::ListenerKey;
use crate::multimap::Multimap;
use crate::{Family, NamespacedName};

/// One thing that only one service can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// A port at all nodes' addresses of a family.
    NodePort(Family, ServiceProtocol, Port),
    /// A port of an external address.
    External(IpAddr, ServiceProtocol, Port),
}

/// What a service wants, as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// What it is.
    pub asset: Asset,
    /// By what right.
    pub basis: Basis,
    /// The field that says so.
    pub field: String,
    /// What it takes; without all of it the service does not get the asset.
    pub claims: Vec<Claim>,
}

/// What can be bid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// A node port of a listener in one family.
    NodePort {
        /// The family.
        family: Family,
        /// The listener.
        listener: ListenerKey,
        /// The port.
        port: Port,
    },
    /// A port at which nodes answer health checks, over both families.
    HealthCheck(Port),
    /// An external address, with all ports of the service.
    External(ExternalAddress),
}

/// By what right a service bids; the better one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// It was picked for the service when nobody else wanted it: who names it later comes too late.
    Picked,
    /// The service names it. Of several that do, the oldest gets it.
    Given,
}

/// Where bids meet. Each bid takes part in one contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Contest {
    NodePort(Port),
    Address(IpAddr),
}

/// The place of a bid in its contest: the least comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    basis: Basis,
    created: Option<Time>,
    service: NamespacedName,
    /// Which of the service's bids it is.
    number: usize,
}

/// One service's bids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    created: Option<Time>,
    bids: Vec<Bid>,
}

/// All bids, and who has what.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<NamespacedName, Entry>,
    contests: Multimap<Contest, Rank>,
    holders: BTreeMap<Contest, BTreeMap<Claim, NamespacedName>>,
    /// Contests whose bids changed since they were last held.
    stirred: BTreeSet<Contest>,
}

impl Ledger {
    /// The service bids for these from now on, and for nothing else.
    pub fn enter(&mut self, service: &NamespacedName, created: Option<Time>, bids: Vec<Bid>) {
        let new = Entry { created, bids };
        let old = self.entries.remove(service).unwrap_or_default();
        if old == new {
            self.put(service, new);
            return;
        }
        for (contest, rank) in old.ranks(service) {
            self.contests.remove(&contest, &rank);
            self.stirred.insert(contest);
        }
        for (contest, rank) in new.ranks(service) {
            self.contests.insert(contest, rank);
            self.stirred.insert(contest);
        }
        self.put(service, new);
    }

    /// Holds the contests whose bids changed. Returns the services that may have won or lost something, or lost it to
    /// somebody else than before.
    pub fn settle(&mut self) -> BTreeSet<NamespacedName> {
        let mut concerned = BTreeSet::new();
        for contest in std::mem::take(&mut self.stirred) {
            let after = self.hold(contest);
            let before = self.holders.remove(&contest).unwrap_or_default();
            for (rank, bid) in self.bids_in(contest) {
                if bid.claims.iter().any(|claim| before.get(claim) != after.get(claim)) {
                    concerned.insert(rank.service.clone());
                }
            }
            if !after.is_empty() {
                self.holders.insert(contest, after);
            }
        }
        concerned
    }

    /// Whether somebody bids for other things than when contests were last held.
    pub fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// Who keeps a service from what it bids for, and from which part of it; `None`: it has it. Of several the one is
    /// named that has the best right.
    pub fn obstacle(&self, service: &NamespacedName, bid: &Bid) -> Option<(Claim, &NamespacedName)> {
        let contest = bid.asset.contest();
        let holders = self.holders.get(&contest)?;
        if bid.claims.iter().all(|claim| holders.get(claim) == Some(service)) {
            return None;
        }
        self.bids_in(contest).find_map(|(rank, other)| {
            let mut held = other.claims.iter().filter(|claim| holders.get(claim) == Some(&rank.service));
            let shared = held.find(|claim| bid.claims.contains(claim))?;
            (rank.service != *service).then_some((*shared, &rank.service))
        })
    }

    /// Whether anybody bids for a node port, in either family.
    pub fn wants_node_port(&self, protocol: ServiceProtocol, port: Port) -> bool {
        let claims = Family::BOTH.map(|family| Claim::NodePort(family, protocol, port));
        self.bids_in(Contest::NodePort(port))
            .any(|(_, bid)| bid.claims.iter().any(|claim| claims.contains(claim)))
    }

    /// Whether anybody bids for an external address, at any port.
    pub fn wants_address(&self, address: IpAddr) -> bool {
        self.bids_in(Contest::Address(address)).next().is_some()
    }

    fn put(&mut self, service: &NamespacedName, entry: Entry) {
        if !entry.bids.is_empty() {
            self.entries.insert(service.clone(), entry);
        }
    }

    fn hold(&self, contest: Contest) -> BTreeMap<Claim, NamespacedName> {
        let mut holders = BTreeMap::new();
        for (rank, bid) in self.bids_in(contest) {
            if !bid.claims.iter().any(|claim| holders.contains_key(claim)) {
                holders.extend(bid.claims.iter().map(|claim| (*claim, rank.service.clone())));
            }
        }
        holders
    }

    /// The bids of a contest, in their order.
    fn bids_in(&self, contest: Contest) -> impl Iterator<Item = (&Rank, &Bid)> {
        let ranks = self.contests.get(&contest);
        ranks.filter_map(|rank| Some((rank, self.entries.get(&rank.service)?.bids.get(rank.number)?)))
    }
}

impl Entry {
    fn ranks(&self, service: &NamespacedName) -> impl Iterator<Item = (Contest, Rank)> {
        self.bids.iter().enumerate().map(|(number, bid)| {
            let (basis, created, service) = (bid.basis, self.created.clone(), service.clone());
            (bid.asset.contest(), Rank { basis, created, service, number })
        })
    }
}

impl Asset {
    fn contest(&self) -> Contest {
        match self {
            Self::NodePort { port, .. } | Self::HealthCheck(port) => Contest::NodePort(*port),
            Self::External(external) => Contest::Address(external.address),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodePort(_, protocol, port) => write!(f, "{protocol}/{port}"),
            Self::External(address, protocol, port) => write!(f, "{address} at {protocol}/{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NamespacedName {
        NamespacedName::new("default", name)
    }

    /// A bid for ports of one address.
    fn bid(basis: Basis, ports: &[i64]) -> Bid {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let claim = |port: &i64| Claim::External(address, ServiceProtocol::Tcp, Port::new(*port).unwrap());
        let kind = vrouter_objects::ExternalKind::ExternalIp;
        let asset = Asset::External(ExternalAddress { address, kind });
        Bid { asset, basis, field: String::new(), claims: ports.iter().map(claim).collect() }
    }

    #[test]
    fn a_bid_gets_all_or_nothing_and_who_got_nothing_is_in_nobodys_way() {
        let mut ledger = Ledger::default();
        let wanted = [("a", vec![80]), ("b", vec![80, 443]), ("c", vec![443]), ("d", vec![443])];
        let has = |ledger: &Ledger| {
            let winners = wanted.iter().filter(|(service, ports)| {
                ledger.obstacle(&name(service), &bid(Basis::Given, ports)).is_none()
            });
            winners.map(|(service, _)| *service).collect::<String>()
        };
        // In the order that has most to undo.
        for (service, ports) in wanted.iter().rev() {
            ledger.enter(&name(service), None, vec![bid(Basis::Given, ports)]);
            ledger.settle();
        }
        assert_eq!(has(&ledger), "ac");
        ledger.enter(&name("a"), None, Vec::new());
        let concerned = ledger.settle();
        assert_eq!(concerned.into_iter().map(|service| service.name).collect::<String>(), "bcd");
        assert_eq!(ledger.obstacle(&name("c"), &bid(Basis::Given, &[443])).unwrap().1, &name("b"));
    }

    #[test]
    fn what_was_picked_is_not_taken_away() {
        let mut ledger = Ledger::default();
        ledger.enter(&name("z"), None, vec![bid(Basis::Picked, &[80])]);
        ledger.enter(&name("a"), None, vec![bid(Basis::Given, &[80])]);
        ledger.settle();
        assert_eq!(ledger.obstacle(&name("a"), &bid(Basis::Given, &[80])).unwrap().1, &name("z"));
        assert!(ledger.settle().is_empty(), "nothing changed");
    }
}
