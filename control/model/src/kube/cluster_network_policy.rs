//! ClusterNetworkPolicies: the administrator's policies, before and after the namespaces' own.

use serde::{Deserialize, Serialize};

/// What a ClusterNetworkPolicy is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkPolicySpec {}
