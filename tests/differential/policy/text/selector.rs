//! Label selectors: "the result of matchLabels and matchExpressions are ANDed. An empty label selector matches all objects."

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::world::Labels;

/// Whether a selector selects what bears these labels. One that makes no sense selects nothing.
pub fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let labels_match =
        selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let requirements = selector.match_expressions.as_deref().unwrap_or_default();
    let is_sensible = requirements.iter().all(|requirement| is_met(requirement, labels).is_some());
    is_sensible
        && labels_match
        && requirements.iter().all(|requirement| is_met(requirement, labels) == Some(true))
}

/// `None`: the requirement makes no sense.
fn is_met(requirement: &LabelSelectorRequirement, labels: &Labels) -> Option<bool> {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| values.contains(value));
    match requirement.operator.as_str() {
        // "If the operator is In or NotIn, the values array must be non-empty."
        "In" => (!values.is_empty()).then_some(is_listed),
        "NotIn" => (!values.is_empty()).then_some(!is_listed),
        // "If the operator is Exists or DoesNotExist, the values array must be empty."
        "Exists" => values.is_empty().then_some(value.is_some()),
        "DoesNotExist" => values.is_empty().then_some(value.is_none()),
        _ => None,
    }
}
