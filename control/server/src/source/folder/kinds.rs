//! Which kinds of objects there are, and what each is to this controller.

/// What is done with objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Mirrored, in this API version.
    Mirrored(&'static str),
    /// Something else runs its pods, which come as objects of their own.
    Workload,
    /// No business of the network, or not yet.
    Quiet,
    /// Nobody knows it.
    Unknown,
}

/// What a kind of an API group is.
pub fn classify(group: &str, kind: &str) -> Class {
    match (group, kind) {
        ("", "Namespace" | "Node" | "Pod" | "Service" | "Endpoints") => Class::Mirrored("v1"),
        ("discovery.k8s.io", "EndpointSlice") => Class::Mirrored("discovery.k8s.io/v1"),
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
        | ("networking.k8s.io" | "extensions", "Ingress" | "NetworkPolicy")
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
