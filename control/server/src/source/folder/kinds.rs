//! Which kinds of objects there are, and what each is to this controller.

use vrouter_control_model::Kind;

/// What is done with objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Mirrored.
    Mirrored(Kind),
    /// Something else runs its pods, which come as objects of their own.
    Workload,
    /// No business of the network, or not yet.
    Quiet,
    /// Nobody knows it.
    Unknown,
}

/// The group in an API version; empty for the core.
pub fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The mirrored kind of this name.
pub fn mirrored(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|known| known.to_string() == name)
}

/// Whether kinds of this API group are mirrored.
pub fn has_mirrored(group: &str) -> bool {
    Kind::ALL.into_iter().any(|kind| group_of(kind.api_version()) == group)
}

/// What a kind of an API group is.
pub fn classify(group: &str, kind: &str) -> Class {
    // Where the group is left out, that is a slip: the core has no kinds of the names of others.
    let is_of_group = |kind: &Kind| group.is_empty() || group_of(kind.api_version()) == group;
    if let Some(kind) = mirrored(kind).filter(is_of_group) {
        return Class::Mirrored(kind);
    }
    match (group, kind) {
        ("apps" | "extensions", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job" | "CronJob")
        | ("", "ReplicationController") => Class::Workload,
        (
            "",
            "ConfigMap"
            | "Secret"
            | "ServiceAccount"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "LimitRange"
            | "ResourceQuota"
            | "Event"
            | "PodTemplate"
            | "Binding",
        )
        | ("networking.k8s.io" | "extensions", "Ingress")
        | ("networking.k8s.io", "IngressClass" | "ServiceCIDR" | "IPAddress")
        | ("policy" | "extensions", "PodDisruptionBudget" | "PodSecurityPolicy")
        | (
            "rbac.authorization.k8s.io"
            | "storage.k8s.io"
            | "autoscaling"
            | "scheduling.k8s.io"
            | "coordination.k8s.io"
            | "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io"
            | "node.k8s.io"
            | "events.k8s.io",
            _,
        ) => Class::Quiet,
        _ => Class::Unknown,
    }
}
