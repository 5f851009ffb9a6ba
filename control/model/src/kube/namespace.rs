//! Namespaces: Contrail's projects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;

use super::network_wish::NetworkWish;
use crate::problem::Findings;

/// The label by which a Namespace asks for networks of its own.
const ISOLATION_LABEL: &str = "core.juniper.net/isolated-namespace";
/// The annotation by which it did before there was that label.
const ISOLATION_ANNOTATION: &str = "opencontrail.org/isolation";

/// What the model keeps of a Namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it has networks of its own.
    pub isolation: Isolation,
    /// The network that its pods and services are in that ask for none themselves.
    pub network: NetworkWish,
}

/// Whether a Namespace has networks of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// It shares the cluster's.
    Shared,
    /// It has its own, as this field says.
    Isolated(String),
}

impl NamespaceRecord {
    /// Reads a Namespace.
    pub fn read(namespace: &Namespace, findings: &mut Findings) -> Self {
        let metadata = &namespace.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            isolation: Isolation::read(metadata.labels.as_ref(), metadata.annotations.as_ref(), findings),
            network: NetworkWish::read(name, metadata.annotations.as_ref(), findings),
        }
    }

    /// Whether it has networks of its own.
    pub fn is_isolated(&self) -> bool {
        matches!(self.isolation, Isolation::Isolated(_))
    }
}

impl Isolation {
    fn read(
        labels: Option<&BTreeMap<String, String>>,
        annotations: Option<&BTreeMap<String, String>>,
        findings: &mut Findings,
    ) -> Self {
        let said = |all: Option<&BTreeMap<String, String>>, list: &str, key: &str| {
            let value = all?.get(key)?.trim().to_lowercase();
            Some((format!("metadata.{list}[{key}]"), value))
        };
        let label = said(labels, "labels", ISOLATION_LABEL);
        let annotation = said(annotations, "annotations", ISOLATION_ANNOTATION);
        let mut isolation = Self::Shared;
        for (field, value) in label.into_iter().chain(annotation) {
            match value.as_str() {
                "true" => isolation = Self::Isolated(field),
                "false" | "" => {}
                // Whoever writes it wants to be alone.
                other => {
                    findings.add(&field, format!("\"{other}\" is neither true nor false: it counts as true"));
                    isolation = Self::Isolated(field);
                }
            }
        }
        isolation
    }
}
