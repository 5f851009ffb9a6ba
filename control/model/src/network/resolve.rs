//! From what people write to the networks there are.

use std::collections::BTreeMap;

use vrouter_objects::Vni;

use super::leak::Routers;
use super::{
    NetworkRole, NetworkSet, NetworkSubnet, POD_NETWORK, PodNetwork, SERVICE_NETWORK, SERVICE_NETWORK_SUFFIX,
    Tenancy, VirtualNetwork, overlap,
};
use crate::NamespacedName;
use crate::allocate::{IdRequest, NetworkAllocation, NetworkIds, VniHolders};
use crate::config::ModelConfig;
use crate::kube::{
    Isolation, Kind, NamespaceRecord, ObjectRef, RouterRecord, SubnetRecord, SubnetWish,
    VirtualNetworkRecord, network_field,
};
use crate::problem::Findings;

/// What networks are worked out from.
pub struct Resolver<'a> {
    /// The cluster's own.
    pub config: &'a ModelConfig,
    /// Those that may have networks of their own.
    pub namespaces: &'a BTreeMap<String, NamespaceRecord>,
    /// Custom networks, and labels of others.
    pub networks: &'a BTreeMap<NamespacedName, VirtualNetworkRecord>,
    /// Prefixes of custom networks.
    pub subnets: &'a BTreeMap<NamespacedName, SubnetRecord>,
    /// What connects them.
    pub routers: &'a BTreeMap<NamespacedName, RouterRecord>,
}

/// The networks there are, and what is wrong with what people wrote.
pub struct Resolved {
    /// The networks.
    pub set: NetworkSet,
    /// What is wrong.
    pub findings: BTreeMap<ObjectRef, Findings>,
}

/// A pod network that is to be, with its service network.
struct Plan {
    tenancy: Tenancy,
    subnets: Vec<NetworkSubnet>,
    services: NamespacedName,
}

/// Which field of a network is at fault, and why.
type FieldFault = (&'static str, String);

/// Networks that are to be.
type Plans = BTreeMap<NamespacedName, Plan>;

impl Resolver<'_> {
    /// Works the networks out, and gives them their numbers.
    pub fn resolve(&self, ids: &mut NetworkIds) -> Resolved {
        let mut resolved = Resolved { set: NetworkSet::default(), findings: BTreeMap::new() };
        let mut plans = Plans::new();
        self.plan_isolated(&mut plans, &mut resolved);
        self.plan_custom(&mut plans, &mut resolved);
        let taken = self.config.networks().map(|network| (network.vni, network.name.clone()));
        let holders = ids.settle(&self.requests(&plans), &taken);
        self.config.networks().into_iter().for_each(|network| resolved.set.insert(network.clone()));
        for (name, plan) in plans {
            self.build(name, plan, ids, &mut resolved);
        }
        self.build_link_local(ids, &mut resolved);
        resolved.set.remember_gone(ids);
        self.note_bare(&mut resolved);
        self.note_vnis(&holders, &mut resolved);
        self.connect(&mut resolved);
        self.note_unknown(&mut resolved);
        resolved
    }

    fn plan_isolated(&self, plans: &mut Plans, resolved: &mut Resolved) {
        for (namespace, record) in self.namespaces {
            let Isolation::Isolated(field) = &record.isolation else { continue };
            if *namespace == self.config.pods.name.namespace {
                let message = "its networks are the cluster's own: it is not isolated";
                resolved.note(Kind::Namespace, &NamespacedName::new("", namespace)).add(field, message);
                continue;
            }
            let plan = Plan {
                tenancy: Tenancy::Isolated,
                subnets: self.config.pods.subnets.clone(),
                services: NamespacedName::new(namespace, SERVICE_NETWORK),
            };
            plans.insert(resolved.set.isolate(namespace), plan);
        }
    }

    fn plan_custom(&self, plans: &mut Plans, resolved: &mut Resolved) {
        for (name, record) in self.networks.iter().filter(|(name, _)| !self.is_built_in(name)) {
            let planned = service_network_of(name)
                .and_then(|services| self.subnets_of(record).map(|subnets| (subnets, services)));
            match planned {
                Ok((subnets, services)) => {
                    plans.insert(name.clone(), Plan { tenancy: Tenancy::Custom, subnets, services });
                }
                Err((field, reason)) => {
                    resolved.note(Kind::VirtualNetwork, name).add(field, &reason);
                    resolved.set.refuse(name.clone(), reason);
                }
            }
        }
    }

    /// Manifests of networks that are there without one may give these labels, and nothing else.
    fn note_bare(&self, resolved: &mut Resolved) {
        for (name, record) in self.networks.iter().filter(|(name, _)| self.is_built_in(name)) {
            let message = if !record.is_bare() {
                "is a network's that is there without it: a manifest gives it labels and nothing else"
            } else if resolved.set.named(name).is_err() {
                "is the name of a network that there is not: the namespace is not isolated, or has no such network"
            } else {
                continue;
            };
            resolved.note(Kind::VirtualNetwork, name).add("metadata.name", message);
        }
    }

    /// Whether a network of this name is there, or not there, whatever manifests say.
    fn is_built_in(&self, name: &NamespacedName) -> bool {
        name.name == POD_NETWORK
            || name.name.ends_with(SERVICE_NETWORK_SUFFIX)
            || *name == ModelConfig::link_local_name()
            || self.config.networks().iter().any(|network| network.name == *name)
    }

    fn subnets_of(&self, record: &VirtualNetworkRecord) -> Result<Vec<NetworkSubnet>, FieldFault> {
        if record.subnets.is_empty() {
            return Err(("spec", "it has no subnet".to_owned()));
        }
        let subnets = record.subnets.iter();
        subnets.map(|wish| self.subnet(wish).map_err(|reason| (wish.field, reason))).collect()
    }

    fn subnet(&self, wish: &SubnetWish) -> Result<NetworkSubnet, String> {
        let SubnetWish { name, family, .. } = wish;
        let record = self.subnets.get(name).ok_or_else(|| format!("there is no Subnet {name}"))?;
        let subnet = record.subnet.as_ref().ok_or_else(|| format!("Subnet {name} cannot be used"))?;
        let prefix = subnet.prefix;
        if *family != prefix.into() {
            return Err(format!("{prefix} of Subnet {name} is not {family}"));
        }
        match self.config.services.prefixes().find(|services| overlap(*services, prefix)) {
            // Its pods could not tell their own from services.
            Some(services) => {
                Err(format!("{prefix} of Subnet {name} overlaps {services}, where cluster addresses are"))
            }
            None => Ok(subnet.clone()),
        }
    }

    fn requests(&self, plans: &Plans) -> BTreeMap<NamespacedName, IdRequest> {
        let mut requests = BTreeMap::new();
        for (name, plan) in plans {
            let (pods, services) = match plan.tenancy {
                Tenancy::Custom => (None, None),
                Tenancy::Isolated | Tenancy::Cluster => {
                    (Some(self.config.pods.space), Some(self.config.services.space))
                }
            };
            let record = self.networks.get(name);
            let vni = record.and_then(|record| record.vni).filter(|_| plan.tenancy == Tenancy::Custom);
            let created = record.and_then(|record| record.created.clone());
            requests.insert(name.clone(), IdRequest { space: pods, vni, created });
            let services = IdRequest { space: services, vni: None, created: None };
            requests.insert(plan.services.clone(), services);
        }
        if !self.config.link_local.is_empty() {
            let request = IdRequest { space: None, vni: None, created: None };
            requests.insert(ModelConfig::link_local_name(), request);
        }
        requests
    }

    fn build(&self, name: NamespacedName, plan: Plan, ids: &NetworkIds, resolved: &mut Resolved) {
        let Plan { tenancy, subnets, services } = plan;
        let (Some(pods), Some(of_services)) = (ids.get(&name), ids.get(&services)) else {
            resolved.set.refuse(name, "ids are used up".to_owned());
            return;
        };
        resolved.set.insert(VirtualNetwork {
            name: services,
            vrf: of_services.vrf,
            vni: of_services.vni,
            subnets: self.config.services.subnets.clone(),
            space: of_services.space,
            role: NetworkRole::Services(tenancy),
        });
        resolved.set.insert(VirtualNetwork {
            name,
            vrf: pods.vrf,
            vni: pods.vni,
            subnets,
            space: pods.space,
            role: NetworkRole::Pods(PodNetwork { tenancy, services: of_services.vrf }),
        });
    }

    fn build_link_local(&self, ids: &NetworkIds, resolved: &mut Resolved) {
        let (name, subnets) = (ModelConfig::link_local_name(), self.config.link_local.clone());
        // It has numbers if it was asked for, and any were left.
        if let Some(given) = ids.get(&name) {
            let (NetworkAllocation { vrf, vni, space }, role) = (given, NetworkRole::LinkLocal);
            resolved.set.insert(VirtualNetwork { name, vrf, vni, subnets, space, role });
        }
    }

    fn note_vnis(&self, holders: &VniHolders, resolved: &mut Resolved) {
        for (name, record) in self.networks {
            let (Some(vni), Ok(network)) = (record.vni, resolved.set.named(name)) else { continue };
            let given: Vni = network.vni;
            if let Some(holder) = holders.get(&vni).filter(|_| given != vni) {
                let message = format!("{vni} is network {holder}'s already: it has {given}");
                resolved.note(Kind::VirtualNetwork, name).add("spec.virtualNetworkNetworkId", message);
            }
        }
    }

    fn connect(&self, resolved: &mut Resolved) {
        let Self { routers, networks, namespaces, .. } = *self;
        let found = Routers { routers, networks, namespaces }.connect(&mut resolved.set);
        for (name, findings) in found {
            resolved.findings.insert(reference(Kind::VirtualNetworkRouter, &name), findings);
        }
    }

    /// Namespaces whose network is none.
    fn note_unknown(&self, resolved: &mut Resolved) {
        for (namespace, record) in self.namespaces {
            let Some(name) = record.network.name() else { continue };
            if let Err(fault) = resolved.set.pods_named(name) {
                let namespace = NamespacedName::new("", namespace);
                resolved.note(Kind::Namespace, &namespace).add(network_field(), fault);
            }
        }
    }
}

impl Resolved {
    fn note(&mut self, kind: Kind, name: &NamespacedName) -> &mut Findings {
        self.findings.entry(reference(kind, name)).or_default()
    }
}

/// What the service network of a custom network is called.
fn service_network_of(network: &NamespacedName) -> Result<NamespacedName, FieldFault> {
    let name = format!("{}{SERVICE_NETWORK_SUFFIX}", network.name);
    if name == SERVICE_NETWORK {
        let reason = format!("its service network would be {name}, which is there without it");
        return Err(("metadata.name", reason));
    }
    Ok(NamespacedName::new(&network.namespace, name))
}

fn reference(kind: Kind, name: &NamespacedName) -> ObjectRef {
    ObjectRef { kind, namespace: name.namespace.clone(), name: name.name.clone() }
}
