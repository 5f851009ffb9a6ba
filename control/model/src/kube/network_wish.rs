//! The network that an object asks for.

use std::collections::BTreeMap;

use crate::NamespacedName;
use crate::problem::Findings;

/// The annotation by which a Pod, a Service or a whole Namespace asks for a network: `namespace/name`, or the bare name of
/// one in its own namespace.
pub const NETWORK_ANNOTATION: &str = "net.juniper.contrail.podnetwork";

/// The network that an object asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NetworkWish {
    /// None in particular: what its namespace says counts, or the cluster's own.
    #[default]
    Inherited,
    /// This one.
    Named(NamespacedName),
    /// Something that cannot be read. Another network would not be what was asked for.
    Malformed(String),
}

impl NetworkWish {
    /// Reads the wish of an object of a namespace.
    pub fn read(
        namespace: &str,
        annotations: Option<&BTreeMap<String, String>>,
        findings: &mut Findings,
    ) -> Self {
        let Some(text) = annotations.and_then(|all| all.get(NETWORK_ANNOTATION)) else {
            return Self::Inherited;
        };
        match parse(namespace, text.trim()) {
            Some(name) => Self::Named(name),
            None => {
                let message = format!("\"{text}\" is not namespace/network");
                findings.add(field(), &message);
                Self::Malformed(message)
            }
        }
    }

    /// The network that is named, if one is.
    pub fn name(&self) -> Option<&NamespacedName> {
        match self {
            Self::Named(name) => Some(name),
            Self::Inherited | Self::Malformed(_) => None,
        }
    }
}

/// The field that says it.
pub fn field() -> String {
    format!("metadata.annotations[{NETWORK_ANNOTATION}]")
}

fn parse(namespace: &str, text: &str) -> Option<NamespacedName> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    let is_name = |part: &str| !part.is_empty() && !part.contains('/') && !part.contains(char::is_whitespace);
    (is_name(namespace) && is_name(name)).then(|| NamespacedName::new(namespace, name))
}
