//! Settling cluster addresses: those that services name first, then others for the rest.

use std::collections::BTreeMap;
use std::net::IpAddr;

use vrouter_objects::VrfId;

use super::Model;
use crate::allocate::SpacedAddress;
use crate::config::ModelConfig;
use crate::kube::{AddressRequest, FamilyPolicy, Kind, network_field};
use crate::network::{Misplaced, NetworkFault, ServiceNetworks};
use crate::problem::Findings;
use crate::{Family, NamespacedName};

/// The addresses a service is to have, one per family, the primary first.
struct Wanted {
    service: NamespacedName,
    networks: ServiceNetworks,
    addresses: Vec<WantedAddress>,
}

enum WantedAddress {
    /// The one its object names, in this field.
    Given(String, IpAddr),
    /// Any of this family.
    Any(Family),
}

/// The families a service asks for, the primary first.
pub(super) struct Families {
    /// Those that the service network has.
    pub usable: Vec<Family>,
    /// Those that it has not.
    pub missing: Vec<Family>,
}

impl Families {
    pub(super) fn of(config: &ModelConfig, request: &AddressRequest) -> Self {
        let given = request.given.iter().map(|(_, address)| Family::from(*address));
        let named: Vec<Family> = given.chain(request.families.iter().copied()).collect();
        let has = |family: &Family| config.services.prefix(*family).is_some();
        let primary = config.services.prefixes().next().map(Family::from);
        let first = named.first().copied().or(primary);
        let asked_for = match (request.policy, first) {
            (FamilyPolicy::PreferDual, Some(first)) if has(&first.other()) => vec![first, first.other()],
            (FamilyPolicy::Single | FamilyPolicy::PreferDual, Some(first)) => vec![first],
            (FamilyPolicy::RequireDual, Some(first)) => vec![first, first.other()],
            (_, None) => Vec::new(),
        };
        let (usable, missing) = asked_for.into_iter().partition(has);
        Self { usable, missing }
    }
}

/// The networks of a service, with its cluster addresses, the primary first.
pub(super) struct Placement {
    pub networks: ServiceNetworks,
    pub addresses: Vec<IpAddr>,
}

/// What is wrong, by service.
pub(super) type FindingsOf = BTreeMap<NamespacedName, Findings>;

impl Model {
    /// Gives services their cluster addresses, the primary first.
    pub(super) fn settle_cluster_addresses(
        &mut self,
        services: &[NamespacedName],
        findings: &mut FindingsOf,
    ) -> BTreeMap<NamespacedName, Placement> {
        let wanted: Vec<Wanted> = services
            .iter()
            .filter_map(|service| self.wanted(service, findings.entry(service.clone()).or_default()))
            .collect();
        self.release_unwanted(services, &wanted);
        let mut addresses = self.claim_given(&wanted, findings);
        self.pick_any(&wanted, &mut addresses, findings);
        let placed = wanted.into_iter().map(|Wanted { service, networks, .. }| {
            let addresses = addresses.remove(&service).unwrap_or_default();
            (service, Placement { networks, addresses })
        });
        placed.collect()
    }

    /// `None`: the service is gone, has no frontend, or asks for a network that there is not.
    fn wanted(&self, service: &NamespacedName, findings: &mut Findings) -> Option<Wanted> {
        let record = self.index.services.get(service)?;
        let request = &record.frontend.as_ref()?.addresses;
        let networks = self.index.service_networks(service, record);
        let networks = networks.map_err(|misplaced| note_misplaced(misplaced, findings)).ok()?;
        let Families { usable, missing } = Families::of(&self.config, request);
        for family in missing {
            findings.add("spec.ipFamilies", format!("the service network has no {family} addresses"));
        }
        let mut addresses = Vec::new();
        for family in usable {
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
        Some(Wanted { service: service.clone(), networks, addresses })
    }

    fn release_unwanted(&mut self, services: &[NamespacedName], wanted: &[Wanted]) {
        let wanted: BTreeMap<_, _> = wanted.iter().map(|wanted| (&wanted.service, wanted)).collect();
        for service in services {
            for held in self.floating_ips.addresses(service) {
                let address = held.address;
                let wanted = wanted.get(service).filter(|wanted| wanted.networks.space == held.space);
                let keep = wanted.is_some_and(|wanted| {
                    wanted.addresses.iter().any(|wanted| match wanted {
                        WantedAddress::Given(_, given) => *given == address,
                        WantedAddress::Any(family) => {
                            *family == Family::from(address) && self.config.services.contains(address)
                        }
                    })
                });
                if !keep {
                    self.floating_ips.release(held);
                    self.freed = true;
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
        findings: &mut FindingsOf,
    ) -> BTreeMap<NamespacedName, Vec<IpAddr>> {
        let mut by_age: Vec<&Wanted> = wanted.iter().collect();
        by_age.sort_by_key(|wanted| {
            let record = self.index.services.get(&wanted.service);
            (record.and_then(|record| record.created.clone()), &wanted.service)
        });
        let mut addresses: BTreeMap<NamespacedName, Vec<IpAddr>> = BTreeMap::new();
        for Wanted { service, networks, addresses: wanted } in by_age {
            for wanted in wanted {
                let WantedAddress::Given(field, address) = wanted else { continue };
                let spaced = SpacedAddress { space: networks.space, address: *address };
                if self.floating_ips.claim(spaced, service) {
                    addresses.entry(service.clone()).or_default().push(*address);
                } else {
                    let holder = self.floating_ips.holder(spaced);
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
        findings: &mut FindingsOf,
    ) {
        for Wanted { service, networks, addresses: wanted } in wanted {
            let mut ordered = Vec::with_capacity(wanted.len());
            let claimed = addresses.remove(service).unwrap_or_default();
            for wanted in wanted {
                match wanted {
                    WantedAddress::Given(_, given) => {
                        ordered.extend(claimed.contains(given).then_some(*given));
                    }
                    WantedAddress::Any(family) => match self.held_or_picked(service, networks.space, *family)
                    {
                        Some(address) => ordered.push(address),
                        None => {
                            let message = format!("no {family} address of the service network is free");
                            findings.entry(service.clone()).or_default().add("spec.clusterIPs", message);
                            self.waiting.insert(service.clone());
                        }
                    },
                }
            }
            addresses.insert(service.clone(), ordered);
        }
    }

    fn held_or_picked(&mut self, service: &NamespacedName, space: VrfId, family: Family) -> Option<IpAddr> {
        let held = self.floating_ips.addresses(service).into_iter().map(|held| held.address);
        let held = held.filter(|held| Family::from(*held) == family).min();
        if held.is_some() {
            return held;
        }
        let prefix = self.config.services.prefix(family)?;
        self.floating_ips.pick(space, prefix, service).map(|picked| picked.address)
    }
}

fn note_misplaced(misplaced: Misplaced, findings: &mut Findings) {
    match (&misplaced.fault, misplaced.asker.kind) {
        // What cannot be read was noted when the object was.
        (NetworkFault::Malformed(_), Kind::Service) => {}
        (_, Kind::Service) => findings.add(network_field(), misplaced),
        _ => findings.add("", misplaced),
    }
}
