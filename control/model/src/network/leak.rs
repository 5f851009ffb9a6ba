//! Which pod networks VirtualNetworkRouters connect.
//!
//! What is connected depends on what there is, and not on what came first: routers are gone through by age and then by name,
//! and a pair that would make an address ambiguous in one of its networks is left out.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use vrouter_objects::VrfId;

use super::{NetworkSet, VirtualNetwork, overlap};
use crate::NamespacedName;
use crate::kube::{
    ImportRecord, NAMESPACE_NAME, NamespaceRecord, RouterRecord, RouterType, VirtualNetworkRecord,
};
use crate::problem::Findings;

/// What routers are worked out from.
pub struct Routers<'a> {
    /// The routers.
    pub routers: &'a BTreeMap<NamespacedName, RouterRecord>,
    /// What gives networks their labels.
    pub networks: &'a BTreeMap<NamespacedName, VirtualNetworkRecord>,
    /// What gives namespaces theirs.
    pub namespaces: &'a BTreeMap<String, NamespaceRecord>,
}

/// A router whose type is known.
#[derive(Clone, Copy)]
struct Router<'a> {
    name: &'a NamespacedName,
    record: &'a RouterRecord,
    kind: RouterType,
}

/// Findings of routers.
pub type RouterFindings = BTreeMap<NamespacedName, Findings>;

impl<'a> Routers<'a> {
    /// Connects what they connect.
    pub fn connect(&self, set: &mut NetworkSet) -> RouterFindings {
        let mut findings = RouterFindings::new();
        let routers = self.by_age();
        for router in &routers {
            let found = findings.entry(router.name.clone()).or_default();
            for (one, other) in self.pairs(router, &routers, set, found) {
                match connectable(set, &one, &other) {
                    Ok(Some((one, other))) => set.connect(one, other),
                    Ok(None) => {}
                    Err(obstacle) => found.add_once("spec.virtualNetworkSelector", obstacle),
                }
            }
        }
        findings
    }

    fn by_age(&self) -> Vec<Router<'a>> {
        let known = self.routers.iter();
        let mut routers: Vec<Router<'a>> =
            known.filter_map(|(name, record)| Some(Router { name, record, kind: record.kind? })).collect();
        routers.sort_by_key(|router| (router.record.created.clone(), router.name));
        routers
    }

    /// The pairs of networks that a router connects, in order of their names.
    fn pairs(
        &self,
        router: &Router<'a>,
        all: &[Router<'a>],
        set: &NetworkSet,
        findings: &mut Findings,
    ) -> BTreeSet<(NamespacedName, NamespacedName)> {
        let own = self.selected(router, set);
        let mut others = BTreeSet::new();
        if router.kind == RouterType::Mesh {
            others.extend(own.iter().cloned());
        }
        for other in all.iter().filter(|other| other.name != router.name && self.imports(router, other)) {
            let field = "spec.import.virtualNetworkRouters";
            if !router.kind.joins(other.kind) {
                let message =
                    format!("{} is a {}, which no {} is joined to", other.name, other.kind, router.kind);
                findings.add(field, message);
            } else if !self.imports(other, router) {
                // Each side decides for its own networks.
                findings.add(field, format!("{} does not import this one: they are not joined", other.name));
            } else {
                others.extend(self.selected(other, set));
            }
        }
        let pairs =
            own.iter().flat_map(|one| others.iter().map(move |other| (one.min(other), one.max(other))));
        pairs.filter(|(one, other)| one != other).map(|(one, other)| (one.clone(), other.clone())).collect()
    }

    fn selected(&self, router: &Router<'_>, set: &NetworkSet) -> BTreeSet<NamespacedName> {
        selected_networks(set, self.networks, &router.name.namespace, router.record)
    }

    fn imports(&self, router: &Router<'_>, other: &Router<'_>) -> bool {
        router.record.imports.iter().any(|import| self.means(import, router, other))
    }

    fn means(&self, import: &ImportRecord, router: &Router<'_>, other: &Router<'_>) -> bool {
        let namespace = &other.name.namespace;
        let of_namespace = match &import.namespaces {
            None => router.name.namespace == *namespace,
            Some(selector) => selector.matches(|key| self.namespace_label(namespace, key)),
        };
        of_namespace && import.routers.matches(|key| other.record.labels.get(key).map(String::as_str))
    }

    fn namespace_label<'b>(&'b self, namespace: &'b str, key: &str) -> Option<&'b str> {
        if key == NAMESPACE_NAME {
            return Some(namespace);
        }
        self.namespaces.get(namespace)?.labels.get(key).map(String::as_str)
    }
}

/// The pod networks of its own namespace that a router means.
pub fn selected_networks(
    set: &NetworkSet,
    networks: &BTreeMap<NamespacedName, VirtualNetworkRecord>,
    namespace: &str,
    router: &RouterRecord,
) -> BTreeSet<NamespacedName> {
    let Some(selector) = &router.networks else { return BTreeSet::new() };
    let first = NamespacedName::new(namespace, "");
    let of_namespace = networks.range(&first..).take_while(|(name, _)| name.namespace == first.namespace);
    of_namespace
        .filter(|(_, record)| selector.matches(|key| record.labels.get(key).map(String::as_str)))
        .map(|(name, _)| name.clone())
        .filter(|name| set.pods_named(name).is_ok())
        .collect()
}

/// Two networks that can be connected; or why not: an address would mean two pods in one of them.
fn connectable(
    set: &NetworkSet,
    one: &NamespacedName,
    other: &NamespacedName,
) -> Result<Option<(VrfId, VrfId)>, String> {
    let (Ok(one), Ok(other)) = (set.named(one), set.named(other)) else { return Ok(None) };
    let refusal = |reason: String| format!("{} and {} are not connected: {reason}", one.name, other.name);
    if let Some((prefix, taken)) = shared_prefix(one, other) {
        return Err(refusal(format!("{prefix} of {} overlaps {taken} of {}", one.name, other.name)));
    }
    for (at, coming) in [(one, other), (other, one)] {
        let peers = set.peers(at.vrf).filter(|peer| peer.vrf != coming.vrf);
        let clashes = peers.filter_map(|peer| Some((&peer.name, shared_prefix(coming, peer)?)));
        if let Some((peer, (prefix, taken))) = clashes.min() {
            let (coming, at) = (&coming.name, &at.name);
            return Err(refusal(format!(
                "{prefix} of {coming} overlaps {taken} of {peer}, which {at} reaches"
            )));
        }
    }
    Ok(Some((one.vrf, other.vrf)))
}

/// Where two networks have the same addresses and these are not the same pods'.
fn shared_prefix(one: &VirtualNetwork, other: &VirtualNetwork) -> Option<(IpNet, IpNet)> {
    if one.space == other.space {
        return None;
    }
    let mut pairs = one.prefixes().flat_map(|prefix| other.prefixes().map(move |taken| (prefix, taken)));
    pairs.find(|(prefix, taken)| overlap(*prefix, *taken))
}
