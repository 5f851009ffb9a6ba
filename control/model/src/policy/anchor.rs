//! Finding what selects a pod without asking everything that might.
//!
//! What selects pods hangs on anchors, of which every pod that it selects has at least one. A pod has few of them, and
//! what hangs on none of them does not select it. Where there is a choice, the anchor is taken on which the fewest others hang.

use std::collections::BTreeMap;

use super::meaning::{Meaning, Whom};
use crate::kube::{NamespaceSelection, PodSelection, Requirement, Selector, Test};
use crate::multimap::Multimap;

/// What some pods have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anchor {
    /// It is a pod, of this namespace if one is named, and is labelled so.
    Pod(Option<String>, Mark),
    /// Its namespace is labelled so.
    Namespace(Mark),
    /// It has a port of this name.
    Port(String),
}

/// What can be said of labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Nothing in particular.
    Any,
    /// There is this label, whatever its value.
    Key(String),
    /// There is this label, with this value.
    Label(String, String),
}

/// Things that select pods, by anchors.
#[derive(Debug, Clone)]
pub struct Anchored<T> {
    hanging: Multimap<Anchor, T>,
    anchors: BTreeMap<T, Vec<Anchor>>,
}

impl<T> Default for Anchored<T> {
    fn default() -> Self {
        Self { hanging: Multimap::default(), anchors: BTreeMap::new() }
    }
}

/// Anchors any of which each selected pod has.
type Choice = Vec<Anchor>;

impl<T: Ord + Clone> Anchored<T> {
    /// Hangs up something that selects these pods.
    pub fn insert_selection(&mut self, thing: T, selection: &PodSelection) {
        self.insert(thing, of_selection(selection));
    }

    /// Hangs up something that means these pods.
    pub fn insert_meaning(&mut self, thing: T, meaning: &Meaning) {
        let by_port = meaning.port.iter().map(|port| vec![Anchor::Port(port.name.clone())]);
        let choices = match &meaning.whom {
            Whom::Pods(selection) => of_selection(selection),
            Whom::Block(_) => vec![vec![Anchor::Pod(None, Mark::Any)]],
        };
        self.insert(thing, by_port.chain(choices).collect());
    }

    /// Takes it down.
    pub fn remove(&mut self, thing: &T) {
        for anchor in self.anchors.remove(thing).unwrap_or_default() {
            self.hanging.remove(&anchor, thing);
        }
    }

    /// What hangs on these anchors.
    pub fn hanging_on<'a>(
        &'a self,
        anchors: impl Iterator<Item = Anchor> + 'a,
    ) -> impl Iterator<Item = &'a T> {
        anchors.flat_map(|anchor| self.hanging.get(&anchor))
    }

    fn insert(&mut self, thing: T, choices: Vec<Choice>) {
        let crowd = |choice: &Choice| choice.iter().map(|anchor| self.hanging.count(anchor)).sum::<usize>();
        let best = choices.into_iter().min_by_key(|choice| (breadth(choice), crowd(choice)));
        let best = best.unwrap_or_default();
        for anchor in &best {
            self.hanging.insert(anchor.clone(), thing.clone());
        }
        self.anchors.insert(thing, best);
    }
}

/// The anchors of a pod in a namespace, by their labels and its ports' names.
pub fn anchors<'a>(
    namespace: (&'a str, impl Iterator<Item = (&'a str, &'a str)> + 'a),
    labels: impl Iterator<Item = (&'a str, &'a str)> + Clone + 'a,
    ports: impl Iterator<Item = &'a str> + 'a,
) -> impl Iterator<Item = Anchor> + 'a {
    let (namespace, namespace_labels) = namespace;
    let of_pod = [Some(namespace), None].into_iter().flat_map(move |namespace| {
        let namespace = namespace.map(str::to_owned);
        marks(labels.clone()).map(move |mark| Anchor::Pod(namespace.clone(), mark))
    });
    let of_namespace = marks(namespace_labels).map(Anchor::Namespace);
    of_pod.chain(of_namespace).chain(ports.map(|name| Anchor::Port(name.to_owned())))
}

/// What can be said of these labels.
fn marks<'a>(labels: impl Iterator<Item = (&'a str, &'a str)> + 'a) -> impl Iterator<Item = Mark> + 'a {
    let of_label = |(key, value): (&str, &str)| {
        [Mark::Key(key.to_owned()), Mark::Label(key.to_owned(), value.to_owned())]
    };
    std::iter::once(Mark::Any).chain(labels.flat_map(of_label))
}

/// How much a choice holds at least, whoever hangs on it: a value of a label is had by fewer than the label, and that by
/// fewer than are in the namespace.
fn breadth(choice: &Choice) -> u8 {
    let breadth = |anchor: &Anchor| match anchor {
        Anchor::Pod(_, Mark::Label(..)) | Anchor::Namespace(Mark::Label(..)) | Anchor::Port(_) => 0,
        Anchor::Pod(_, Mark::Key(_)) | Anchor::Namespace(Mark::Key(_)) => 1,
        Anchor::Pod(Some(_), Mark::Any) => 2,
        Anchor::Pod(None, Mark::Any) | Anchor::Namespace(Mark::Any) => 3,
    };
    choice.iter().map(breadth).max().unwrap_or(0)
}

fn of_selection(selection: &PodSelection) -> Vec<Choice> {
    let (namespace, of_namespaces) = match &selection.namespaces {
        NamespaceSelection::Named(name) => (Some(name), Vec::new()),
        NamespaceSelection::Labelled(selector) => (None, of_selector(selector, Anchor::Namespace)),
    };
    let of_pods = of_selector(&selection.pods, |mark| Anchor::Pod(namespace.cloned(), mark));
    let any = vec![Anchor::Pod(namespace.cloned(), Mark::Any)];
    of_pods.into_iter().chain(of_namespaces).chain([any]).collect()
}

fn of_selector(selector: &Selector, anchor: impl Fn(Mark) -> Anchor) -> Vec<Choice> {
    let choice = |Requirement { key, test }: &Requirement| match test {
        Test::In(values) => {
            Some(values.iter().map(|value| anchor(Mark::Label(key.clone(), value.clone()))).collect())
        }
        Test::Exists => Some(vec![anchor(Mark::Key(key.clone()))]),
        Test::NotIn(_) | Test::DoesNotExist => None,
    };
    selector.requirements().filter_map(choice).collect()
}
