//! Tenant networks as Contrail has them: VirtualNetworks, their Subnets, and the VirtualNetworkRouters between them.

use serde::{Deserialize, Serialize};

/// What a VirtualNetwork is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualNetworkSpec {}

/// What a Subnet is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSpec {}

/// What a VirtualNetworkRouter is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualNetworkRouterSpec {}
