//! Policies as Contrail's firewall policies with their rules, peer sets as address groups, labels as tags.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{
    Object, ObjectKey, Peer, PeerSetId, Peers, Policy, PolicyAction, PolicyDirection, PolicyId, PolicyRule,
    PortMatch, Ports, Tier,
};

use super::machine::machine_reference;
use super::{Document, DocumentKind, Reference, Selection, Spec, fq_name};
use crate::kube::{ObjectRef, PodSelection};
use crate::policy::{self, Meaning};
use crate::tables::Layer;
use crate::{Model, NamespacedName};

/// The type of the tag that every pod has, with its namespace as the value.
const NAMESPACE_TAG: &str = "namespace";

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirewallPolicySpec {
    fq_name: Vec<String>,
    tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u16>,
    /// The pods that it selects.
    selects: String,
    /// The directions that it governs.
    directions: Vec<String>,
    firewall_rule_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FirewallRuleSpec {
    fq_name: Vec<String>,
    parent: Reference,
    /// What its policy calls it. One rule there may be several here.
    rule_name: String,
    action_list: ActionList,
    direction: &'static str,
    endpoint_1: Endpoint,
    endpoint_2: Endpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    services: Option<Vec<Service>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct ActionList {
    simple_action: &'static str,
}

/// One end of a connection: whoever is any of this.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(skip_serializing_if = "Option::is_none")]
    any: Option<bool>,
    /// The pods that the policy selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    address_group_references: Vec<Reference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subnets: Vec<Subnet>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Subnet {
    prefix: IpNet,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    except: Vec<IpNet>,
}

/// A protocol, at these ports or at the one that the pod calls so; with neither, at the port that the address group says.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst_ports: Option<PortRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dst_port_name: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct PortRange {
    start_port: u16,
    end_port: u16,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressGroupSpec {
    fq_name: Vec<String>,
    /// Whom it means.
    means: String,
    addresses: Vec<GroupAddress>,
    firewall_policy_references: Vec<Reference>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupAddress {
    address: IpAddr,
    /// The VRF of the network whose address it is.
    address_space: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    virtual_machine_reference: Reference,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TagSpec {
    fq_name: Vec<String>,
    tag_type_name: String,
    tag_value: String,
}

/// A policy as it was written, and as nodes hold it.
struct Compiled<'a> {
    name: NamespacedName,
    subject: &'a PodSelection,
    policy: &'a Policy,
}

impl<'a> Compiled<'a> {
    fn of(model: &'a Model, reference: &ObjectRef, id: PolicyId) -> Option<Self> {
        let subject = &model.index.policies.get(reference)?.subject;
        match model.tables.get(&Layer::Policy(id), &ObjectKey::Policy(id))? {
            Object::Policy(policy) => Some(Self { name: reference.namespaced_name(), subject, policy }),
            _ => None,
        }
    }

    fn all(model: &'a Model) -> impl Iterator<Item = Self> {
        model.policy_ids.iter().filter_map(|(reference, id)| Self::of(model, reference, id))
    }

    fn governed(&self) -> impl Iterator<Item = (PolicyDirection, &'a [PolicyRule])> {
        let policy = self.policy;
        PolicyDirection::BOTH.into_iter().filter_map(|direction| Some((direction, policy.rules(direction)?)))
    }

    fn rules(&self) -> impl Iterator<Item = (NamespacedName, PolicyDirection, &'a PolicyRule)> {
        self.governed().flat_map(move |(direction, rules)| {
            rules.iter().enumerate().map(move |(i, rule)| {
                let name = format!("{}-{direction}-{i}", self.name.name);
                (NamespacedName::new(&self.name.namespace, name), direction, rule)
            })
        })
    }

    fn document(&self) -> Document {
        let (tier, priority) = match self.policy.tier {
            Tier::Admin(priority) => ("Admin", Some(priority)),
            Tier::Namespace => ("NetworkPolicy", None),
            Tier::Baseline(priority) => ("Baseline", Some(priority)),
        };
        let rules = self.rules().map(|(name, ..)| Reference::new(DocumentKind::FirewallRule, name));
        let spec = FirewallPolicySpec {
            fq_name: fq_name(&self.name),
            tier,
            priority,
            selects: self.subject.to_string(),
            directions: self.governed().map(|(direction, _)| direction.to_string()).collect(),
            firewall_rule_references: rules.collect(),
        };
        let (kind, ids) = (DocumentKind::FirewallPolicy, vec![self.policy.id.get()]);
        Document::new(kind, self.name.clone(), "", Spec::FirewallPolicy(spec), ids)
    }

    fn rule(&self, name: NamespacedName, direction: PolicyDirection, rule: &PolicyRule) -> Document {
        let subject = Endpoint { pods: Some(self.subject.to_string()), ..Endpoint::default() };
        let (endpoint_1, endpoint_2) = match direction {
            PolicyDirection::Ingress => (peers(&rule.peers), subject),
            PolicyDirection::Egress => (subject, peers(&rule.peers)),
        };
        let spec = FirewallRuleSpec {
            fq_name: fq_name(&name),
            parent: Reference::new(DocumentKind::FirewallPolicy, self.name.clone()),
            rule_name: rule.name.clone(),
            action_list: ActionList { simple_action: action(rule.action) },
            // The first end speaks to the second.
            direction: ">",
            endpoint_1,
            endpoint_2,
            services: match &rule.ports {
                Ports::Any => None,
                Ports::These(ports) => Some(ports.iter().map(service).collect()),
            },
        };
        Document::new(DocumentKind::FirewallRule, name, "", Spec::FirewallRule(spec), Vec::new())
    }
}

pub(super) fn firewall_policies(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let selected = Compiled::all(model).filter(|compiled| selection.takes(&compiled.name));
    selected.map(|compiled| compiled.document()).collect()
}

pub(super) fn firewall_rules(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let mut documents = Vec::new();
    for compiled in Compiled::all(model) {
        let selected = compiled.rules().filter(|(name, ..)| selection.takes(name));
        documents.extend(selected.map(|(name, direction, rule)| compiled.rule(name, direction, rule)));
    }
    documents
}

pub(super) fn address_groups(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let sets = model.peer_sets.iter().map(|(set, meaning)| (group_name(set), set, meaning));
    let selected = sets.filter(|(name, ..)| selection.takes(name));
    selected.map(|(name, set, meaning)| address_group(model, name, set, meaning)).collect()
}

fn address_group(model: &Model, name: NamespacedName, set: PeerSetId, meaning: &Meaning) -> Document {
    let members = model.peer_sets.members(set);
    let addresses = members.flat_map(|member| {
        let elements = policy::elements(&model.index, (set, meaning), member);
        elements.into_iter().filter_map(|(_, object)| match object {
            Object::PeerAddress(element) => Some(GroupAddress {
                address: element.key.address,
                address_space: element.key.space.get(),
                port: element.port.map(|port| port.get()),
                virtual_machine_reference: machine_reference(member),
            }),
            _ => None,
        })
    });
    let referring: BTreeSet<PolicyId> = model.peer_sets.policies(set).copied().collect();
    let policies = model.policy_ids.iter().filter(|(_, id)| referring.contains(id));
    let reference = |(policy, _): (&ObjectRef, PolicyId)| {
        Reference::new(DocumentKind::FirewallPolicy, policy.namespaced_name())
    };
    let spec = AddressGroupSpec {
        fq_name: fq_name(&name),
        means: meaning.to_string(),
        addresses: addresses.collect(),
        firewall_policy_references: policies.map(reference).collect(),
    };
    Document::new(DocumentKind::AddressGroup, name, "", Spec::AddressGroup(spec), vec![set.get()])
}

/// The labels of pods, and their namespaces.
pub(super) fn tags(model: &Model, selection: Selection<'_>) -> Vec<Document> {
    let mut tags: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, pod) in &model.index.pods {
        tags.insert((NAMESPACE_TAG, &name.namespace));
        tags.extend(pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    }
    let named =
        tags.into_iter().map(|(key, value)| (NamespacedName::new("", format!("{key}={value}")), key, value));
    let document = |(name, key, value): (NamespacedName, &str, &str)| {
        let (tag_type_name, tag_value) = (key.to_owned(), value.to_owned());
        let spec = TagSpec { fq_name: fq_name(&name), tag_type_name, tag_value };
        Document::new(DocumentKind::Tag, name, "", Spec::Tag(spec), Vec::new())
    };
    named.filter(|(name, ..)| selection.takes(name)).map(document).collect()
}

/// Sets belong to no namespace, and what they mean makes no name.
fn group_name(set: PeerSetId) -> NamespacedName {
    NamespacedName::new("", format!("peer-set-{set}"))
}

fn peers(peers: &Peers) -> Endpoint {
    let mut endpoint = Endpoint::default();
    match peers {
        Peers::Any => endpoint.any = Some(true),
        Peers::These(peers) => {
            for peer in peers {
                match peer {
                    Peer::Set(set) => endpoint
                        .address_group_references
                        .push(Reference::new(DocumentKind::AddressGroup, group_name(*set))),
                    Peer::Block { prefix, except } => {
                        endpoint.subnets.push(Subnet { prefix: *prefix, except: except.clone() });
                    }
                }
            }
        }
    }
    endpoint
}

fn service(port: &PortMatch) -> Service {
    let (protocol, dst_ports, dst_port_name) = match port {
        PortMatch::Range { protocol, first, last } => {
            (protocol, Some(PortRange { start_port: *first, end_port: *last }), None)
        }
        PortMatch::Own { protocol, name } => (protocol, None, Some(name.clone())),
        PortMatch::Peer { protocol } => (protocol, None, None),
    };
    Service { protocol: protocol.to_string(), dst_ports, dst_port_name }
}

fn action(action: PolicyAction) -> &'static str {
    match action {
        PolicyAction::Allow => "pass",
        PolicyAction::Deny => "deny",
        PolicyAction::Pass => "next-tier",
    }
}
