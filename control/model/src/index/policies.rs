//! Policies in the index, and who is selected by what.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Index;
use crate::NamespacedName;
use crate::kube::{
    NAMESPACE_NAME, NamespaceSelection, ObjectRef, PodRecord, PodSelection, PolicyRecord, PortName,
    Requirement, Selector, Test,
};
use crate::policy::anchor::{Anchor, anchors};
use crate::policy::{Meaning, Whom};

impl Index {
    pub(super) fn put_policy(&mut self, reference: &ObjectRef, record: Option<PolicyRecord>) {
        if self.policies.get(reference) == record.as_ref() {
            return;
        }
        let old = self.policies.remove(reference);
        if old.as_ref().map(bearing) != record.as_ref().map(bearing) {
            let selections = old.iter().chain(&record).map(|record| &record.subject);
            let pods: Vec<_> =
                selections.flat_map(|subject| self.pods_selected_by(subject)).cloned().collect();
            self.dirty.pods.extend(pods);
        }
        if old.is_some() {
            self.policy_anchors.remove(reference);
            self.policies_with_nodes.remove(reference);
        }
        if let Some(new) = record {
            self.policy_anchors.insert_selection(reference.clone(), &new.subject);
            if new.means_nodes() {
                self.policies_with_nodes.insert(reference.clone());
            }
            self.policies.insert(reference.clone(), new);
        }
        self.dirty.policies.insert(reference.clone());
    }

    /// The policies that select a pod, in order of their names.
    pub fn policies_selecting(
        &self,
        name: &NamespacedName,
        pod: &PodRecord,
    ) -> Vec<(&ObjectRef, &PolicyRecord)> {
        if !pod.has_interface() {
            return Vec::new();
        }
        let perhaps = self.policy_anchors.hanging_on(self.anchors(name, pod));
        let perhaps = perhaps.filter_map(|reference| self.policies.get_key_value(reference));
        let mut selecting: Vec<_> =
            perhaps.filter(|(_, policy)| self.selects(&policy.subject, name, pod)).collect();
        selecting.sort_unstable_by_key(|(reference, _)| *reference);
        selecting
    }

    /// What policies and peer sets that mean a pod may hang on.
    pub fn anchors<'a>(
        &'a self,
        name: &'a NamespacedName,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = Anchor> + 'a {
        let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let ports: BTreeSet<&str> = pod.ports.iter().map(|port| port.name.as_str()).collect();
        anchors((&name.namespace, self.namespace_labels(&name.namespace)), labels, ports.into_iter())
    }

    /// Whether a pod is selected. Those on the node's own network are not: they are the node.
    pub fn selects(&self, selection: &PodSelection, name: &NamespacedName, pod: &PodRecord) -> bool {
        pod.has_interface()
            && self.has_namespace(&selection.namespaces, &name.namespace)
            && selection.pods.matches(|key| pod.labels.get(key).map(String::as_str))
    }

    /// The pods that are selected.
    pub fn pods_selected_by(&self, selection: &PodSelection) -> Vec<&NamespacedName> {
        let namespaces: Vec<&str> = match &selection.namespaces {
            NamespaceSelection::Named(name) => vec![name],
            labelled => self.inhabited().filter(|name| self.has_namespace(labelled, name)).collect(),
        };
        let candidates = namespaces.into_iter().flat_map(|name| self.candidates(name, &selection.pods));
        let known = candidates.filter_map(|name| self.pods.get_key_value(name));
        known.filter(|(name, pod)| self.selects(selection, name, pod)).map(|(name, _)| name).collect()
    }

    /// The pods that a peer set means, as far as they have addresses.
    pub fn pods_meant(&self, meaning: &Meaning) -> Vec<&NamespacedName> {
        match &meaning.whom {
            Whom::Pods(selection) => self.pods_selected_by(selection),
            Whom::Block(_) => self.pods.keys().collect(),
        }
    }

    /// The nodes with such labels.
    pub fn nodes_selected<'a>(&'a self, selector: &'a Selector) -> impl Iterator<Item = &'a str> {
        let nodes = self.nodes.iter();
        nodes
            .filter(|(_, node)| selector.matches(|key| node.labels.get(key).map(String::as_str)))
            .map(|(name, _)| name.as_str())
    }

    /// The pods that may be whom an address belongs to, in whatever address space.
    pub fn claimants(&self, address: IpAddr) -> impl Iterator<Item = &NamespacedName> {
        let attached = self.attachments.holding(address).into_iter();
        attached.map(|attached| &attached.attachment.pod).chain(self.stated.get(&address))
    }

    fn has_namespace(&self, selection: &NamespaceSelection, name: &str) -> bool {
        match selection {
            NamespaceSelection::Named(named) => named == name,
            NamespaceSelection::Labelled(selector) => selector.matches(|key| self.namespace_label(name, key)),
        }
    }

    fn namespace_label<'a>(&'a self, name: &'a str, key: &str) -> Option<&'a str> {
        if key == NAMESPACE_NAME {
            return Some(name);
        }
        self.namespaces.get(name)?.labels.get(key).map(String::as_str)
    }

    /// A namespace's labels, which are at least its name.
    fn namespace_labels<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let written = self.namespaces.get(name).into_iter().flat_map(|record| &record.labels);
        let written = written.map(|(key, value)| (key.as_str(), value.as_str()));
        written.filter(|(key, _)| *key != NAMESPACE_NAME).chain([(NAMESPACE_NAME, name)])
    }

    /// The namespaces that have pods, each once.
    fn inhabited(&self) -> impl Iterator<Item = &str> {
        let from =
            |first: NamespacedName| self.pods.range(first..).next().map(|(name, _)| name.namespace.as_str());
        // No name comes between one and the same with a zero at its end.
        std::iter::successors(from(NamespacedName::new("", "")), move |last| {
            from(NamespacedName::new(format!("{last}\0"), ""))
        })
    }

    /// Some pods of a namespace, among them all that the selector means.
    fn candidates(&self, namespace: &str, selector: &Selector) -> Vec<&NamespacedName> {
        let values = selector.requirements().find_map(|Requirement { key, test }| match test {
            Test::In(values) => Some((key, values)),
            Test::NotIn(_) | Test::Exists | Test::DoesNotExist => None,
        });
        let Some((key, values)) = values else { return self.pods_in(namespace).collect() };
        let label = |value: &String| (namespace.to_owned(), key.clone(), value.clone());
        values.iter().flat_map(|value| self.pods_by_label.get(&label(value))).collect()
    }
}

/// What of a policy the bindings of pods bear.
fn bearing(record: &PolicyRecord) -> (&PodSelection, BTreeSet<&PortName>) {
    (&record.subject, record.own_ports().collect())
}
