//! The scheduler: which node a pod goes to.

use std::collections::BTreeMap;

use crate::pod::PodSpec;

/// A node as the scheduler sees it.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Takes pods that name no node.
    pub schedulable: bool,
    /// How many pods of the same workload it has.
    pub pods: usize,
}

/// Why a pod cannot be placed: the field that says so, and what is wrong with it.
pub type Refusal = (&'static str, String);

/// The node for a pod: the one it names; else, of those its selector allows, the one with the fewest pods of the same
/// workload, earlier nodes first. For a fresh workload that is round robin from the first node.
pub fn place<'a>(spec: &PodSpec, candidates: &[Candidate<'a>]) -> Result<&'a str, Refusal> {
    if let Some(wanted) = &spec.node_name {
        return candidates
            .iter()
            .find(|node| node.name == wanted)
            .map(|node| node.name)
            .ok_or_else(|| ("spec.nodeName", format!("no node {wanted:?} in this lab")));
    }
    let selected = !spec.node_selector.is_empty();
    let matches = |node: &&Candidate| {
        let has = |(label, value): (&String, &String)| node.labels.get(label) == Some(value);
        if selected { spec.node_selector.iter().all(has) } else { node.schedulable }
    };
    candidates.iter().filter(matches).min_by_key(|node| node.pods).map(|node| node.name).ok_or_else(|| {
        if selected {
            ("spec.nodeSelector", "no node of this lab has these labels".to_owned())
        } else {
            ("", "there is no node to run it on".to_owned())
        }
    })
}

/// The nodes that get a pod of a DaemonSet.
pub fn everywhere<'a>(spec: &PodSpec, candidates: &[Candidate<'a>]) -> Vec<&'a str> {
    let fits = |node: &&Candidate| place(spec, std::slice::from_ref(*node)).is_ok();
    candidates.iter().filter(fits).map(|node| node.name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(fields: Value) -> PodSpec {
        let mut spec = json!({"containers": [{"name": "a"}]});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn labels() -> Vec<BTreeMap<String, String>> {
        ["n1", "n2", "k1"].map(|name| [("kubernetes.io/hostname".into(), name.into())].into()).into()
    }

    fn candidates(labels: &[BTreeMap<String, String>], pods: [usize; 3]) -> Vec<Candidate<'_>> {
        ["n1", "n2", "k1"]
            .into_iter()
            .zip(labels)
            .zip(pods)
            .map(|((name, labels), pods)| Candidate { name, labels, schedulable: name != "k1", pods })
            .collect()
    }

    #[test]
    fn pods_go_round_from_the_first_node() {
        let labels = labels();
        let anywhere = spec(json!({}));
        let mut pods = [0; 3];
        let mut row = Vec::new();
        for _ in 0..4 {
            let node = place(&anywhere, &candidates(&labels, pods)).unwrap();
            pods[if node == "n1" { 0 } else { 1 }] += 1;
            row.push(node);
        }
        assert_eq!(row, ["n1", "n2", "n1", "n2"]);
    }

    #[test]
    fn a_named_node_and_a_selector_are_honoured() {
        let labels = labels();
        let nodes = candidates(&labels, [0, 0, 9]);
        assert_eq!(place(&spec(json!({"nodeName": "k1"})), &nodes), Ok("k1"));
        let chosen = spec(json!({"nodeSelector": {"kubernetes.io/hostname": "n2"}}));
        assert_eq!(place(&chosen, &nodes), Ok("n2"));
        assert_eq!(place(&spec(json!({"nodeName": "n9"})), &nodes).unwrap_err().0, "spec.nodeName");
        let nowhere = spec(json!({"nodeSelector": {"disk": "ssd"}}));
        assert_eq!(place(&nowhere, &nodes).unwrap_err().0, "spec.nodeSelector");
        assert_eq!(everywhere(&spec(json!({})), &nodes), ["n1", "n2"]);
    }
}
