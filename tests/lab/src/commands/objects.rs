//! Applying, deleting and changing objects.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

use crate::cli::Delete;
use crate::controller;
use crate::kubelet;
use crate::lab::Lab;
use crate::manifest::{self, Document};
use crate::name::LabName;
use crate::node;
use crate::object::{Name, ObjectKey};
use crate::pod::PodSpec;
use crate::report::{Complaint, Report, done};
use crate::state::{Pod, Readiness};
use crate::timestamp;
use crate::workload::{Reading, Template, WorkloadKind};
use crate::workload_controller::{place_alone, reconcile};

/// Applies files and folders.
pub fn apply(name: LabName, files: &[PathBuf]) -> Result<()> {
    let mut documents = Vec::new();
    for file in files {
        documents.extend(manifest::read(file)?);
    }
    apply_documents(&mut Lab::open(name)?, documents)
}

/// Applies what was read; what could not be read is complained of.
pub fn apply_documents(lab: &mut Lab, documents: Vec<Result<Document, Complaint>>) -> Result<()> {
    let mut report = Report::default();
    let mut applied = Vec::new();
    let mut workloads = Vec::new();
    let mut pods = Vec::new();
    for document in documents {
        let document = match document {
            Ok(document) => document,
            Err(complaint) => {
                report.complain(complaint);
                continue;
            }
        };
        let key = document.key.clone();
        let outcome = if let Some(kind) = WorkloadKind::of(&key.kind) {
            apply_workload(lab, &document, kind).map(|()| workloads.push(key.clone()))
        } else if key.kind == "Pod" {
            document.part("spec").map(|spec: PodSpec| pods.push((document.clone(), spec)))
        } else {
            apply_other(lab, &document)?;
            Ok(())
        };
        match outcome {
            Ok(()) => {
                lab.state.sources.insert(key.clone(), document.source.clone());
                applied.push(key);
            }
            Err(complaint) => report.complain(complaint),
        }
    }
    lab.save()?;
    apply_pods(lab, pods, &mut report)?;
    reconcile(lab, &workloads, &mut report)?;
    let mut concerned = BTreeSet::from_iter(applied.iter().cloned());
    for key in &workloads {
        concerned.extend(lab.state.pods_of(key).map(|pod| kubelet::key(&pod.name)));
    }
    controller::settle(lab, &concerned, &mut report);
    for key in applied.iter().filter(|key| !report.is_about(key)) {
        done(key, "applied");
    }
    report.conclude()
}

fn apply_workload(lab: &mut Lab, document: &Document, kind: WorkloadKind) -> Result<(), Complaint> {
    let Reading { mut workload, replicas_given, notes } = Reading::of(document, kind)?;
    for note in notes {
        eprintln!("note: {}: {}: {note}", document.source, document.key);
    }
    if let Some(before) = lab.state.workloads.get(&document.key) {
        workload.made = before.made;
        if !replicas_given {
            workload.replicas = before.replicas;
        }
    }
    lab.state.workloads.insert(document.key.clone(), workload);
    Ok(())
}

/// An object that is the controller's alone. What the lab itself says of its nodes stands.
fn apply_other(lab: &Lab, document: &Document) -> Result<()> {
    let mut body = document.body.clone();
    if document.key.kind == "Node"
        && let Some(own) = lab.state.node(&document.key.name)
    {
        lay_over(&mut body, node::manifest(own));
    }
    lab.write_object(&document.key, &body)
}

/// Puts every field of one object over those of another.
fn lay_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (field, value) in over {
                lay_over(under.entry(field).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Pods that stand for themselves: new ones are made; of one that is there labels and annotations may change, and a
/// change of its spec replaces it.
fn apply_pods(lab: &mut Lab, pods: Vec<(Document, PodSpec)>, report: &mut Report) -> Result<()> {
    let mut replaced = Vec::new();
    let mut placed = Vec::new();
    for (document, spec) in pods {
        let Some(name) = document.key.name() else { continue };
        if spec.containers.is_empty() {
            report.complain(document.complaint("spec.containers", "required: at least one container"));
            continue;
        }
        let template: Template = match document
            .part("metadata")
            .and_then(|metadata| Ok(Template { metadata, spec: document.part("spec")? }))
        {
            Ok(template) => template,
            Err(complaint) => {
                report.complain(complaint);
                continue;
            }
        };
        if let Some(pod) = lab.state.pod_mut(&name) {
            if pod.template.spec == template.spec && pod.owner.is_none() && !pod.processes.is_empty() {
                pod.template = template;
                kubelet::show(lab, &[name])?;
                continue;
            }
            replaced.push(name.clone());
        }
        placed.push((document, name, spec, template));
    }
    kubelet::stop(lab, &replaced, report)?;
    let mut new: Vec<Pod> = Vec::new();
    for (document, name, spec, template) in placed {
        lab.state.sources.insert(document.key.clone(), document.source.clone());
        match place_alone(&lab.state, &new, &spec) {
            Ok(node) => new.push(kubelet::new_pod(lab, name, None, &node, template)?),
            Err((field, message)) => report.complain(document.complaint(field, message)),
        }
    }
    kubelet::start(lab, new, report)
}

/// Deletes what files name, or one object.
pub fn delete(name: LabName, what: &Delete) -> Result<()> {
    let mut report = Report::default();
    let mut keys = Vec::new();
    for file in &what.files {
        for document in manifest::read(file)? {
            match document {
                Ok(document) => keys.push(document.key),
                Err(complaint) => report.complain(complaint),
            }
        }
    }
    if let (Some(kind), Some(object)) = (&what.kind, &what.object) {
        keys.push(ObjectKey::from_words(kind, object)?);
    }
    let mut lab = Lab::open(name)?;
    delete_keys(&mut lab, keys, &mut report)?;
    report.conclude()
}

fn delete_keys(lab: &mut Lab, keys: Vec<ObjectKey>, report: &mut Report) -> Result<()> {
    let mut pods = Vec::new();
    let mut bereft = BTreeSet::new();
    let keys = with_contents(lab, keys);
    // A namespace may be there only by what is in it.
    let used: BTreeSet<_> = keys.iter().filter_map(|key| key.namespace.clone()).collect();
    for key in keys {
        let found = if lab.state.workloads.remove(&key).is_some() {
            pods.extend(lab.state.pods_of(&key).map(|pod| pod.name.clone()));
            lab.state.sources.remove(&key);
            true
        } else if let Some(pod) =
            key.name().filter(|_| key.kind == "Pod").and_then(|name| lab.state.pod(&name))
        {
            pods.push(pod.name.clone());
            bereft.extend(pod.owner.iter().map(|owner| owner.workload.clone()));
            true
        } else if key.kind == "Node" && lab.state.node(&key.name).is_some() {
            report.complain(unable(&key, "is a node of this lab, and goes with it"));
            continue;
        } else {
            lab.remove_object(&key)? || (key.kind == "Namespace" && used.contains(&key.name))
        };
        if found {
            done(&key, "deleted");
        } else {
            report.complain(unable(&key, "not found"));
        }
    }
    lab.save()?;
    pods.sort_unstable();
    pods.dedup();
    kubelet::stop(lab, &pods, report)?;
    bereft.retain(|key| lab.state.workloads.contains_key(key));
    reconcile(lab, &bereft.into_iter().collect::<Vec<_>>(), report)?;
    controller::settle(lab, &BTreeSet::new(), report);
    Ok(())
}

/// A namespace goes with everything in it.
fn with_contents(lab: &Lab, keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
    let mut all = Vec::new();
    for key in keys {
        if key.kind == "Namespace" {
            let inside = |other: &&ObjectKey| other.namespace.as_ref() == Some(&key.name);
            all.extend(lab.state.workloads.keys().filter(inside).cloned());
            let free =
                lab.state.pods.iter().filter(|pod| pod.owner.is_none()).map(|pod| kubelet::key(&pod.name));
            all.extend(free.filter(|key| inside(&key)));
            let other = |key: &&ObjectKey| key.kind != "Pod" && WorkloadKind::of(&key.kind).is_none();
            all.extend(lab.state.sources.keys().filter(inside).filter(other).cloned());
        }
        all.push(key);
    }
    let mut seen = BTreeSet::new();
    all.retain(|key| seen.insert(key.clone()));
    all
}

fn unable(key: &ObjectKey, message: &str) -> Complaint {
    Complaint::new("", key, "", message)
}

/// Sets how many pods a workload has.
pub fn scale(name: LabName, workload: &Name, replicas: usize) -> Result<()> {
    let mut lab = Lab::open(name)?;
    let key = find_workload(&lab, workload)?;
    let Some(workload) = lab.state.workloads.get_mut(&key) else { bail!("no {key}") };
    if workload.kind == WorkloadKind::DaemonSet {
        bail!("{key} has one pod per node, and no number to set");
    }
    workload.replicas = replicas;
    finish(&mut lab, key)
}

/// Replaces a workload's pods.
pub fn restart(name: LabName, workload: &Name) -> Result<()> {
    let mut lab = Lab::open(name)?;
    let key = find_workload(&lab, workload)?;
    let Some(workload) = lab.state.workloads.get_mut(&key) else { bail!("no {key}") };
    workload.restart(&timestamp::now());
    finish(&mut lab, key)
}

fn finish(lab: &mut Lab, key: ObjectKey) -> Result<()> {
    let mut report = Report::default();
    lab.save()?;
    reconcile(lab, &[key], &mut report)?;
    controller::settle(lab, &BTreeSet::new(), &mut report);
    report.conclude()
}

/// Workloads of different kinds may share a name; the command line then means the one listed first.
fn find_workload(lab: &Lab, name: &Name) -> Result<ObjectKey> {
    let found = lab.state.workloads.keys().find(|key| key.name().as_ref() == Some(name));
    found.cloned().ok_or_else(|| anyhow!("no deployment {name} in lab {}", lab.name))
}

/// Sets what a pod's readiness probe says.
pub fn ready(name: LabName, pod: &Name, readiness: Readiness) -> Result<()> {
    let mut lab = Lab::open(name)?;
    let mut report = Report::default();
    kubelet::set_readiness(&mut lab, pod, readiness, &mut report)?;
    report.conclude()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_labs_own_word_on_a_node_stands() {
        let mut given =
            json!({"metadata": {"labels": {"zone": "a", "kubernetes.io/os": "plan9"}}, "spec": {"x": 1}});
        lay_over(&mut given, json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}, "spec": {}}));
        let wanted =
            json!({"metadata": {"labels": {"zone": "a", "kubernetes.io/os": "linux"}}, "spec": {"x": 1}});
        assert_eq!(given, wanted);
    }
}
