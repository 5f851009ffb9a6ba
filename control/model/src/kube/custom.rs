//! Resources that Kubernetes itself does not define.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};

/// A custom resource with this spec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Custom<S> {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it is to be.
    #[serde(default, deserialize_with = "or_default", bound(deserialize = "S: Default + Deserialize<'de>"))]
    pub spec: S,
}

/// Reads a field that is as good as missing where it is null, as the API server has it.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::kube::{ClusterNetworkPolicySpec, SubnetSpec, VirtualNetworkRouterSpec, VirtualNetworkSpec};

    /// Whether a spec with nulls reads as one without these fields.
    fn assert_same<S: DeserializeOwned + Default + PartialEq + std::fmt::Debug>(
        nulls: Value,
        without: Value,
    ) {
        let read = |spec: Value| -> Custom<S> { serde_json::from_value(json!({ "spec": spec })).unwrap() };
        assert_eq!(read(nulls), read(without));
        assert_eq!(read(Value::Null).spec, S::default());
    }

    #[test]
    fn what_is_null_is_as_good_as_missing() {
        assert_same::<VirtualNetworkSpec>(
            json!({
                "v4SubnetReference": { "namespace": null, "name": null },
                "v6SubnetReference": null, "virtualNetworkNetworkId": null, "fabricSNAT": null,
            }),
            json!({ "v4SubnetReference": {} }),
        );
        assert_same::<SubnetSpec>(json!({ "cidr": null, "defaultGateway": null, "ranges": null }), json!({}));
        assert_same::<SubnetSpec>(
            json!({ "ranges": [{ "ipRanges": null }, { "ipRanges": [{ "from": null, "to": null }] }] }),
            json!({ "ranges": [{}, { "ipRanges": [{}] }] }),
        );
        assert_same::<VirtualNetworkRouterSpec>(
            json!({ "type": null, "virtualNetworkSelector": null, "import": null }),
            json!({}),
        );
        assert_same::<VirtualNetworkRouterSpec>(
            json!({ "import": { "virtualNetworkRouters": null } }),
            json!({ "import": {} }),
        );
        assert_same::<ClusterNetworkPolicySpec>(
            json!({ "tier": null, "priority": null, "subject": null, "ingress": null, "egress": null }),
            json!({}),
        );
        let rule = json!({ "name": null, "action": null, "from": null, "to": null, "protocols": null });
        assert_same::<ClusterNetworkPolicySpec>(json!({ "ingress": [rule] }), json!({ "ingress": [{}] }));
        let range = json!({ "tcp": { "destinationPort": { "range": { "start": null, "end": null } } } });
        assert_same::<ClusterNetworkPolicySpec>(
            json!({ "ingress": [{ "protocols": [range] }] }),
            json!({ "ingress": [{ "protocols": [{ "tcp": { "destinationPort": { "range": {} } } }] }] }),
        );
    }
}
