//! Network policies in brief.

use serde::Serialize;
use vrouter_objects::PolicyDirection;

use crate::client::Client;
use crate::error::CliError;
use crate::output::{Format, Row, rows};
use crate::policy::{HeldPolicy, MissingPolicy, PolicyView};
use crate::words::{self, or_dash};

/// A policy.
#[derive(Debug, Serialize)]
struct Brief {
    id: u32,
    /// None: it selects pods here, but is not held. Then nothing else is known of it.
    name: Option<String>,
    tier: Option<&'static str>,
    /// Of the administrator's tiers.
    priority: Option<u16>,
    pods: usize,
    /// Rules; none: it does not govern the direction.
    egress: Option<usize>,
    ingress: Option<usize>,
    /// New flows that its rules let go on.
    flows: u64,
    /// Packets that were dropped by a rule of it, or since no rule let them pass.
    dropped: u64,
}

impl Row for Brief {
    const HEADINGS: &'static [&'static str] =
        &["TIER", "POLICY", "PODS", "EGRESS", "INGRESS", "FLOWS", "DROPPED"];

    fn cells(&self) -> Vec<String> {
        let tier = self.tier.into_iter().map(str::to_owned);
        let tier: Vec<_> = tier.chain(self.priority.map(|priority| priority.to_string())).collect();
        let rules = |rules: Option<usize>| {
            or_dash(rules.map(|rules| words::counted(rules as u64, "rule")).unwrap_or_default())
        };
        let missing = || format!("id {}, not held: everything is denied", self.id);
        vec![
            or_dash(tier.join(" ")),
            self.name.clone().unwrap_or_else(missing),
            self.pods.to_string(),
            rules(self.egress),
            rules(self.ingress),
            self.flows.to_string(),
            self.dropped.to_string(),
        ]
    }
}

/// Shows all policies, in the order they are asked.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    rows(format, &briefs(&PolicyView::ask(client).await?))
}

fn briefs(view: &PolicyView) -> Vec<Brief> {
    view.policies.iter().map(brief).chain(view.missing.iter().map(missing)).collect()
}

fn brief(held: &HeldPolicy) -> Brief {
    let policy = &held.policy;
    let rules = |direction| policy.rules(direction).map(<[_]>::len);
    Brief {
        id: policy.id.get(),
        name: Some(policy.name.clone()),
        tier: Some(words::tier(policy.tier)),
        priority: words::priority(policy.tier),
        pods: held.pods.len(),
        egress: rules(PolicyDirection::Egress),
        ingress: rules(PolicyDirection::Ingress),
        flows: held.flows(),
        dropped: held.dropped(),
    }
}

fn missing(missing: &MissingPolicy) -> Brief {
    Brief {
        id: missing.id.get(),
        name: None,
        tier: None,
        priority: None,
        pods: missing.pods.len(),
        egress: None,
        ingress: None,
        flows: 0,
        dropped: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table;
    use crate::policy::testing::view;

    #[test]
    fn policies_in_the_order_they_are_asked() {
        let expected = "\
TIER         POLICY                                 PODS  EGRESS   INGRESS  FLOWS  DROPPED
namespace    NetworkPolicy shop/front               2     0 rules  3 rules  13     5
baseline 20  ClusterNetworkPolicy last-word         0     2 rules  -        1      70
-            id 11, not held: everything is denied  1     -        -        0      0";
        assert_eq!(table(&briefs(&view())), expected);
    }
}
