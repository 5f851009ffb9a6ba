//! Whom a peer set means.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kube::{Block, NamespaceSelection, PodSelection, PortName, Selector};

/// Whom a peer set means: two that mean the same are one set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Meaning {
    /// Which pods.
    pub whom: Whom,
    /// Those of them alone that have a port of this name, each with its number.
    pub port: Option<PortName>,
}

/// Which pods a peer set means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Whom {
    /// Those with such labels.
    Pods(PodSelection),
    /// Those with such addresses.
    Block(Block),
}

impl Whom {
    /// All pods there are.
    pub fn everybody() -> Self {
        let namespaces = NamespaceSelection::Labelled(Selector::default());
        Self::Pods(PodSelection { namespaces, pods: Selector::default() })
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.whom {
            Whom::Pods(selection) => write!(f, "{selection}"),
            Whom::Block(block) => write!(f, "pods in {block}"),
        }?;
        match &self.port {
            Some(port) => write!(f, " at {port}"),
            None => Ok(()),
        }
    }
}
