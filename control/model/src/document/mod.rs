//! The objects as Contrail documents them: what `vrctl get` shows. They are made when somebody asks.

mod load_balancer;
mod machine;
mod network;
mod policy;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::{Model, NamespacedName};

/// The API group of Contrail's objects.
const API_VERSION: &str = "core.contrail.juniper.net/v1alpha1";

/// The kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum DocumentKind {
    /// A Namespace.
    Project,
    /// A tenant network.
    VirtualNetwork,
    /// Its forwarding table.
    RoutingInstance,
    /// One of its prefixes.
    Subnet,
    /// What connects tenant networks.
    VirtualNetworkRouter,
    /// A Node.
    VirtualRouter,
    /// A Pod.
    VirtualMachine,
    /// An interface.
    VirtualMachineInterface,
    /// An address of interfaces, or a virtual one.
    #[serde(rename = "InstanceIP")]
    InstanceIp,
    /// A virtual address with its port mappings.
    #[serde(rename = "FloatingIP")]
    FloatingIp,
    /// A Service.
    LoadBalancer,
    /// A port of a Service.
    Listener,
    /// The members at that port.
    Pool,
    /// An endpoint at that port.
    Member,
    /// A policy.
    FirewallPolicy,
    /// One of its rules.
    FirewallRule,
    /// A set of addresses that rules refer to.
    AddressGroup,
    /// A label that pods have.
    Tag,
}

/// One object, ready to be written as JSON or YAML.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    /// Its kind.
    pub kind: DocumentKind,
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

/// Names an object and says where it came from.
#[derive(Debug, Clone, Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
}

/// What an object is.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Spec {
    Project(network::ProjectSpec),
    VirtualNetwork(network::VirtualNetworkSpec),
    RoutingInstance(network::RoutingInstanceSpec),
    Subnet(network::SubnetSpec),
    VirtualNetworkRouter(network::VirtualNetworkRouterSpec),
    VirtualRouter(machine::VirtualRouterSpec),
    VirtualMachine(machine::VirtualMachineSpec),
    VirtualMachineInterface(machine::VirtualMachineInterfaceSpec),
    InstanceIp(machine::InstanceIpSpec),
    FloatingIp(load_balancer::FloatingIpSpec),
    LoadBalancer(load_balancer::LoadBalancerSpec),
    Listener(load_balancer::ListenerSpec),
    Pool(load_balancer::PoolSpec),
    Member(load_balancer::MemberSpec),
    FirewallPolicy(policy::FirewallPolicySpec),
    FirewallRule(policy::FirewallRuleSpec),
    AddressGroup(policy::AddressGroupSpec),
    Tag(policy::TagSpec),
}

/// What became of an object.
#[derive(Debug, Clone, Default, Serialize)]
struct Status {
    state: &'static str,
    /// The numbers by which nodes know it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<u32>,
}

/// Points at another object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Reference {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: DocumentKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
}

/// Which objects of a kind are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection<'a> {
    /// All.
    All,
    /// The one that [`Document::name`] calls so.
    Named(&'a str),
}

impl Selection<'_> {
    fn takes(self, name: &NamespacedName) -> bool {
        match self {
            Self::All => true,
            Self::Named(text) => match name.namespace.as_str() {
                "" => text == name.name,
                namespace => text.split_once('/') == Some((namespace, &name.name)),
            },
        }
    }
}

impl Document {
    /// What it is called: `namespace/name`, or the bare name of a kind that lives in no namespace.
    pub fn name(&self) -> String {
        match self.metadata.namespace.as_str() {
            "" => self.metadata.name.clone(),
            namespace => format!("{namespace}/{}", self.metadata.name),
        }
    }

    fn new(kind: DocumentKind, name: NamespacedName, uid: &str, spec: Spec, ids: Vec<u32>) -> Self {
        let NamespacedName { namespace, name } = name;
        Self {
            api_version: API_VERSION,
            kind,
            metadata: Metadata { name, namespace, uid: uid.to_owned() },
            spec,
            status: Status { state: "Success", ids },
        }
    }
}

impl Reference {
    fn new(kind: DocumentKind, name: NamespacedName) -> Self {
        Self { api_version: API_VERSION, kind, namespace: name.namespace, name: name.name }
    }
}

/// Contrail's name with all its parents: the domain, then the project, then the object.
fn fq_name(name: &NamespacedName) -> Vec<String> {
    ["default-domain", &name.namespace, &name.name]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

impl Model {
    /// Objects of a kind, in order of their names. Nothing is made of those that are not asked for.
    pub fn documents(&self, kind: DocumentKind, selection: Selection<'_>) -> Vec<Document> {
        let mut documents = match kind {
            DocumentKind::Project => network::projects(self, selection),
            DocumentKind::VirtualNetwork => network::virtual_networks(self, selection),
            DocumentKind::RoutingInstance => network::routing_instances(self, selection),
            DocumentKind::Subnet => network::subnets(self, selection),
            DocumentKind::VirtualNetworkRouter => network::virtual_network_routers(self, selection),
            DocumentKind::VirtualRouter => machine::virtual_routers(self, selection),
            DocumentKind::VirtualMachine => machine::virtual_machines(self, selection),
            DocumentKind::VirtualMachineInterface => machine::interfaces(self, selection),
            DocumentKind::InstanceIp => {
                let mut all = machine::instance_ips(self, selection);
                all.extend(load_balancer::instance_ips(self, selection));
                all
            }
            DocumentKind::FloatingIp => load_balancer::floating_ips(self, selection),
            DocumentKind::LoadBalancer => load_balancer::load_balancers(self, selection),
            DocumentKind::Listener => load_balancer::listeners(self, selection),
            DocumentKind::Pool => load_balancer::pools(self, selection),
            DocumentKind::Member => load_balancer::members(self, selection),
            DocumentKind::FirewallPolicy => policy::firewall_policies(self, selection),
            DocumentKind::FirewallRule => policy::firewall_rules(self, selection),
            DocumentKind::AddressGroup => policy::address_groups(self, selection),
            DocumentKind::Tag => policy::tags(self, selection),
        };
        documents.sort_by_cached_key(Document::name);
        documents
    }
}

impl DocumentKind {
    /// Each kind with its long name and its short one.
    pub const NAMES: [(Self, &'static str, &'static str); 18] = [
        (Self::Project, "project", "proj"),
        (Self::VirtualNetwork, "virtual-network", "vn"),
        (Self::RoutingInstance, "routing-instance", "ri"),
        (Self::Subnet, "subnet", "sn"),
        (Self::VirtualNetworkRouter, "virtual-network-router", "vnr"),
        (Self::VirtualRouter, "virtual-router", "vr"),
        (Self::VirtualMachine, "virtual-machine", "vm"),
        (Self::VirtualMachineInterface, "virtual-machine-interface", "vmi"),
        (Self::InstanceIp, "instance-ip", "iip"),
        (Self::FloatingIp, "floating-ip", "fip"),
        (Self::LoadBalancer, "load-balancer", "lb"),
        (Self::Listener, "listener", "lbl"),
        (Self::Pool, "pool", "lbp"),
        (Self::Member, "member", "lbm"),
        (Self::FirewallPolicy, "firewall-policy", "fp"),
        (Self::FirewallRule, "firewall-rule", "fr"),
        (Self::AddressGroup, "address-group", "ag"),
        (Self::Tag, "tag", "tag"),
    ];
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(kind, ..)| kind == self).map_or("", |(_, long, _)| long);
        f.write_str(name)
    }
}

impl FromStr for DocumentKind {
    type Err = String;

    /// Takes the long name, the short one, the kind as documents spell it, and plurals, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain: String = text.to_lowercase().chars().filter(|char| char.is_ascii_alphabetic()).collect();
        let singular = plain.strip_suffix('s').unwrap_or(&plain);
        let singular_of_y = plain.strip_suffix("ies").map(|stem| format!("{stem}y")).unwrap_or_default();
        let found = Self::NAMES.iter().find(|(_, long, short)| {
            let long: String = long.chars().filter(char::is_ascii_alphabetic).collect();
            [plain.as_str(), singular, &singular_of_y].into_iter().any(|text| text == long || text == *short)
        });
        found.map(|(kind, ..)| *kind).ok_or_else(|| {
            let known: Vec<_> =
                Self::NAMES.iter().map(|(_, long, short)| format!("{long} ({short})")).collect();
            format!("\"{text}\" is no kind of object; there are {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_by_many_names() {
        for text in ["fip", "fips", "floating-ip", "FloatingIP", "floatingips", "floating_ip"] {
            assert_eq!(text.parse(), Ok(DocumentKind::FloatingIp), "{text}");
        }
        assert_eq!("FirewallPolicies".parse(), Ok(DocumentKind::FirewallPolicy));
        assert!("pods".parse::<DocumentKind>().unwrap_err().contains("floating-ip (fip)"));
        for (kind, ..) in DocumentKind::NAMES {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
    }
}
