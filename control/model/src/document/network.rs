//! Projects, networks, their tables and prefixes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use super::{Document, DocumentKind, Reference, Selection, Spec, fq_name};
use crate::config::VirtualNetwork;
use crate::{Family, Model, NamespacedName};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProjectSpec {
    fq_name: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualNetworkSpec {
    fq_name: Vec<String>,
    virtual_network_network_id: u32,
    virtual_network_properties: NetworkProperties,
    #[serde(skip_serializing_if = "Option::is_none")]
    v4_subnet_reference: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    v6_subnet_reference: Option<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct NetworkProperties {
    forwarding_mode: &'static str,
    rpf: &'static str,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoutingInstanceSpec {
    fq_name: Vec<String>,
    parent: Reference,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubnetSpec {
    fq_name: Vec<String>,
    cidr: IpNet,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_gateway: Option<IpAddr>,
    #[serde(rename = "enableDHCP")]
    enable_dhcp: bool,
}

/// Namespaces, those included that are only used and never declared.
pub(super) fn projects(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let mut projects = BTreeMap::new();
    let used = model.index.pods.keys().chain(model.index.services.keys());
    for name in used.map(|name| &name.namespace) {
        projects.insert(name.clone(), (String::new(), BTreeMap::new()));
    }
    for (name, record) in &model.index.namespaces {
        projects.insert(name.clone(), (record.uid.clone(), record.labels.clone()));
    }
    let document = |(name, (uid, labels)): (NamespacedName, (String, BTreeMap<String, String>))| {
        let spec = ProjectSpec { fq_name: fq_name(&name), labels };
        Document::new(DocumentKind::Project, name, &uid, Spec::Project(spec), Vec::new())
    };
    let named = projects.into_iter().map(|(name, project)| (NamespacedName::new("", name), project));
    named.filter(|(name, _)| selection.takes(name)).map(document).collect()
}

pub(super) fn virtual_networks(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |network: &VirtualNetwork| {
        let subnet = |family| {
            network.prefix(family).map(|_| Reference::new(DocumentKind::Subnet, subnet_name(network, family)))
        };
        let spec = VirtualNetworkSpec {
            fq_name: fq_name(&network.name),
            virtual_network_network_id: network.vni.get(),
            virtual_network_properties: NetworkProperties { forwarding_mode: "l3", rpf: "enable" },
            v4_subnet_reference: subnet(Family::V4),
            v6_subnet_reference: subnet(Family::V6),
        };
        let ids = vec![network.vrf.get()];
        Document::new(DocumentKind::VirtualNetwork, network.name.clone(), "", Spec::VirtualNetwork(spec), ids)
    };
    let networks = model.config.networks().into_iter();
    networks.filter(|network| selection.takes(&network.name)).map(document).collect()
}

pub(super) fn routing_instances(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |network: &VirtualNetwork| {
        let parent = Reference::new(DocumentKind::VirtualNetwork, network.name.clone());
        let spec = RoutingInstanceSpec { fq_name: fq_name(&network.name), parent };
        let ids = vec![network.vrf.get()];
        Document::new(
            DocumentKind::RoutingInstance,
            network.name.clone(),
            "",
            Spec::RoutingInstance(spec),
            ids,
        )
    };
    let networks = model.config.networks().into_iter();
    networks.filter(|network| selection.takes(&network.name)).map(document).collect()
}

pub(super) fn subnets(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let networks = model.config.networks().into_iter();
    let subnets = networks.flat_map(|network| network.prefixes.iter().map(move |&cidr| (network, cidr)));
    let selected = subnets.filter(|(network, cidr)| selection.takes(&subnet_name(network, (*cidr).into())));
    selected.map(|(network, cidr)| subnet(network, cidr)).collect()
}

fn subnet(network: &VirtualNetwork, cidr: IpNet) -> Document {
    let name = subnet_name(network, cidr.into());
    let spec = SubnetSpec {
        fq_name: fq_name(&name),
        cidr,
        default_gateway: network.gateway(cidr),
        // Interfaces are set up by the CNI plugin.
        enable_dhcp: false,
    };
    Document::new(DocumentKind::Subnet, name, "", Spec::Subnet(spec), Vec::new())
}

fn subnet_name(network: &VirtualNetwork, family: Family) -> NamespacedName {
    NamespacedName::new(&network.name.namespace, format!("{}-{}-subnet", network.name.name, suffix(family)))
}

/// How names end that there is one of per family.
pub(super) fn suffix(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}
