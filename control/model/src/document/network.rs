//! Projects, networks, their tables and prefixes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use super::{Document, DocumentKind, Reference, Selection, Spec, fq_name};
use crate::kube::RouterRecord;
use crate::network::{NetworkSubnet, Tenancy, VirtualNetwork, selected_networks};
use crate::tables;
use crate::{Family, Model, NamespacedName};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProjectSpec {
    fq_name: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// `isolated`: it has networks of its own; `shared`: it has the cluster's.
    isolation: &'static str,
    /// The network of its pods that ask for no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_network_reference: Option<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualNetworkSpec {
    fq_name: Vec<String>,
    /// By which routers select it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Whether pods can be in it.
    pod_network: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_network_reference: Option<Reference>,
    /// The networks that routers connect it with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connected_network_references: Vec<Reference>,
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
    /// The networks in which its pods are known by their addresses. In all others they speak in the node's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    known_in: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualNetworkRouterSpec {
    fq_name: Vec<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// The networks of its namespace that it selects.
    virtual_network_references: Vec<Reference>,
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
    let used = model.index.pods.keys().chain(model.index.services.keys()).map(|name| &name.namespace);
    let names: BTreeSet<&String> = used.chain(model.index.namespaces.keys()).collect();
    let named = names.into_iter().map(|name| (name, NamespacedName::new("", name)));
    named.filter(|(_, own)| selection.takes(own)).map(|(name, own)| project(model, name, own)).collect()
}

fn project(model: &Model, name: &str, own: NamespacedName) -> Document {
    let record = model.index.namespaces.get(name);
    let own_network = model.index.networks.of_namespace(name).ok();
    let asked = record.and_then(|record| record.network.name());
    let network = match asked {
        Some(asked) => model.index.networks.pods_named(asked).ok(),
        None => own_network,
    };
    let is_isolated = own_network.and_then(VirtualNetwork::tenancy) == Some(Tenancy::Isolated);
    let spec = ProjectSpec {
        fq_name: fq_name(&own),
        labels: record.map(|record| record.labels.clone()).unwrap_or_default(),
        isolation: if is_isolated { "isolated" } else { "shared" },
        pod_network_reference: network.map(network_reference),
    };
    let uid = record.map(|record| record.uid.as_str()).unwrap_or_default();
    Document::new(DocumentKind::Project, own, uid, Spec::Project(spec), Vec::new())
}

pub(super) fn virtual_networks(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |network: &VirtualNetwork| {
        let record = model.index.virtual_networks.get(&network.name);
        let services = network.pods().and_then(|pods| model.index.networks.get(pods.services));
        let spec = VirtualNetworkSpec {
            fq_name: fq_name(&network.name),
            labels: record.map(|record| record.labels.clone()).unwrap_or_default(),
            pod_network: network.pods().is_some(),
            service_network_reference: services.map(network_reference),
            connected_network_references: model
                .index
                .networks
                .peers(network.vrf)
                .map(network_reference)
                .collect(),
            virtual_network_network_id: network.vni.get(),
            virtual_network_properties: NetworkProperties { forwarding_mode: "l3", rpf: "enable" },
            v4_subnet_reference: network.subnet(Family::V4).map(subnet_reference),
            v6_subnet_reference: network.subnet(Family::V6).map(subnet_reference),
        };
        let uid = record.map(|record| record.uid.as_str()).unwrap_or_default();
        let (ids, spec) = (vec![network.vrf.get()], Spec::VirtualNetwork(spec));
        Document::new(DocumentKind::VirtualNetwork, network.name.clone(), uid, spec, ids)
    };
    let networks = model.index.networks.iter();
    networks.filter(|network| selection.takes(&network.name)).map(document).collect()
}

pub(super) fn routing_instances(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let networks = &model.index.networks;
    let document = |network: &VirtualNetwork| {
        let known_in = tables::known_in(&model.config, networks, network);
        let spec = RoutingInstanceSpec {
            fq_name: fq_name(&network.name),
            parent: network_reference(network),
            known_in: known_in
                .into_iter()
                .filter_map(|vrf| networks.get(vrf))
                .map(network_reference)
                .collect(),
        };
        let (ids, spec) = (vec![network.vrf.get()], Spec::RoutingInstance(spec));
        Document::new(DocumentKind::RoutingInstance, network.name.clone(), "", spec, ids)
    };
    networks.iter().filter(|network| selection.takes(&network.name)).map(document).collect()
}

/// Subnets that are some network's. Those that cannot be used are none.
pub(super) fn subnets(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let used = model.index.networks.iter().flat_map(|network| &network.subnets);
    let written = model.index.subnets.values().filter_map(|record| record.subnet.as_ref());
    let by_name: BTreeMap<_, _> = used.chain(written).map(|subnet| (&subnet.name, subnet)).collect();
    let selected = by_name.into_values().filter(|subnet| selection.takes(&subnet.name));
    selected.map(|subnet| subnet_document(model, subnet)).collect()
}

fn subnet_document(model: &Model, subnet: &NetworkSubnet) -> Document {
    let spec = SubnetSpec {
        fq_name: fq_name(&subnet.name),
        cidr: subnet.prefix,
        default_gateway: subnet.gateway,
        // Interfaces are set up by the CNI plugin.
        enable_dhcp: false,
    };
    let uid = model.index.subnets.get(&subnet.name).map(|record| record.uid.as_str()).unwrap_or_default();
    Document::new(DocumentKind::Subnet, subnet.name.clone(), uid, Spec::Subnet(spec), Vec::new())
}

pub(super) fn virtual_network_routers(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let routers = model.index.routers.iter().filter(|(name, _)| selection.takes(name));
    let document = |(name, record): (&NamespacedName, &RouterRecord)| {
        let selected =
            selected_networks(&model.index.networks, &model.index.virtual_networks, &name.namespace, record);
        let spec = VirtualNetworkRouterSpec {
            fq_name: fq_name(name),
            kind: record.kind.map(|kind| kind.to_string()),
            labels: record.labels.clone(),
            virtual_network_references: selected.into_iter().map(reference_by_name).collect(),
        };
        let spec = Spec::VirtualNetworkRouter(spec);
        Document::new(DocumentKind::VirtualNetworkRouter, name.clone(), &record.uid, spec, Vec::new())
    };
    routers.map(document).collect()
}

fn network_reference(network: &VirtualNetwork) -> Reference {
    reference_by_name(network.name.clone())
}

fn reference_by_name(network: NamespacedName) -> Reference {
    Reference::new(DocumentKind::VirtualNetwork, network)
}

fn subnet_reference(subnet: &NetworkSubnet) -> Reference {
    Reference::new(DocumentKind::Subnet, subnet.name.clone())
}

/// How names end that there is one of per family.
pub(super) fn suffix(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}
