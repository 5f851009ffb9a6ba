//! Resources that Kubernetes itself does not define.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A custom resource with this spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Custom<S> {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is to be.
    #[serde(default)]
    pub spec: S,
}
