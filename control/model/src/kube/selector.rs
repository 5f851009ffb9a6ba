//! Label selectors, brought to one form, so that two that say the same are the same.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

use crate::problem::Findings;

/// The label that every Namespace has, with its name as the value, whether its object says so or there is none.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A label selector: what meets all of these is meant. Without any, everything is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Selector(BTreeSet<Requirement>);

/// What a selector says of one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What must be true of it.
    pub test: Test,
}

/// What must be true of a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Test {
    /// It is there, with one of these values.
    In(BTreeSet<String>),
    /// It is not there, or with none of these values.
    NotIn(BTreeSet<String>),
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// Pods of some namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodSelection {
    /// Whose pods.
    pub namespaces: NamespaceSelection,
    /// Which of them.
    pub pods: Selector,
}

/// Some namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NamespaceSelection {
    /// This one.
    Named(String),
    /// Those with such labels.
    Labelled(Selector),
}

/// A selector of which something cannot be read. What can be read of it means more than it was to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooWide(pub Selector);

impl Selector {
    /// Reads a selector.
    pub fn read(selector: &LabelSelector, field: &str, findings: &mut Findings) -> Result<Self, TooWide> {
        let equal = |(key, value): (&String, &String)| Requirement {
            key: key.clone(),
            test: Test::In([value.clone()].into()),
        };
        let mut requirements: BTreeSet<_> = selector.match_labels.iter().flatten().map(equal).collect();
        let mut is_whole = true;
        for (i, expression) in selector.match_expressions.iter().flatten().enumerate() {
            match requirement(expression, &format!("{field}.matchExpressions[{i}]"), findings) {
                Some(requirement) => drop(requirements.insert(requirement)),
                None => is_whole = false,
            }
        }
        if is_whole { Ok(Self(requirements)) } else { Err(TooWide(Self(requirements))) }
    }

    /// What it asks of labels.
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    /// Whether it means everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it means something with these labels, which are asked for by key.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.test.passes(label(&requirement.key)))
    }

    /// The one value that this label must have, where the selector says nothing else.
    fn only_value(&self, key: &str) -> Option<&str> {
        let mut requirements = self.0.iter();
        match (requirements.next(), requirements.next()) {
            (Some(Requirement { key: only, test: Test::In(values) }), None)
                if only == key && values.len() == 1 =>
            {
                values.first().map(String::as_str)
            }
            _ => None,
        }
    }
}

impl Test {
    fn passes(&self, value: Option<&str>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
        }
    }
}

impl NamespaceSelection {
    /// The namespaces with such labels. Where that can be one alone, it is named.
    pub fn labelled(selector: Selector) -> Self {
        match selector.only_value(NAMESPACE_NAME) {
            Some(name) => Self::Named(name.to_owned()),
            None => Self::Labelled(selector),
        }
    }
}

fn requirement(
    expression: &LabelSelectorRequirement,
    field: &str,
    findings: &mut Findings,
) -> Option<Requirement> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values: BTreeSet<String> = values.iter().flatten().cloned().collect();
    let test = match (operator.as_str(), values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        ("In" | "NotIn", true) => {
            findings.add(format!("{field}.values"), format!("{operator} needs at least one value"));
            return None;
        }
        ("Exists" | "DoesNotExist", false) => {
            findings.add(format!("{field}.values"), format!("{operator} takes no values"));
            return None;
        }
        (other, _) => {
            let message = format!("\"{other}\" is none of In, NotIn, Exists, DoesNotExist");
            findings.add(format!("{field}.operator"), message);
            return None;
        }
    };
    Some(Requirement { key: key.clone(), test })
}

impl fmt::Display for Selector {
    /// As `kubectl` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, test } = self;
        let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(",");
        match test {
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Test::In(values) => write!(f, "{key} in ({})", list(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Test::Exists => write!(f, "{key}"),
            Test::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl fmt::Display for PodSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespaces, pods } = self;
        if pods.is_everything() { f.write_str("all pods") } else { write!(f, "pods {pods}") }?;
        match namespaces {
            NamespaceSelection::Named(name) => write!(f, " in namespace {name}"),
            NamespaceSelection::Labelled(selector) if selector.is_everything() => Ok(()),
            NamespaceSelection::Labelled(selector) => write!(f, " in namespaces {selector}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> Result<Selector, (TooWide, Vec<String>)> {
        let mut findings = Findings::default();
        let selector = serde_json::from_value(selector).unwrap();
        let read = Selector::read(&selector, "s", &mut findings);
        let found = findings.into_vec().into_iter();
        read.map_err(|rest| (rest, found.map(|f| format!("{}: {}", f.field, f.message)).collect()))
    }

    fn matches(selector: &Selector, labels: &[(&str, &str)]) -> bool {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        selector.matches(|key| labels.get(key).copied())
    }

    #[test]
    fn every_operator_for_labels_that_are_there_and_that_are_not() {
        let expression = |operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] });
        for (selector, absent, one, other) in [
            (json!({}), true, true, true),
            (json!({ "matchLabels": { "a": "1" } }), false, true, false),
            (expression("In", &["1", "3"]), false, true, false),
            (expression("In", &["1", "2"]), false, true, true),
            // As Kubernetes has it, a label that is not there is in no list of values.
            (expression("NotIn", &["1"]), true, false, true),
            (expression("NotIn", &["1", "2"]), true, false, false),
            (expression("Exists", &[]), false, true, true),
            (expression("DoesNotExist", &[]), true, false, false),
        ] {
            let read = read(selector.clone()).unwrap();
            let found = [&[][..], &[("a", "1")], &[("a", "2")]].map(|labels| matches(&read, labels));
            assert_eq!(found, [absent, one, other], "{selector}");
        }
    }

    #[test]
    fn all_must_be_met() {
        let selector = read(json!({
            "matchLabels": { "app": "web", "tier": "front" },
            "matchExpressions": [{ "key": "old", "operator": "DoesNotExist" }],
        }));
        let selector = selector.unwrap();
        assert!(matches(&selector, &[("app", "web"), ("tier", "front"), ("more", "x")]));
        assert!(!matches(&selector, &[("app", "web")]));
        assert!(!matches(&selector, &[("app", "web"), ("tier", "front"), ("old", "")]));
    }

    #[test]
    fn what_says_the_same_is_the_same() {
        let labels = read(json!({ "matchLabels": { "a": "1", "b": "2" } })).unwrap();
        let expressions = read(json!({ "matchExpressions": [
            { "key": "b", "operator": "In", "values": ["2"] }, { "key": "a", "operator": "In", "values": ["1", "1"] },
        ] }));
        assert_eq!(labels, expressions.unwrap());
        assert_eq!(labels.to_string(), "a=1,b=2");
        let named = read(json!({ "matchLabels": { NAMESPACE_NAME: "shop" } })).unwrap();
        assert_eq!(NamespaceSelection::labelled(named), NamespaceSelection::Named("shop".to_owned()));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_said() {
        for (expression, message) in [
            (json!({ "operator": "Near" }), "operator: \"Near\" is none of In, NotIn, Exists, DoesNotExist"),
            (json!({ "operator": "in", "values": ["1"] }), "operator: \"in\" is none of"),
            (json!({ "operator": "In" }), "values: In needs at least one value"),
            (json!({ "operator": "NotIn", "values": [] }), "values: NotIn needs at least one value"),
            (json!({ "operator": "Exists", "values": ["1"] }), "values: Exists takes no values"),
        ] {
            let mut expression = expression;
            expression["key"] = "b".into();
            let selector = json!({ "matchLabels": { "a": "1" }, "matchExpressions": [expression] });
            let (TooWide(rest), found) = read(selector).unwrap_err();
            assert_eq!(rest.to_string(), "a=1");
            assert!(found[0].starts_with(&format!("s.matchExpressions[0].{message}")), "{found:?}");
        }
    }
}
