//! Tenant networks as Contrail has them: VirtualNetworks and their Subnets.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use vrouter_objects::Vni;

use super::custom::{Custom, or_default};
use super::field;
use crate::network::NetworkSubnet;
use crate::problem::{Finding, Findings};
use crate::{Family, NamespacedName};

/// What a VirtualNetwork is to be. What is not named here (route targets, forwarding modes and the like) says how Contrail's own
/// forwarding works, and not what a network is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualNetworkSpec {
    /// Its IPv4 subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v4_subnet_reference: Option<SubnetReference>,
    /// Its IPv6 subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v6_subnet_reference: Option<SubnetReference>,
    /// The VNI that it asks for; 0: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_network_network_id: Option<i64>,
    /// Whether its packets go out in the node's name: they always do.
    #[serde(default, rename = "fabricSNAT", skip_serializing_if = "Option::is_none")]
    pub fabric_snat: Option<bool>,
    /// Whether its packets go out in their own name: they never do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric_forwarding: Option<bool>,
}

/// Points at a Subnet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubnetReference {
    /// Its namespace; absent: the VirtualNetwork's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
}

/// What a Subnet is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {
    /// Its prefix.
    #[serde(default, deserialize_with = "or_default")]
    pub cidr: String,
    /// The address that nodes answer at; absent: the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_gateway: Option<String>,
    /// Which addresses are picked for pods; none: any.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<SubnetRange>,
}

/// Some addresses of a Subnet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetRange {
    /// From where to where.
    #[serde(default, deserialize_with = "or_default")]
    pub ip_ranges: Vec<IpRange>,
}

/// Addresses in a row, both ends included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IpRange {
    /// The first.
    #[serde(default, deserialize_with = "or_default")]
    pub from: String,
    /// The last.
    #[serde(default, deserialize_with = "or_default")]
    pub to: String,
}

/// What the model keeps of a VirtualNetwork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualNetworkRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// When it was made, where the source says so: the older claim on a VNI wins.
    pub created: Option<Time>,
    /// Its labels, by which routers select it.
    pub labels: BTreeMap<String, String>,
    /// Its subnets.
    pub subnets: Vec<SubnetWish>,
    /// The VNI that it asks for.
    pub vni: Option<Vni>,
}

/// A subnet that a VirtualNetwork is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetWish {
    /// The field that says so.
    pub field: &'static str,
    /// Its family.
    pub family: Family,
    /// The Subnet.
    pub name: NamespacedName,
}

/// What the model keeps of a Subnet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubnetRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// What it is. `None`: it cannot be used.
    pub subnet: Option<NetworkSubnet>,
}

impl VirtualNetworkRecord {
    /// Reads a VirtualNetwork of a namespace.
    pub fn read(namespace: &str, network: &Custom<VirtualNetworkSpec>, findings: &mut Findings) -> Self {
        let (metadata, spec) = (&network.metadata, &network.spec);
        let wish = |field, family, reference: &Option<SubnetReference>| {
            let SubnetReference { namespace: own, name } = reference.as_ref()?;
            let namespace = own.as_deref().filter(|own| !own.is_empty()).unwrap_or(namespace);
            Some(SubnetWish { field, family, name: NamespacedName::new(namespace, name) })
        };
        let v4 = wish("spec.v4SubnetReference", Family::V4, &spec.v4_subnet_reference);
        let v6 = wish("spec.v6SubnetReference", Family::V6, &spec.v6_subnet_reference);
        let vni = spec.virtual_network_network_id.filter(|number| *number != 0);
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.clone(),
            labels: metadata.labels.clone().unwrap_or_default(),
            subnets: v4.into_iter().chain(v6).collect(),
            vni: vni.and_then(|number| findings.check("spec.virtualNetworkNetworkId", vni_of(number))),
        }
    }

    /// Whether it says nothing of what it is to be.
    pub fn is_bare(&self) -> bool {
        self.subnets.is_empty() && self.vni.is_none()
    }
}

/// What a VirtualNetwork asks for that nobody here does.
pub fn unserved(network: &Custom<VirtualNetworkSpec>) -> Vec<Finding> {
    let mut findings = Findings::default();
    if network.spec.fabric_snat == Some(false) {
        findings.add(
            "spec.fabricSNAT",
            "what its pods send to outside goes there in the node's name all the same",
        );
    }
    if network.spec.fabric_forwarding == Some(true) {
        findings.add("spec.fabricForwarding", "what its pods send to outside goes there in the node's name");
    }
    findings.into_vec()
}

impl SubnetRecord {
    /// Reads the Subnet of this name.
    pub fn read(name: &NamespacedName, subnet: &Custom<SubnetSpec>, findings: &mut Findings) -> Self {
        let uid = subnet.metadata.uid.clone().unwrap_or_default();
        Self { uid, subnet: read_subnet(name, &subnet.spec, findings) }
    }
}

fn read_subnet(name: &NamespacedName, spec: &SubnetSpec, findings: &mut Findings) -> Option<NetworkSubnet> {
    let prefix = findings.check("spec.cidr", field::pod_prefix(&spec.cidr))?;
    let mut subnet = NetworkSubnet::of_pods(name.clone(), prefix);
    if let Some(text) = spec.default_gateway.as_deref().filter(|text| !text.is_empty()) {
        let gateway = findings.check("spec.defaultGateway", field::endpoint_address(text))?;
        if !prefix.contains(&gateway) || subnet.is_whole(gateway) {
            findings.add("spec.defaultGateway", format!("{gateway} cannot be an interface's in {prefix}"));
            return None;
        }
        subnet.gateway = Some(gateway);
    }
    for (i, range) in spec.ranges.iter().enumerate() {
        for (j, IpRange { from, to }) in range.ip_ranges.iter().enumerate() {
            let field = format!("spec.ranges[{i}].ipRanges[{j}]");
            let from = findings.check(format!("{field}.from"), field::address(from))?;
            let to = findings.check(format!("{field}.to"), field::address(to))?;
            if !prefix.contains(&from) || !prefix.contains(&to) || from > to {
                findings.add(field, format!("{from} to {to} is no range of {prefix}"));
                return None;
            }
            subnet.ranges.push((from, to));
        }
    }
    Some(subnet)
}

fn vni_of(number: i64) -> Result<Vni, String> {
    let vni =
        u32::try_from(number).ok().filter(|number| *number > 0).and_then(|number| Vni::new(number).ok());
    vni.ok_or_else(|| format!("{number} is no VNI: they are 1 to 16777215"))
}
