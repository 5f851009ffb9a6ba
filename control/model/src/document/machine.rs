//! Virtual routers, virtual machines, their interfaces and addresses.

use std::net::IpAddr;

use serde::Serialize;

use super::network::suffix;
use super::{Document, DocumentKind, Reference, Selection, Spec, fq_name};
use crate::config::ModelConfig;
use crate::index::Attached;
use crate::kube::NodeKind;
use crate::network::VirtualNetwork;
use crate::{Family, Model, NamespacedName};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualRouterSpec {
    fq_name: Vec<String>,
    #[serde(rename = "ipAddress", skip_serializing_if = "Option::is_none")]
    ip_address: Option<IpAddr>,
    /// Every address of the node itself.
    addresses: Vec<IpAddr>,
    #[serde(skip_serializing_if = "String::is_empty")]
    zone: String,
    /// Who forwards there: `vrouter`, `kernel` or `unknown`.
    forwarding: &'static str,
    virtual_machine_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualMachineSpec {
    fq_name: Vec<String>,
    server_type: &'static str,
    server_name: String,
    server_namespace: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VirtualMachineInterfaceSpec {
    fq_name: Vec<String>,
    virtual_machine_interface_mac_addresses: MacAddresses,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_network_reference: Option<Reference>,
    virtual_machine_references: Vec<Reference>,
    port_security_enabled: bool,
    virtual_router: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct MacAddresses {
    mac_address: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceIpSpec {
    fq_name: Vec<String>,
    #[serde(rename = "instanceIPAddress")]
    address: IpAddr,
    #[serde(rename = "instanceIPFamily")]
    family: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_network_reference: Option<Reference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    virtual_machine_interface_references: Vec<Reference>,
}

pub(super) fn virtual_routers(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |(name, node): (&String, &crate::kube::NodeRecord)| {
        let own = NamespacedName::new("", name);
        if !selection.takes(&own) {
            return None;
        }
        let spec = VirtualRouterSpec {
            fq_name: fq_name(&own),
            ip_address: model.index.vtep(name),
            addresses: model.index.own_addresses(name),
            zone: node.zone.clone(),
            forwarding: match node.kind {
                NodeKind::Vrouter => "vrouter",
                NodeKind::Kernel { .. } => "kernel",
                NodeKind::Unknown => "unknown",
            },
            virtual_machine_references: model.index.pods_on(name).map(machine_reference).collect(),
        };
        let ids = model.nodes.get(name).map(|given| given.router.get()).into_iter().collect();
        Some(Document::new(DocumentKind::VirtualRouter, own, &node.uid, Spec::VirtualRouter(spec), ids))
    };
    model.index.nodes.iter().filter_map(document).collect()
}

pub(super) fn virtual_machines(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let pods = model.index.pods.iter().filter(|(name, _)| selection.takes(name));
    pods.map(|(name, pod)| {
        let spec = VirtualMachineSpec {
            fq_name: fq_name(name),
            server_type: "container",
            server_name: name.name.clone(),
            server_namespace: name.namespace.clone(),
        };
        Document::new(
            DocumentKind::VirtualMachine,
            name.clone(),
            &pod.uid,
            Spec::VirtualMachine(spec),
            Vec::new(),
        )
    })
    .collect()
}

pub(super) fn interfaces(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let document = |attached: &Attached| {
        let attachment = &attached.attachment;
        let name = interface_name(attached);
        if !selection.takes(&name) {
            return None;
        }
        let spec = VirtualMachineInterfaceSpec {
            fq_name: fq_name(&name),
            virtual_machine_interface_mac_addresses: MacAddresses {
                mac_address: vec![attachment.mac.to_string()],
            },
            virtual_network_reference: network_of(model, attached).map(network_reference),
            virtual_machine_references: vec![machine_reference(&attachment.pod)],
            port_security_enabled: true,
            virtual_router: attached.node.clone(),
        };
        let spec = Spec::VirtualMachineInterface(spec);
        let ids = vec![attachment.vmi.get()];
        Some(Document::new(DocumentKind::VirtualMachineInterface, name, "", spec, ids))
    };
    model.index.attachments.iter().filter_map(document).collect()
}

/// The addresses of interfaces: their own, and those by which their node reaches them.
pub(super) fn instance_ips(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let link_local = model.index.networks.named(&ModelConfig::link_local_name()).ok();
    let attachments = model.index.attachments.iter();
    let documents = attachments.flat_map(|attached| {
        let (interface, attachment) = (interface_name(attached), &attached.attachment);
        let own = attachment.addresses.iter().map(|&address| {
            let name = format!("{}-{}", interface.name, suffix(address.into()));
            (name, address, network_of(model, attached))
        });
        let link_local = attachment.link_local.iter().map(|&address| {
            (format!("{}-link-local-{}", interface.name, suffix(address.into())), address, link_local)
        });
        let named = own.chain(link_local).filter_map(|(name, address, network)| {
            let name = NamespacedName::new(&interface.namespace, name);
            let reference = Reference::new(DocumentKind::VirtualMachineInterface, interface.clone());
            selection.takes(&name).then(|| instance_ip(name, address, network, vec![reference]))
        });
        named.collect::<Vec<_>>()
    });
    documents.collect()
}

pub(super) fn instance_ip(
    name: NamespacedName,
    address: IpAddr,
    network: Option<&VirtualNetwork>,
    interfaces: Vec<Reference>,
) -> Document {
    let spec = InstanceIpSpec {
        fq_name: fq_name(&name),
        address,
        family: suffix(Family::from(address)),
        virtual_network_reference: network.map(network_reference),
        virtual_machine_interface_references: interfaces,
    };
    Document::new(DocumentKind::InstanceIp, name, "", Spec::InstanceIp(spec), Vec::new())
}

pub(super) fn machine_reference(pod: &NamespacedName) -> Reference {
    Reference::new(DocumentKind::VirtualMachine, pod.clone())
}

pub(super) fn interface_name(attached: &Attached) -> NamespacedName {
    let attachment = &attached.attachment;
    NamespacedName::new(
        &attachment.pod.namespace,
        format!("{}-{}", attachment.pod.name, attachment.interface),
    )
}

fn network_reference(network: &VirtualNetwork) -> Reference {
    Reference::new(DocumentKind::VirtualNetwork, network.name.clone())
}

fn network_of<'a>(model: &'a Model, attached: &Attached) -> Option<&'a VirtualNetwork> {
    model.index.networks.get(attached.attachment.vrf)
}
