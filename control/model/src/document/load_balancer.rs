//! Floating IPs, load balancers, listeners, pools and members.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use vrouter_objects::{MemberState, Port, ServiceProtocol};

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
    vip_addresses: Vec<IpAddr>,
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
    /// `active`: takes new flows; `draining`: keeps those it has.
    condition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_machine_reference: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_machine_interface_reference: Option<Reference>,
}

/// The virtual addresses of services: the parents of their floating IPs.
pub(super) fn instance_ips(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_floating_ip(model, selection, |floating_ip, name| {
        instance_ip(name, floating_ip.address, Some(&model.config.services), Vec::new())
    })
}

pub(super) fn floating_ips(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    each_floating_ip(model, selection, |floating_ip, name| {
        let active = floating_ip.listeners.iter().flat_map(active_members);
        let interfaces: BTreeSet<Reference> = active.filter_map(|member| interface(model, member)).collect();
        let spec = FloatingIpSpec {
            fq_name: fq_name(&name),
            address: floating_ip.address,
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
            vip_addresses: load_balancer.floating_ips.iter().map(|floating_ip| floating_ip.address).collect(),
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
    each_port(model, |load_balancer, parts| {
        let pool = listener_name(load_balancer, parts[0]);
        let members = parts.iter().flat_map(|listener| &listener.members);
        let named = members.map(|member| (member_name(&pool, member.endpoint), member));
        let selected = named.filter(|(name, _)| selection.takes(name));
        selected.map(|(name, member)| member_document(model, &pool, name, member)).collect()
    })
}

fn member_document(model: &Model, pool: &NamespacedName, name: NamespacedName, member: &Member) -> Document {
    let spec = MemberSpec {
        fq_name: fq_name(&name),
        parent: Reference::new(DocumentKind::Pool, pool.clone()),
        address: member.endpoint.ip(),
        protocol_port: member.port.get(),
        condition: match member.state {
            MemberState::Active => "active",
            MemberState::Draining => "draining",
        },
        virtual_machine_reference: member.pod.as_ref().map(machine_reference),
        virtual_machine_interface_reference: interface(model, member),
    };
    Document::new(DocumentKind::Member, name, "", Spec::Member(spec), vec![member.id.get()])
}

/// A listener's mappings: one per port that its members have, which is one unless a named port differs between pods.
/// Without members, it is the port they would have; what only the pods could tell defaults to the Service's port.
fn port_mappings(listener: &Listener) -> Vec<PortMapping> {
    let mut ports: BTreeSet<Port> = active_members(listener).map(|member| member.port).collect();
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

fn active_members(listener: &Listener) -> impl Iterator<Item = &Member> {
    listener.members.iter().filter(|member| member.state == MemberState::Active)
}

fn interface(model: &Model, member: &Member) -> Option<Reference> {
    let holding = model.index.attachments.holding(member.vrf, member.endpoint.ip());
    let attached = holding.into_iter().find(|attached| Some(attached.attachment.vmi) == member.vmi)?;
    Some(Reference::new(DocumentKind::VirtualMachineInterface, interface_name(attached)))
}

fn each_floating_ip(
    model: &Model,
    selection: Selection<'_>,
    document: impl Fn(&FloatingIp, NamespacedName) -> Document,
) -> Vec<Document> {
    let load_balancers = model.load_balancers.values();
    load_balancers
        .flat_map(|load_balancer| load_balancer.floating_ips.iter().map(move |one| (load_balancer, one)))
        .map(|(load_balancer, one)| (one, address_name(load_balancer, one.address)))
        .filter(|(_, name)| selection.takes(name))
        .map(|(floating_ip, name)| document(floating_ip, name))
        .collect()
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

fn address_name(load_balancer: &LoadBalancer, address: IpAddr) -> NamespacedName {
    let service = &load_balancer.service;
    NamespacedName::new(&service.namespace, format!("{}-clusterip-{}", service.name, suffix(address.into())))
}

fn listener_name(load_balancer: &LoadBalancer, listener: &Listener) -> NamespacedName {
    let service = &load_balancer.service;
    let protocol = listener.protocol.to_string().to_lowercase();
    NamespacedName::new(&service.namespace, format!("{}-{protocol}-{}", service.name, listener.port))
}

fn member_name(pool: &NamespacedName, endpoint: SocketAddr) -> NamespacedName {
    let address = endpoint.ip().to_string().replace(':', "-");
    NamespacedName::new(&pool.namespace, format!("{}-{address}-{}", pool.name, endpoint.port()))
}
