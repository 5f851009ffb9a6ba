//! Settling services: addresses first, then listeners and members.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Model, reference};
use crate::contrail::Builder;
use crate::kube::{AddressRequest, FamilyPolicy, Kind};
use crate::problem::Findings;
use crate::tables::{self, Placed, Unit};
use crate::{Family, NamespacedName};

/// The addresses a service is to have, one per family, the primary first.
struct Wanted {
    service: NamespacedName,
    addresses: Vec<WantedAddress>,
}

enum WantedAddress {
    /// The one its object names, in this field.
    Given(String, IpAddr),
    /// Any of this family.
    Any(Family),
}

impl Model {
    pub(super) fn settle_services(&mut self) -> usize {
        let mut recomputed = 0;
        // An address that becomes free may be what another service asks for: that is another round.
        loop {
            let services = std::mem::take(&mut self.index.dirty.services);
            if services.is_empty() {
                return recomputed;
            }
            recomputed += services.len();
            let services: Vec<_> = services.into_iter().collect();
            let mut findings: BTreeMap<NamespacedName, Findings> = BTreeMap::new();
            let wanted: Vec<Wanted> = services
                .iter()
                .filter_map(|service| self.wanted(service, findings.entry(service.clone()).or_default()))
                .collect();
            self.release_unwanted(&services, &wanted);
            let mut addresses = self.claim_given(&wanted, &mut findings);
            self.pick_any(&wanted, &mut addresses, &mut findings);
            for service in services {
                let mut findings = findings.remove(&service).unwrap_or_default();
                let addresses = addresses.remove(&service).unwrap_or_default();
                self.rebuild(&service, &addresses, &mut findings);
                self.findings.replace(reference(Kind::Service, &service), findings);
            }
        }
    }

    /// `None`: the service is gone or has no frontend.
    fn wanted(&self, service: &NamespacedName, findings: &mut Findings) -> Option<Wanted> {
        let request = self.index.services.get(service)?.frontend.as_ref()?;
        let mut addresses = Vec::new();
        for family in self.families(request, findings) {
            let given = request.given.iter().find(|(_, address)| Family::from(*address) == family);
            match given {
                None => addresses.push(WantedAddress::Any(family)),
                Some((field, address)) if self.config.services.contains(*address) => {
                    addresses.push(WantedAddress::Given(field.clone(), *address));
                }
                Some((field, address)) => {
                    findings.add(field, format!("{address} is no address of the service network"));
                }
            }
        }
        Some(Wanted { service: service.clone(), addresses })
    }

    /// The families a service has addresses of, the primary first.
    fn families(&self, request: &AddressRequest, findings: &mut Findings) -> Vec<Family> {
        let given = request.given.iter().map(|(_, address)| Family::from(*address));
        let mut families: Vec<Family> = Vec::new();
        for family in given.chain(request.families.iter().copied()) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        let has = |family| self.config.services.prefix(family).is_some();
        let primary = self.config.services.prefixes.first().map(|&prefix| Family::from(prefix));
        let first = families.first().copied().or(primary);
        match (request.policy, first) {
            (FamilyPolicy::Single, Some(first)) => families = vec![first],
            (FamilyPolicy::PreferDual, Some(first)) if has(first.other()) => {
                families = vec![first, first.other()]
            }
            (FamilyPolicy::PreferDual, Some(first)) => families = vec![first],
            (FamilyPolicy::RequireDual, Some(first)) => families = vec![first, first.other()],
            (_, None) => {}
        }
        families.retain(|&family| {
            if !has(family) {
                findings.add("spec.ipFamilies", format!("the service network has no {family} addresses"));
            }
            has(family)
        });
        families
    }

    fn release_unwanted(&mut self, services: &[NamespacedName], wanted: &[Wanted]) {
        let wanted: BTreeMap<_, _> =
            wanted.iter().map(|wanted| (&wanted.service, &wanted.addresses)).collect();
        for service in services {
            for address in self.floating_ips.addresses(service) {
                let keep = wanted.get(service).is_some_and(|wanted| {
                    wanted.iter().any(|wanted| match wanted {
                        WantedAddress::Given(_, given) => *given == address,
                        WantedAddress::Any(family) => {
                            *family == Family::from(address) && self.config.services.contains(address)
                        }
                    })
                });
                if !keep {
                    self.floating_ips.release(address);
                    let waiting: Vec<_> = self.index.services_requesting(address).cloned().collect();
                    self.index.dirty.services.extend(waiting.into_iter().filter(|other| other != service));
                }
            }
        }
    }

    /// Gives services the addresses that they name, before any are picked for others. Among several that name one, the
    /// one that has it keeps it, else the oldest gets it.
    fn claim_given(
        &mut self,
        wanted: &[Wanted],
        findings: &mut BTreeMap<NamespacedName, Findings>,
    ) -> BTreeMap<NamespacedName, Vec<IpAddr>> {
        let mut by_age: Vec<&Wanted> = wanted.iter().collect();
        by_age.sort_by_key(|wanted| {
            let record = self.index.services.get(&wanted.service);
            (record.and_then(|record| record.created.clone()), &wanted.service)
        });
        let mut addresses: BTreeMap<NamespacedName, Vec<IpAddr>> = BTreeMap::new();
        for Wanted { service, addresses: wanted } in by_age {
            for wanted in wanted {
                let WantedAddress::Given(field, address) = wanted else { continue };
                if self.floating_ips.claim(*address, service) {
                    addresses.entry(service.clone()).or_default().push(*address);
                } else {
                    let holder = self.floating_ips.holder(*address);
                    let message = match holder {
                        Some(holder) => format!("{address} is Service {holder}'s already"),
                        None => "ids are used up".to_owned(),
                    };
                    findings.entry(service.clone()).or_default().add(field, message);
                }
            }
        }
        addresses
    }

    fn pick_any(
        &mut self,
        wanted: &[Wanted],
        addresses: &mut BTreeMap<NamespacedName, Vec<IpAddr>>,
        findings: &mut BTreeMap<NamespacedName, Findings>,
    ) {
        for Wanted { service, addresses: wanted } in wanted {
            let mut ordered = Vec::with_capacity(wanted.len());
            let claimed = addresses.remove(service).unwrap_or_default();
            for wanted in wanted {
                match wanted {
                    WantedAddress::Given(_, given) => {
                        ordered.extend(claimed.contains(given).then_some(*given));
                    }
                    WantedAddress::Any(family) => match self.held_or_picked(service, *family) {
                        Some(address) => ordered.push(address),
                        None => findings.entry(service.clone()).or_default().add(
                            "spec.clusterIPs",
                            format!("no {family} address of the service network is free"),
                        ),
                    },
                }
            }
            addresses.insert(service.clone(), ordered);
        }
    }

    fn held_or_picked(&mut self, service: &NamespacedName, family: Family) -> Option<IpAddr> {
        let held =
            self.floating_ips.addresses(service).into_iter().find(|held| Family::from(*held) == family);
        if held.is_some() {
            return held;
        }
        let prefix = self.config.services.prefix(family)?;
        self.floating_ips.pick(prefix, service)
    }

    fn rebuild(&mut self, service: &NamespacedName, addresses: &[IpAddr], findings: &mut Findings) {
        let old = self.load_balancers.remove(service);
        for address in old.iter().flat_map(|old| old.member_addresses()) {
            self.users.remove(&address, service);
        }
        let unit = Unit::Service(service.clone());
        let Some(record) = self.index.services.get(service).filter(|_| !addresses.is_empty()) else {
            self.tables.replace(unit, Placed::new());
            return;
        };
        let before = self.floating_ips.snapshot(addresses);
        let mut builder = Builder {
            index: &self.index,
            ids: &mut self.floating_ips,
            pod_vrf: self.config.pods.vrf,
            service_vrf: self.config.services.vrf,
        };
        let load_balancer = builder.build(service, record, addresses, findings);
        self.floating_ips.note_changes(before);
        for address in load_balancer.member_addresses() {
            self.users.insert(address, service.clone());
        }
        self.tables.replace(unit, tables::load_balancer_objects(&load_balancer));
        self.load_balancers.insert(service.clone(), load_balancer);
    }
}
