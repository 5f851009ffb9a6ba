//! VirtualNetworkRouters: what connects tenant networks.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use serde::{Deserialize, Serialize};

use super::custom::{Custom, or_default};
use super::selector::Selector;
use crate::problem::Findings;

/// What a VirtualNetworkRouter is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualNetworkRouterSpec {
    /// `mesh`, `hub` or `spoke`.
    #[serde(default, deserialize_with = "or_default", rename = "type")]
    pub kind: String,
    /// Which VirtualNetworks of its namespace it connects; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_network_selector: Option<LabelSelector>,
    /// Which other routers it is joined to.
    #[serde(default, deserialize_with = "or_default")]
    pub import: RouterImport,
}

/// Which routers a router is joined to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterImport {
    /// Those that one of these means.
    #[serde(default, deserialize_with = "or_default")]
    pub virtual_network_routers: Vec<RouterEntry>,
}

/// Some routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterEntry {
    /// Which of the namespaces' routers; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_network_router_selector: Option<LabelSelector>,
    /// Of which namespaces; absent: its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// What the model keeps of a VirtualNetworkRouter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterRecord {
    /// Its UID, empty where the source gives none.
    pub uid: String,
    /// When it was made, where the source says so: what an older one connects stays.
    pub created: Option<Time>,
    /// Its labels, by which other routers import it.
    pub labels: BTreeMap<String, String>,
    /// What it does; `None`: nothing, as that cannot be read.
    pub kind: Option<RouterType>,
    /// Which networks of its namespace it connects; `None`: none.
    pub networks: Option<Selector>,
    /// Which routers it imports.
    pub imports: Vec<ImportRecord>,
}

/// Some routers that another imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRecord {
    /// Which.
    pub routers: Selector,
    /// Of which namespaces; `None`: its own.
    pub namespaces: Option<Selector>,
}

/// The types of VirtualNetworkRouter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterType {
    /// All its networks with each other, and with those of the meshes that it is joined to.
    Mesh,
    /// Its networks with those of the spokes that it is joined to, and nothing else.
    Hub,
    /// Its networks with those of the hubs that it is joined to, and nothing else.
    Spoke,
}

impl RouterRecord {
    /// Reads a VirtualNetworkRouter. A selector of which something cannot be read selects nothing.
    pub fn read(router: &Custom<VirtualNetworkRouterSpec>, findings: &mut Findings) -> Self {
        let (metadata, spec) = (&router.metadata, &router.spec);
        let networks = spec.virtual_network_selector.as_ref();
        let entries = spec.import.virtual_network_routers.iter().enumerate();
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.clone(),
            labels: metadata.labels.clone().unwrap_or_default(),
            kind: findings.check("spec.type", RouterType::read(&spec.kind)),
            networks: networks
                .and_then(|networks| Selector::read(networks, "spec.virtualNetworkSelector", findings).ok()),
            imports: entries.filter_map(|(i, entry)| ImportRecord::read(i, entry, findings)).collect(),
        }
    }
}

impl ImportRecord {
    fn read(place: usize, entry: &RouterEntry, findings: &mut Findings) -> Option<Self> {
        let field = format!("spec.import.virtualNetworkRouters[{place}]");
        let routers = entry.virtual_network_router_selector.as_ref()?;
        let routers = Selector::read(routers, &format!("{field}.virtualNetworkRouterSelector"), findings);
        let namespaces = entry.namespace_selector.as_ref();
        let namespaces = namespaces
            .map(|selector| Selector::read(selector, &format!("{field}.namespaceSelector"), findings))
            .transpose();
        Some(Self { routers: routers.ok()?, namespaces: namespaces.ok()? })
    }
}

impl RouterType {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "mesh" => Ok(Self::Mesh),
            "hub" => Ok(Self::Hub),
            "spoke" => Ok(Self::Spoke),
            other => Err(format!("\"{other}\" is none of mesh, hub, spoke")),
        }
    }

    /// Whether networks of routers of these types are connected by a join.
    pub fn joins(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Mesh, Self::Mesh) | (Self::Hub, Self::Spoke) | (Self::Spoke, Self::Hub)
        )
    }
}

impl std::fmt::Display for RouterType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Mesh => "mesh",
            Self::Hub => "hub",
            Self::Spoke => "spoke",
        })
    }
}
