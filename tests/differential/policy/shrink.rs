//! Making a disagreement small: whatever can be left out without its going away is left out.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicySpec;

use crate::play::{Disagreement, play};
use crate::script::{Script, Step};
use crate::world::{Name, World};

/// Scripts that are tried at most.
const TRIES: usize = 500;

/// Something that may be left out of a script.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Step(usize),
    /// One of the changes of a step.
    Change(usize, usize),
    Policy(Name),
    ClusterPolicy(String),
    Service(Name),
    Pod(Name),
    Namespace(String),
    /// A rule of a policy.
    Ingress(Name, usize),
    Egress(Name, usize),
    ClusterIngress(String, usize),
    ClusterEgress(String, usize),
}

/// The smallest script that was found to show the same disagreement.
pub fn smallest(script: Script, disagreement: Disagreement) -> (Script, Disagreement) {
    let mut best = (script, disagreement);
    let mut tries = 0;
    // What came after it has no part in it.
    best.0.steps.truncate(best.1.step + 1);
    let mut size = parts(&best.0).len() / 2;
    while size > 0 {
        let mut found = false;
        let mut at = 0;
        loop {
            let all = parts(&best.0);
            let Some(some) = all.get(at..(at + size).min(all.len())).filter(|some| !some.is_empty()) else {
                break;
            };
            if tries == TRIES {
                return best;
            }
            tries += 1;
            let smaller = without(&best.0, some);
            match play(&smaller) {
                Ok(Err(disagreement)) if disagreement.summary == best.1.summary => {
                    best = (smaller, disagreement);
                    best.0.steps.truncate(best.1.step + 1);
                    found = true;
                }
                _ => at += size,
            }
        }
        if !found || size > 1 {
            size /= 2;
        }
    }
    best
}

fn parts(script: &Script) -> Vec<Part> {
    let Script { world, steps } = script;
    let mut parts: Vec<Part> = (0..steps.len()).map(Part::Step).collect();
    for (at, step) in steps.iter().enumerate() {
        if let Step::Change(changes) = step {
            parts.extend((0..changes.len()).map(|number| Part::Change(at, number)));
        }
    }
    parts.extend(world.policies.keys().cloned().map(Part::Policy));
    parts.extend(world.cluster_policies.keys().cloned().map(Part::ClusterPolicy));
    parts.extend(world.services.keys().cloned().map(Part::Service));
    parts.extend(world.pods.keys().cloned().map(Part::Pod));
    parts.extend(world.namespaces.keys().cloned().map(Part::Namespace));
    for (name, policy) in &world.policies {
        let Some(NetworkPolicySpec { ingress, egress, .. }) = &policy.spec else { continue };
        parts.extend((0..ingress.iter().flatten().count()).map(|number| Part::Ingress(name.clone(), number)));
        parts.extend((0..egress.iter().flatten().count()).map(|number| Part::Egress(name.clone(), number)));
    }
    for (name, policy) in &world.cluster_policies {
        parts.extend((0..policy.ingress.len()).map(|number| Part::ClusterIngress(name.clone(), number)));
        parts.extend((0..policy.egress.len()).map(|number| Part::ClusterEgress(name.clone(), number)));
    }
    parts
}

/// The script without these of its parts, which are in the order of [`parts`].
fn without(script: &Script, parts: &[Part]) -> Script {
    let mut smaller = script.clone();
    // From behind, so that the numbers of those that are still to go stay right.
    parts.iter().rev().for_each(|part| remove(&mut smaller, part));
    smaller
}

fn remove(script: &mut Script, part: &Part) {
    let Script { world, steps } = script;
    match part {
        Part::Step(at) => drop(steps.remove(*at)),
        Part::Change(at, number) => {
            if let Some(Step::Change(changes)) = steps.get_mut(*at) {
                changes.remove(*number);
            }
        }
        Part::Policy(name) => forget(&mut world.policies, name),
        Part::ClusterPolicy(name) => forget(&mut world.cluster_policies, name),
        Part::Service(name) => forget(&mut world.services, name),
        Part::Pod(name) => forget(&mut world.pods, name),
        Part::Namespace(name) => forget(&mut world.namespaces, name),
        Part::Ingress(name, number) => {
            if let Some(rules) = spec(world, name).and_then(|spec| spec.ingress.as_mut()) {
                rules.remove(*number);
            }
        }
        Part::Egress(name, number) => {
            if let Some(rules) = spec(world, name).and_then(|spec| spec.egress.as_mut()) {
                rules.remove(*number);
            }
        }
        Part::ClusterIngress(name, number) => {
            if let Some(policy) = world.cluster_policies.get_mut(name) {
                policy.ingress.remove(*number);
            }
        }
        Part::ClusterEgress(name, number) => {
            if let Some(policy) = world.cluster_policies.get_mut(name) {
                policy.egress.remove(*number);
            }
        }
    }
}

fn forget<K: Ord, V>(map: &mut BTreeMap<K, V>, key: &K) {
    map.remove(key);
}

fn spec<'a>(world: &'a mut World, name: &Name) -> Option<&'a mut NetworkPolicySpec> {
    world.policies.get_mut(name)?.spec.as_mut()
}
