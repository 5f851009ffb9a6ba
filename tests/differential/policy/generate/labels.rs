//! Labels and selectors of few words, so that they often meet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::random::Random;
use crate::world::{Labels, NAME_LABEL};

/// Which words there are for something.
#[derive(Debug, Clone, Copy)]
pub struct Words(&'static [(&'static str, &'static [&'static str])]);

/// Of pods.
pub const POD: Words =
    Words(&[("app", &["web", "db", "cache"]), ("tier", &["front", "back"]), ("track", &["", "beta"])]);
/// Of namespaces.
pub const NAMESPACE: Words = Words(&[("team", &["red", "blue"]), ("env", &["prod", "test"])]);
/// Of namespaces, for selectors: their names are labels too.
pub const NAMED_NAMESPACE: Words = Words(&[
    ("team", &["red", "blue"]),
    ("env", &["prod", "test"]),
    (NAME_LABEL, super::places::NAMESPACES),
    (NAME_LABEL, super::places::NAMESPACES),
]);
/// Of nodes.
pub const NODE: Words = Words(&[("pool", &["big", "small"])]);

/// Some labels.
pub fn labels(words: Words, random: &mut Random) -> Labels {
    let mut labels = Labels::new();
    for (key, values) in words.0 {
        if random.percent(65) {
            labels.insert((*key).to_owned(), random.pick(values).to_owned());
        }
    }
    labels
}

/// A selector.
pub fn selector(words: Words, random: &mut Random) -> LabelSelector {
    let (labels, expressions) = match random.below(20) {
        // All.
        0..4 => (0, 0),
        4..11 => (1, 0),
        11 => (2, 0),
        12..17 => (0, 1),
        17 => (0, 2),
        _ => (1, 1),
    };
    let label = |random: &mut Random| {
        let (key, values) = random.pick(words.0);
        (key.to_owned(), random.pick(values).to_owned())
    };
    let match_labels: Labels = (0..labels).map(|_| label(random)).collect();
    let match_expressions: Vec<_> = (0..expressions).map(|_| requirement(words, random)).collect();
    // Empty and absent mean the same.
    let is_empty = random.percent(50);
    LabelSelector {
        match_labels: (!match_labels.is_empty() || is_empty).then_some(match_labels),
        match_expressions: (!match_expressions.is_empty() || is_empty).then_some(match_expressions),
    }
}

/// A selector that makes no sense.
pub fn senseless(words: Words, random: &mut Random) -> LabelSelector {
    let (key, values) = random.pick(words.0);
    let operator = random.pick(&["in", "Equals", ""]);
    let requirement = LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(vec![random.pick(values).to_owned()]),
    };
    LabelSelector { match_labels: None, match_expressions: Some(vec![requirement]) }
}

fn requirement(words: Words, random: &mut Random) -> LabelSelectorRequirement {
    let (key, values) = random.pick(words.0);
    let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
    let values = match operator {
        "In" | "NotIn" => {
            let count = 1 + random.below(2);
            Some(random.sample(values, count).into_iter().map(str::to_owned).collect())
        }
        _ => random.percent(30).then(Vec::new),
    };
    LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}
