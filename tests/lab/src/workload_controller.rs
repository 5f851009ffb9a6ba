//! Deployment, ReplicaSet, StatefulSet and DaemonSet controller: steps from the pods there are to those there should be.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};

use crate::kubelet;
use crate::lab::Lab;
use crate::object::{Name, ObjectKey};
use crate::placement::{self, Candidate, Refusal};
use crate::pod::PodSpec;
use crate::report::{Complaint, Report};
use crate::rolling::Strategy;
use crate::state::{DataPath, Node, Owner, Phase, Pod, Readiness, State};
use crate::workload::{Workload, WorkloadKind};

/// Brings these workloads' pods to what they should be, one step of each at a time.
pub fn reconcile(lab: &mut Lab, keys: &[ObjectKey], report: &mut Report) -> Result<()> {
    let mut open: Vec<_> = keys.to_vec();
    while !open.is_empty() {
        let mut remove = Vec::new();
        let mut create = Vec::new();
        let mut unplaced = BTreeSet::new();
        open.retain(|key| {
            let Some(workload) = lab.state.workloads.get(key) else { return false };
            let step = step(&lab.state, key, workload);
            remove.extend(step.remove.iter().cloned());
            create.extend(step.create.iter().map(|node| (key.clone(), node.clone())));
            !step.is_empty()
        });
        let mut pods = Vec::new();
        for (key, node) in create {
            match new_pod(lab, &key, node, &pods) {
                Ok(pod) => pods.push(pod),
                Err((field, message)) => {
                    let source = lab.state.sources.get(&key).map_or("", String::as_str);
                    report.complain(Complaint::new(source, &key, field, message));
                    unplaced.insert(key);
                }
            }
        }
        let made: Vec<_> = pods.iter().map(|pod| pod.name.clone()).collect();
        kubelet::start(lab, pods, report)?;
        kubelet::stop(lab, &remove, report)?;
        // What cannot be started now is not tried again and again; the next command may.
        let failed = |name: &Name| lab.state.pod(name).filter(|pod| pod.phase == Phase::Failed);
        let failed =
            made.iter().filter_map(failed).filter_map(|pod| Some(pod.owner.as_ref()?.workload.clone()));
        unplaced.extend(failed);
        open.retain(|key| !unplaced.contains(key));
    }
    Ok(())
}

/// Places a pod that belongs to no workload, given the others that are coming.
pub fn place_alone(state: &State, coming: &[Pod], spec: &PodSpec) -> Result<String, Refusal> {
    place(state, coming, spec, |pod| pod.owner.is_none())
}

/// The node for one more of the pods that are counted.
fn place(
    state: &State,
    coming: &[Pod],
    spec: &PodSpec,
    counted: impl Fn(&Pod) -> bool,
) -> Result<String, Refusal> {
    let mut nodes = candidates(state, &counted);
    for candidate in &mut nodes {
        candidate.pods += coming.iter().filter(|pod| counted(pod) && pod.node == candidate.name).count();
    }
    placement::place(spec, &nodes).map(str::to_owned)
}

fn new_pod(lab: &mut Lab, key: &ObjectKey, node: Option<String>, coming: &[Pod]) -> Result<Pod, Refusal> {
    let other = |error: anyhow::Error| ("", format!("{error:#}"));
    let workload = lab.state.workloads.get(key).ok_or_else(|| other(anyhow!("no {key}")))?;
    let owner = Owner { workload: key.clone(), revision: workload.revision() };
    let spec = workload.template.pod_spec().map_err(|error| other(error.into()))?;
    let node = match node {
        Some(node) => node,
        None => place(&lab.state, coming, &spec, |pod| pod.owner.as_ref() == Some(&owner))?,
    };
    let taken: BTreeSet<_> = lab.state.pods.iter().chain(coming).map(|pod| pod.name.clone()).collect();
    let workload = lab.state.workloads.get_mut(key).ok_or_else(|| other(anyhow!("no {key}")))?;
    let new = workload.next_pod(key, |name| taken.contains(name));
    let mut template = workload.template.clone();
    let labels = template.metadata.entry("labels").or_insert_with(|| serde_json::json!({}));
    for (label, value) in new.labels {
        labels[label] = value.into();
    }
    if let Some(source) = lab.state.sources.get(key).cloned() {
        lab.state.sources.insert(kubelet::key(&new.name), source);
    }
    kubelet::new_pod(lab, new.name, Some(owner), &node, template).map_err(other)
}

/// The nodes, with how many of these pods each has.
fn candidates(state: &State, counted: impl Fn(&Pod) -> bool) -> Vec<Candidate<'_>> {
    let ours = |node: &Node| matches!(node.data_path, DataPath::VRouter(_));
    let any = state.nodes.iter().any(ours);
    state
        .nodes
        .iter()
        .map(|node| Candidate {
            name: &node.name,
            labels: &node.labels,
            schedulable: ours(node) || !any,
            pods: state.pods.iter().filter(|pod| pod.node == node.name && counted(pod)).count(),
        })
        .collect()
}

/// What is to be done next for a workload: pods to make, each on a certain node or on any, and then pods to remove.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    create: Vec<Option<String>>,
    remove: Vec<Name>,
}

impl Step {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.remove.is_empty()
    }
}

fn step(state: &State, key: &ObjectKey, workload: &Workload) -> Step {
    let mut pods: Vec<_> = state.pods_of(key).collect();
    let failed: Vec<_> =
        pods.iter().filter(|pod| pod.phase == Phase::Failed).map(|pod| pod.name.clone()).collect();
    if !failed.is_empty() {
        return Step { remove: failed, ..Step::default() };
    }
    match workload.kind {
        WorkloadKind::DaemonSet => daemon_set_step(state, workload, &pods),
        kind => {
            if kind == WorkloadKind::StatefulSet {
                pods.sort_by_key(|pod| ordinal(&pod.name));
            }
            replicas_step(workload, &pods)
        }
    }
}

/// For a number of pods on any nodes; `pods` are oldest first.
fn replicas_step(workload: &Workload, pods: &[&Pod]) -> Step {
    let wanted = workload.replicas;
    let revision = workload.revision();
    let is_old = |pod: &&&Pod| pod.owner.as_ref().is_some_and(|owner| owner.revision != revision);
    let old: Vec<&Pod> = match workload.strategy {
        Strategy::Never => Vec::new(),
        _ => pods.iter().filter(is_old).copied().collect(),
    };
    let create = |count: usize| Step { create: vec![None; count], ..Step::default() };
    match workload.strategy {
        _ if old.is_empty() && pods.len() < wanted => create(wanted - pods.len()),
        // Whoever is too many goes, the newest first.
        _ if old.is_empty() => remove(pods.iter().rev().take(pods.len() - wanted).copied()),
        Strategy::Rolling(bounds) => {
            let (most, least) = bounds.of(wanted);
            let new = pods.len() - old.len();
            match wanted.saturating_sub(new).min(most.saturating_sub(pods.len())) {
                0 => remove(dispensable(pods, old, least)),
                lacking => create(lacking),
            }
        }
        Strategy::Recreate => remove(old),
        Strategy::OneByOne | Strategy::Never if pods.len() < wanted => create(wanted - pods.len()),
        Strategy::OneByOne | Strategy::Never => {
            let excess = (pods.len() - wanted).max(1);
            remove(old.into_iter().rev().take(excess))
        }
    }
}

/// The old pods that may go such that so many are left that take traffic: first those that take none.
fn dispensable<'a>(pods: &[&'a Pod], old: Vec<&'a Pod>, least: usize) -> impl Iterator<Item = &'a Pod> {
    let serves = |pod: &Pod| pod.readiness == Readiness::Ready;
    let spare = pods.iter().filter(|pod| serves(pod)).count().saturating_sub(least);
    let (serving, idle): (Vec<_>, Vec<_>) = old.into_iter().partition(|pod| serves(pod));
    idle.into_iter().chain(serving.into_iter().take(spare))
}

fn remove<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Step {
    Step { remove: pods.into_iter().map(|pod| pod.name.clone()).collect(), ..Step::default() }
}

/// For one pod on every node that the template allows.
fn daemon_set_step(state: &State, workload: &Workload, pods: &[&Pod]) -> Step {
    let Ok(spec) = workload.template.pod_spec() else { return Step::default() };
    let nodes = placement::everywhere(&spec, &candidates(state, |_| false));
    let revision = workload.revision();
    let lacking = |node: &&&str| !pods.iter().any(|pod| pod.node == **node);
    let create: Vec<_> = nodes.iter().filter(lacking).map(|node| Some((*node).to_owned())).collect();
    let astray = pods.iter().filter(|pod| !nodes.contains(&pod.node.as_str())).map(|pod| pod.name.clone());
    let mut remove: Vec<_> = astray.collect();
    if create.is_empty() && remove.is_empty() {
        let is_old = |pod: &&&Pod| pod.owner.as_ref().is_some_and(|owner| owner.revision != revision);
        remove.extend(pods.iter().find(is_old).map(|pod| pod.name.clone()));
    }
    Step { create, remove }
}

fn ordinal(name: &Name) -> u64 {
    name.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::netns::Netns;

    fn workload(kind: WorkloadKind, replicas: usize) -> Workload {
        let template = serde_json::from_value(json!({"spec": {"containers": [{"name": "a"}]}})).unwrap();
        Workload { kind, replicas, strategy: kind.strategy(), template, made: 0 }
    }

    fn pod(name: &str, revision: &str) -> Pod {
        Pod {
            name: Name::new("default", name),
            uid: String::new(),
            container_id: String::new(),
            owner: Some(Owner { workload: key(), revision: revision.to_owned() }),
            node: "n1".into(),
            netns: Netns::named(name.to_owned()),
            template: workload(WorkloadKind::Deployment, 1).template,
            created: String::new(),
            addresses: Vec::new(),
            processes: Vec::new(),
            phase: Phase::Running,
            readiness: Readiness::Ready,
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::new("Deployment", None, "web")
    }

    /// Plays the steps to the end; each is written as `+` per pod made and `-name` per pod removed.
    fn play(workload: &Workload, pods: &[(&str, &str)]) -> Vec<String> {
        let mut pods: Vec<_> = pods.iter().map(|(name, revision)| pod(name, revision)).collect();
        let mut played = Vec::new();
        let mut made = 0;
        loop {
            let step = replicas_step(workload, &pods.iter().collect::<Vec<_>>());
            if step.is_empty() {
                return played;
            }
            for _ in &step.create {
                made += 1;
                pods.push(pod(&format!("new{made}"), &workload.revision()));
            }
            pods.retain(|pod| !step.remove.contains(&pod.name));
            let removed: String = step.remove.iter().map(|name| format!("-{}", name.name)).collect();
            played.push("+".repeat(step.create.len()) + &removed);
        }
    }

    #[test]
    fn a_small_deployment_never_has_less_than_it_wants() {
        let deployment = workload(WorkloadKind::Deployment, 2);
        let now = deployment.revision();
        let now = now.as_str();
        assert_eq!(play(&deployment, &[]), ["++"]);
        assert_eq!(play(&deployment, &[("a", now), ("b", now), ("c", now)]), ["-c"]);
        assert_eq!(play(&deployment, &[("a", "old"), ("b", "old")]), ["+", "-a", "+", "-b"]);
        assert_eq!(
            play(&deployment, &[("a", "old"), ("b", "old"), ("c", "old"), ("d", "old")]),
            ["-a-b", "+", "-c", "+", "-d"]
        );
        assert_eq!(play(&deployment, &[("a", "old")]), ["++", "-a"]);
        assert_eq!(play(&workload(WorkloadKind::Deployment, 0), &[("a", "old")]), ["-a"]);
    }

    #[test]
    fn a_deployment_keeps_to_its_bounds() {
        let ten: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| (name, "old")).into();
        let mut deployment = workload(WorkloadKind::Deployment, 10);
        assert_eq!(play(&deployment, &ten), ["+++", "-a-b-c-d-e", "+++++", "-f-g-h-i-j", "++"]);
        let bounds = json!({"maxSurge": 0, "maxUnavailable": 5});
        deployment.strategy = Strategy::Rolling(serde_json::from_value(bounds).unwrap());
        assert_eq!(play(&deployment, &ten), ["-a-b-c-d-e", "+++++", "-f-g-h-i-j", "+++++"]);
        deployment.strategy = Strategy::Recreate;
        assert_eq!(play(&deployment, &ten), ["-a-b-c-d-e-f-g-h-i-j", "++++++++++"]);
    }

    #[test]
    fn pods_that_take_no_traffic_go_first() {
        let deployment = workload(WorkloadKind::Deployment, 4);
        let mut pods = ["a", "b", "c", "d", "e"].map(|name| pod(name, "old"));
        pods[2].readiness = Readiness::NotReady;
        let step = replicas_step(&deployment, &pods.iter().collect::<Vec<_>>());
        assert_eq!(step.remove, [Name::new("default", "c"), Name::new("default", "a")]);
        // A new pod that is not ready yet keeps an old one in its place.
        pods[2].owner = Some(Owner { workload: key(), revision: deployment.revision() });
        let step = replicas_step(&deployment, &pods.iter().collect::<Vec<_>>());
        assert_eq!(step.remove, [Name::new("default", "a")]);
    }

    #[test]
    fn a_stateful_set_replaces_from_the_end() {
        let set = workload(WorkloadKind::StatefulSet, 2);
        assert_eq!(play(&set, &[("a", "old"), ("b", "old")]), ["-b", "+", "-a", "+"]);
    }

    #[test]
    fn a_replica_set_leaves_its_pods_alone() {
        let set = workload(WorkloadKind::ReplicaSet, 2);
        assert_eq!(play(&set, &[("a", "old"), ("b", "old")]), Vec::<String>::new());
        assert_eq!(play(&set, &[("a", "old"), ("b", "old"), ("c", "old")]), ["-c"]);
    }
}
