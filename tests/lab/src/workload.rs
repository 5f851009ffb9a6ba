//! Deployments and their like: what pods they ask for, and what those are called.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::manifest::Document;
use crate::object::{Name, ObjectKey};
use crate::pod::PodSpec;
use crate::report::Complaint;
use crate::rolling::{Bounds, Strategy};

/// The annotation by which a restart makes a new revision of an unchanged template, as `kubectl` sets it.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// The kinds that ask for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadKind {
    /// Replaces its pods when its template changes.
    Deployment,
    /// Keeps a number of pods, and never replaces one.
    ReplicaSet,
    /// The ReplicaSet of old.
    ReplicationController,
    /// Pods with lasting names.
    StatefulSet,
    /// One pod per node.
    DaemonSet,
}

impl WorkloadKind {
    /// The kind with this name, where it is one that asks for pods.
    pub fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "Deployment" => Self::Deployment,
            "ReplicaSet" => Self::ReplicaSet,
            "ReplicationController" => Self::ReplicationController,
            "StatefulSet" => Self::StatefulSet,
            "DaemonSet" => Self::DaemonSet,
            _ => return None,
        })
    }

    /// What happens to the pods of an earlier revision, unless it is said otherwise.
    pub fn strategy(self) -> Strategy {
        match self {
            Self::Deployment => Strategy::Rolling(Bounds::default()),
            Self::StatefulSet | Self::DaemonSet => Strategy::OneByOne,
            Self::ReplicaSet | Self::ReplicationController => Strategy::Never,
        }
    }
}

/// A pod template: metadata and spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// Labels and annotations.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The pods' spec, as it was given.
    pub spec: Map<String, Value>,
}

impl Template {
    /// Checks the spec and returns the part of it that the lab acts on.
    pub fn pod_spec(&self) -> Result<PodSpec, serde_json::Error> {
        serde_json::from_value(Value::Object(self.spec.clone()))
    }

    /// Eight to ten letters that change whenever the template does.
    fn hash(&self) -> String {
        let text = json!([self.metadata, self.spec]).to_string();
        encode(&fnv1a(text.as_bytes()).to_string())
    }
}

/// A workload: what it wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// How many pods, save for a DaemonSet.
    pub replicas: usize,
    /// How pods of an earlier revision give way.
    pub strategy: Strategy,
    /// What they look like.
    pub template: Template,
    /// How many pods it has ever made: the seed of the next one's name.
    pub made: u64,
}

/// The fields of a workload that the lab reads, whatever its kind.
#[derive(Deserialize)]
struct Fields {
    replicas: Option<u32>,
    selector: Option<Value>,
    strategy: Option<StrategyFields>,
    template: Template,
}

/// A Deployment's `spec.strategy`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StrategyFields {
    #[serde(rename = "type", default)]
    kind: StrategyKind,
    rolling_update: Option<Bounds>,
}

#[derive(Default, Deserialize)]
enum StrategyKind {
    #[default]
    RollingUpdate,
    Recreate,
}

/// A workload as it was read, and what was amended in it.
#[derive(Debug)]
pub struct Reading {
    /// The workload.
    pub workload: Workload,
    /// The number of replicas was given, and is not to be taken over from what runs.
    pub replicas_given: bool,
    /// What a reader of the file should know.
    pub notes: Vec<String>,
}

impl Reading {
    /// Reads a document of a workload kind.
    pub fn of(document: &Document, kind: WorkloadKind) -> Result<Self, Complaint> {
        let fields: Fields = document.part("spec")?;
        let spec: PodSpec = document.part("spec.template.spec")?;
        if spec.containers.is_empty() {
            return Err(
                document.complaint("spec.template.spec.containers", "required: at least one container")
            );
        }
        let mut notes = Vec::new();
        let version = document.body["apiVersion"].as_str().unwrap_or_default();
        let current = if kind == WorkloadKind::ReplicationController { "v1" } else { "apps/v1" };
        if version != current {
            notes.push(format!("apiVersion {version} is read as {current}"));
        }
        match fields.selector {
            None | Some(Value::Null) if version == "apps/v1" => {
                return Err(document.complaint("spec.selector", "required in apps/v1"));
            }
            None | Some(Value::Null) => {
                notes.push("spec.selector is taken from the template's labels".to_owned())
            }
            Some(selector) => check_selector(document, kind, &selector, &fields.template)?,
        }
        let replicas_given = fields.replicas.is_some();
        let replicas = fields.replicas.unwrap_or(1) as usize;
        let strategy = strategy(document, kind, fields.strategy)?;
        let workload = Workload { kind, replicas, strategy, template: fields.template, made: 0 };
        Ok(Self { workload, replicas_given, notes })
    }
}

fn strategy(
    document: &Document,
    kind: WorkloadKind,
    given: Option<StrategyFields>,
) -> Result<Strategy, Complaint> {
    // Only a Deployment has this field; of others it would be an unknown one.
    let (WorkloadKind::Deployment, Some(given)) = (kind, given) else { return Ok(kind.strategy()) };
    let bounds = given.rolling_update.unwrap_or_default();
    match given.kind {
        StrategyKind::Recreate => Ok(Strategy::Recreate),
        StrategyKind::RollingUpdate if bounds.allow_progress() => Ok(Strategy::Rolling(bounds)),
        StrategyKind::RollingUpdate => {
            let field = "spec.strategy.rollingUpdate.maxUnavailable";
            Err(document.complaint(field, "may not be 0 where maxSurge is 0"))
        }
    }
}

/// A selector that does not match the template's own labels would make pods without end.
fn check_selector(
    document: &Document,
    kind: WorkloadKind,
    selector: &Value,
    template: &Template,
) -> Result<(), Complaint> {
    let (field, wanted) = match kind {
        WorkloadKind::ReplicationController => ("spec.selector", Some(selector)),
        _ => ("spec.selector.matchLabels", selector.get("matchLabels")),
    };
    let labels = template.metadata.get("labels");
    let wanted = wanted.and_then(Value::as_object).into_iter().flatten();
    for (label, value) in wanted {
        if labels.and_then(|labels| labels.get(label)) != Some(value) {
            let message = format!("{label}={value} is not among spec.template.metadata.labels");
            return Err(document.complaint(field, message));
        }
    }
    Ok(())
}

/// A pod that a workload wants made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPod {
    /// Its name.
    pub name: Name,
    /// Labels that it bears besides the template's.
    pub labels: Vec<(&'static str, String)>,
}

impl Workload {
    /// What the pods of the current template are told apart by from those of earlier ones.
    pub fn revision(&self) -> String {
        self.template.hash()
    }

    /// Makes the template another, though it says the same.
    pub fn restart(&mut self, time: &str) {
        let annotations = self.template.metadata.entry("annotations").or_insert_with(|| json!({}));
        // A restart within the same second is one, too.
        let value = match annotations.get(RESTARTED_AT).and_then(Value::as_str) {
            Some(before) if before.starts_with(time) => format!("{before}'"),
            _ => time.to_owned(),
        };
        annotations[RESTARTED_AT] = json!(value);
    }

    /// The next pod, given which names are taken.
    pub fn next_pod(&mut self, key: &ObjectKey, taken: impl Fn(&Name) -> bool) -> NewPod {
        let namespace = key.namespace.as_deref().unwrap_or("default");
        let revision = self.revision();
        let labels = match self.kind {
            WorkloadKind::Deployment => vec![("pod-template-hash", revision.clone())],
            _ => Vec::new(),
        };
        if self.kind == WorkloadKind::StatefulSet {
            let ordinal = (0..).map(|ordinal| format!("{}-{ordinal}", key.name));
            let name = ordinal
                .map(|name| Name::new(namespace, &name))
                .find(|name| !taken(name))
                .expect("an endless row has a free place");
            let labels = vec![("statefulset.kubernetes.io/pod-name", name.name.clone())];
            return NewPod { name, labels };
        }
        let prefix = match self.kind {
            WorkloadKind::Deployment => format!("{}-{revision}", key.name),
            _ => key.name.clone(),
        };
        loop {
            self.made += 1;
            let name = Name::new(namespace, &format!("{prefix}-{}", suffix(&prefix, self.made)));
            if !taken(&name) {
                return NewPod { name, labels };
            }
        }
    }
}

/// Letters and digits that make no words and are not mistaken for each other: those of Kubernetes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

fn encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

/// Five letters, the same for the same pod of the same workload in every lab.
fn suffix(prefix: &str, serial: u64) -> String {
    let mut hash = fnv1a(format!("{prefix}#{serial}").as_bytes()) as usize;
    let mut letters = String::new();
    for _ in 0..5 {
        letters.push(char::from(ALPHABET[hash % ALPHABET.len()]));
        hash /= ALPHABET.len();
    }
    letters
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse;

    fn read(text: &str) -> Result<Reading, Complaint> {
        let document = parse("f.yaml", text).remove(0).unwrap();
        Reading::of(&document, WorkloadKind::of(&document.key.kind).unwrap())
    }

    const OLD: &str = "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: redis}\nspec:\n  replicas: 2\n  \
                       template:\n    metadata: {labels: {app: redis}}\n    spec: {containers: [{name: redis}]}\n";

    #[test]
    fn old_versions_are_read_with_a_note() {
        let reading = read(OLD).unwrap();
        assert_eq!((reading.workload.replicas, reading.notes.len()), (2, 2));
        assert!(reading.notes[0].contains("apps/v1beta1"));
    }

    #[test]
    fn complaints_name_the_field() {
        let field = |text: &str| read(text).unwrap_err().field;
        let current = OLD.replace("apps/v1beta1", "apps/v1");
        assert_eq!(field(&current), "spec.selector");
        assert_eq!(field(&OLD.replace("replicas: 2", "replicas: -2")), "spec.replicas");
        assert_eq!(
            field(&OLD.replace("{name: redis}]", "{name: redis, ports: [{containerPort: 70000}]}]")),
            "spec.template.spec.containers[0].ports[0].containerPort"
        );
        assert_eq!(
            field(&OLD.replace("  template:", "  selector: {matchLabels: {app: other}}\n  template:")),
            "spec.selector.matchLabels"
        );
        assert_eq!(field(&OLD.replace("[{name: redis}]", "[]")), "spec.template.spec.containers");
        let strategy =
            |text: &str| OLD.replace("  replicas: 2\n", &format!("  replicas: 2\n  strategy: {text}\n"));
        assert_eq!(
            field(&strategy("{rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}")),
            "spec.strategy.rollingUpdate.maxUnavailable"
        );
        assert_eq!(
            field(&strategy("{rollingUpdate: {maxSurge: x}}")),
            "spec.strategy.rollingUpdate.maxSurge"
        );
        assert_eq!(read(&strategy("{type: Recreate}")).unwrap().workload.strategy, Strategy::Recreate);
    }

    #[test]
    fn names_look_like_those_of_a_cluster() {
        let mut workload = read(OLD).unwrap().workload;
        let key = ObjectKey::new("Deployment", None, "redis");
        let first = workload.next_pod(&key, |_| false);
        let second = workload.next_pod(&key, |_| false);
        assert_ne!(first, second);
        let parts: Vec<_> = first.name.name.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[2].len()), ("redis", workload.revision().as_str(), 5));
        assert_eq!(read(OLD).unwrap().workload.next_pod(&key, |_| false), first);
    }

    #[test]
    fn a_restart_is_a_new_revision() {
        let mut workload = read(OLD).unwrap().workload;
        let mut seen = vec![workload.revision()];
        for _ in 0..3 {
            workload.restart("2026-01-01T00:00:00Z");
            assert!(!seen.contains(&workload.revision()));
            seen.push(workload.revision());
        }
    }

    #[test]
    fn stateful_pods_take_the_lowest_free_ordinal() {
        let mut workload = read(OLD).unwrap().workload;
        workload.kind = WorkloadKind::StatefulSet;
        let key = ObjectKey::new("StatefulSet", Some("web"), "db");
        let taken = [Name::new("web", "db-0"), Name::new("web", "db-2")];
        let pod = workload.next_pod(&key, |name| taken.contains(name));
        assert_eq!(pod.name, Name::new("web", "db-1"));
        assert_eq!(pod.labels, [("statefulset.kubernetes.io/pod-name", "db-1".to_owned())]);
    }
}
