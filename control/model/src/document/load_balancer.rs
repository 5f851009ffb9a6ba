//! Floating IPs, load balancers, listeners, pools and members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{
    AffinityTimeout, ExternalKind, MemberState, Port, RouterId, ServiceProtocol, TrafficPolicy,
};

use super::machine::{instance_ip, interface_name, machine_reference};
use super::network::suffix;
use super::{Document, DocumentKind, Reference, Selection, Spec, fq_name};
use crate::contrail::{FloatingIp, Listener, LoadBalancer, Member};
use crate::kube::TargetPort;
use crate::{Model, NamespacedName};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FloatingIpSpec {
    fq_name: Vec<String>,
    address: IpAddr,
    parent: Reference,
    traffic_direction: &'static str,
    port_mappings_enable: bool,
    floating_ip_port_mappings: PortMappings,
    virtual_machine_interface_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct PortMappings {
    port_mappings: Vec<PortMapping>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct PortMapping {
    src_port: u16,
    dst_port: u16,
    protocol: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoadBalancerSpec {
    fq_name: Vec<String>,
    loadbalancer_provider: &'static str,
    service_type: String,
    vip_addresses: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_addresses: Vec<IpAddr>,
    internal_traffic_policy: &'static str,
    external_traffic_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_affinity_seconds: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    source_ranges: Vec<IpNet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health_check_node_port: Option<u16>,
    listener_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListenerSpec {
    fq_name: Vec<String>,
    parent: Reference,
    #[serde(skip_serializing_if = "String::is_empty")]
    port_name: String,
    protocol: String,
    protocol_port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_port: Option<u16>,
    pool_reference: Reference,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolSpec {
    fq_name: Vec<String>,
    parent: Reference,
    protocol: String,
    loadbalancer_method: &'static str,
    member_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberSpec {
    fq_name: Vec<String>,
    parent: Reference,
    address: IpAddr,
    protocol_port: u16,
    /// `active`: takes new flows; `serving`: where nobody does; `draining`: keeps those it has.
    condition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_router: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_machine_reference: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_machine_interface_reference: Option<Reference>,
}

/// The virtual addresses of services: the parents of their floating IPs.
pub(super) fn instance_ips(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_address(model, selection, |(load_balancer, _), address, name| {
        let network = match address.kind {
            AddressKind::Cluster => model.index.networks.get(load_balancer.networks.services),
            AddressKind::External(_) => Some(&model.config.fabric),
        };
        instance_ip(name, address.address, network, Vec::new())
    })
}

pub(super) fn floating_ips(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_address(model, selection, |(_, floating_ip), address, name| {
        let usable = floating_ip.listeners.iter().flat_map(Listener::usable_members);
        let interfaces: BTreeSet<Reference> = usable.filter_map(|member| interface(model, member)).collect();
        let spec = FloatingIpSpec {
            fq_name: fq_name(&name),
            address: address.address,
            parent: Reference::new(DocumentKind::InstanceIp, name.clone()),
            traffic_direction: "ingress",
            port_mappings_enable: true,
            floating_ip_port_mappings: PortMappings {
                port_mappings: floating_ip.listeners.iter().flat_map(port_mappings).collect(),
            },
            virtual_machine_interface_references: interfaces.into_iter().collect(),
        };
        Document::new(DocumentKind::FloatingIp, name, "", Spec::FloatingIp(spec), vec![floating_ip.id.get()])
    })
}

pub(super) fn load_balancers(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |load_balancer: &LoadBalancer| {
        let name = load_balancer.service.clone();
        let listeners: BTreeSet<Reference> = load_balancer
            .floating_ips
            .iter()
            .flat_map(|floating_ip| &floating_ip.listeners)
            .map(|listener| Reference::new(DocumentKind::Listener, listener_name(load_balancer, listener)))
            .collect();
        let spec = LoadBalancerSpec {
            fq_name: fq_name(&name),
            loadbalancer_provider: "native",
            service_type: load_balancer.kind.to_string(),
            vip_addresses: load_balancer.floating_ips.iter().map(|floating_ip| floating_ip.address).collect(),
            external_addresses: external_addresses(load_balancer),
            internal_traffic_policy: policy_name(load_balancer.policies.internal),
            external_traffic_policy: policy_name(load_balancer.policies.external),
            session_affinity_seconds: load_balancer.policies.affinity.map(AffinityTimeout::seconds),
            source_ranges: load_balancer.source_ranges.clone(),
            health_check_node_port: load_balancer.health_check.map(Port::get),
            listener_references: listeners.into_iter().collect(),
        };
        let uid = model.index.services.get(&name).map(|service| service.uid.clone()).unwrap_or_default();
        Document::new(DocumentKind::LoadBalancer, name, &uid, Spec::LoadBalancer(spec), Vec::new())
    };
    let selected = model.load_balancers.iter().filter(|(name, _)| selection.takes(name));
    selected.map(|(_, load_balancer)| document(load_balancer)).collect()
}

pub(super) fn listeners(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_port(model, |load_balancer, parts| {
        let listener = parts[0];
        let name = listener_name(load_balancer, listener);
        if !selection.takes(&name) {
            return Vec::new();
        }
        let spec = ListenerSpec {
            fq_name: fq_name(&name),
            parent: Reference::new(DocumentKind::LoadBalancer, load_balancer.service.clone()),
            port_name: listener.name.clone(),
            protocol: listener.protocol.to_string(),
            protocol_port: listener.port.get(),
            node_port: parts.iter().find_map(|listener| listener.node_port).map(Port::get),
            pool_reference: Reference::new(DocumentKind::Pool, name.clone()),
        };
        let ids = parts.iter().map(|listener| listener.id.get()).collect();
        vec![Document::new(DocumentKind::Listener, name, "", Spec::Listener(spec), ids)]
    })
}

pub(super) fn pools(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_port(model, |load_balancer, parts| {
        let listener = parts[0];
        let name = listener_name(load_balancer, listener);
        if !selection.takes(&name) {
            return Vec::new();
        }
        let members = parts.iter().flat_map(|listener| &listener.members);
        let spec = PoolSpec {
            fq_name: fq_name(&name),
            parent: Reference::new(DocumentKind::Listener, name.clone()),
            protocol: listener.protocol.to_string(),
            loadbalancer_method: "ECMP",
            member_references: members
                .map(|member| Reference::new(DocumentKind::Member, member_name(&name, member.endpoint)))
                .collect(),
        };
        vec![Document::new(DocumentKind::Pool, name, "", Spec::Pool(spec), Vec::new())]
    })
}

pub(super) fn members(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let routers = model.nodes.names_by_router();
    each_port(model, |load_balancer, parts| {
        let pool = listener_name(load_balancer, parts[0]);
        let members = parts.iter().flat_map(|listener| &listener.members);
        let named = members.map(|member| (member_name(&pool, member.endpoint), member));
        let selected = named.filter(|(name, _)| selection.takes(name));
        selected.map(|(name, member)| member_document(model, &routers, &pool, name, member)).collect()
    })
}

fn member_document(
    model: &Model,
    routers: &BTreeMap<RouterId, &str>,
    pool: &NamespacedName,
    name: NamespacedName,
    member: &Member,
) -> Document {
    let spec = MemberSpec {
        fq_name: fq_name(&name),
        parent: Reference::new(DocumentKind::Pool, pool.clone()),
        address: member.endpoint.ip(),
        protocol_port: member.port.get(),
        condition: match member.state {
            MemberState::Ready => "active",
            MemberState::Serving => "serving",
            MemberState::Leaving => "draining",
        },
        virtual_router: member.router.and_then(|router| routers.get(&router)).map(|name| (*name).to_owned()),
        virtual_machine_reference: member.pod.as_ref().map(machine_reference),
        virtual_machine_interface_reference: interface(model, member),
    };
    Document::new(DocumentKind::Member, name, "", Spec::Member(spec), vec![member.id.get()])
}

/// A listener's mappings: one per port that its members have, which is one unless a named port differs between pods.
/// Without members, it is the port they would have; what only the pods could tell defaults to the Service's port.
fn port_mappings(listener: &Listener) -> Vec<PortMapping> {
    let mut ports: BTreeSet<Port> = listener.usable_members().map(|member| member.port).collect();
    if ports.is_empty() {
        ports.insert(match listener.target {
            TargetPort::Number(number) => number,
            TargetPort::Name(_) => listener.port,
        });
    }
    let mapping = |port: Port| PortMapping {
        src_port: listener.port.get(),
        dst_port: port.get(),
        protocol: listener.protocol.to_string(),
    };
    ports.into_iter().map(mapping).collect()
}

fn interface(model: &Model, member: &Member) -> Option<Reference> {
    let holding = model.index.attachments.holding(member.endpoint.ip());
    let attached = holding.into_iter().find(|attached| Some(attached.attachment.vmi) == member.vmi)?;
    Some(Reference::new(DocumentKind::VirtualMachineInterface, interface_name(attached)))
}

/// One virtual address of a floating IP: each has a document of its own.
struct VirtualAddress {
    address: IpAddr,
    kind: AddressKind,
}

enum AddressKind {
    Cluster,
    External(ExternalKind),
}

fn virtual_addresses(floating_ip: &FloatingIp) -> impl Iterator<Item = VirtualAddress> {
    let cluster = VirtualAddress { address: floating_ip.address, kind: AddressKind::Cluster };
    let external = floating_ip.external.iter().map(|external| VirtualAddress {
        address: external.address,
        kind: AddressKind::External(external.kind),
    });
    std::iter::once(cluster).chain(external)
}

fn each_address(
    model: &Model,
    selection: Selection<'_>,
    document: impl Fn((&LoadBalancer, &FloatingIp), &VirtualAddress, NamespacedName) -> Document,
) -> Vec<Document> {
    let mut documents = Vec::new();
    for load_balancer in model.load_balancers.values() {
        for floating_ip in &load_balancer.floating_ips {
            for address in virtual_addresses(floating_ip) {
                let name = address_name(load_balancer, &address);
                if selection.takes(&name) {
                    documents.push(document((load_balancer, floating_ip), &address, name));
                }
            }
        }
    }
    documents
}

fn external_addresses(load_balancer: &LoadBalancer) -> Vec<IpAddr> {
    let external = load_balancer.floating_ips.iter().flat_map(|floating_ip| &floating_ip.external);
    external.map(|external| external.address).collect()
}

fn policy_name(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

/// Each Service port with its listeners, one per address family.
fn each_port(
    model: &Model,
    documents: impl Fn(&LoadBalancer, &[&Listener]) -> Vec<Document>,
) -> Vec<Document> {
    let mut all = Vec::new();
    for load_balancer in model.load_balancers.values() {
        let listeners = || load_balancer.floating_ips.iter().flat_map(|floating_ip| &floating_ip.listeners);
        let ports: BTreeSet<(ServiceProtocol, Port)> =
            listeners().map(|listener| (listener.protocol, listener.port)).collect();
        for port in ports {
            let parts: Vec<&Listener> =
                listeners().filter(|listener| (listener.protocol, listener.port) == port).collect();
            all.extend(documents(load_balancer, &parts));
        }
    }
    all
}

fn address_name(load_balancer: &LoadBalancer, address: &VirtualAddress) -> NamespacedName {
    let service = &load_balancer.service;
    let own = match address.kind {
        AddressKind::Cluster => format!("clusterip-{}", suffix(address.address.into())),
        AddressKind::External(ExternalKind::ExternalIp) => {
            format!("externalip-{}", address_part(address.address))
        }
        AddressKind::External(ExternalKind::LoadBalancer) => {
            format!("loadbalancer-{}", address_part(address.address))
        }
    };
    NamespacedName::new(&service.namespace, format!("{}-{own}", service.name))
}

/// An address as a part of a name.
fn address_part(address: IpAddr) -> String {
    address.to_string().replace(':', "-")
}

fn listener_name(load_balancer: &LoadBalancer, listener: &Listener) -> NamespacedName {
    let service = &load_balancer.service;
    let protocol = listener.protocol.to_string().to_lowercase();
    NamespacedName::new(&service.namespace, format!("{}-{protocol}-{}", service.name, listener.port))
}

fn member_name(pool: &NamespacedName, endpoint: SocketAddr) -> NamespacedName {
    let address = address_part(endpoint.ip());
    NamespacedName::new(&pool.namespace, format!("{}-{address}-{}", pool.name, endpoint.port()))
}
