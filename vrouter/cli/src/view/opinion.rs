//! What network policy says of a connection on this node.

use std::fmt;

use serde::Serialize;
use vrouter_proto::v1;
use vrouter_proto::v1::opinion::Kind;

/// What policy says of both ends of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Opinions {
    /// As it leaves the pod that begins it.
    pub(super) egress: Opinion,
    /// As it comes to the pod that it is to.
    pub(super) ingress: Opinion,
}

/// What policy says of one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub(super) enum Opinion {
    /// Something that this tool does not know.
    Unknown,
    /// No pod of this node is at that end.
    Elsewhere,
    /// The other end forbids it already.
    NotAsked,
    /// No policy governs it.
    Ungoverned,
    /// A pod speaks to itself.
    Itself,
    /// A pod and its own node speak.
    OwnNode,
    /// A rule allows it.
    Allowed(Rule),
    /// A rule denies it.
    Denied(Rule),
    /// Policies govern it, and none has a rule that allows it.
    Isolated {
        /// What they are called.
        policies: Vec<String>,
    },
}

/// A rule, by its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Rule {
    policy: String,
    rule: String,
}

/// What one end makes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It may be.
    Allow,
    /// It may not.
    Deny,
    /// That is not decided here.
    Untold,
}

impl Opinions {
    /// Of what a node says.
    pub(super) fn read(message: &v1::Opinions) -> Self {
        Self {
            egress: Opinion::read(message.egress.as_ref()),
            ingress: Opinion::read(message.ingress.as_ref()),
        }
    }

    /// Who forbids it, with the direction.
    pub(super) fn denial(&self) -> Option<String> {
        let ends = [("egress", &self.egress), ("ingress", &self.ingress)];
        let denied = ends.into_iter().find(|(_, opinion)| opinion.verdict() == Verdict::Deny);
        denied.map(|(direction, opinion)| format!("{direction} {opinion}"))
    }
}

impl Opinion {
    fn read(message: Option<&v1::Opinion>) -> Self {
        let Some(kind) = message.and_then(|message| message.kind.as_ref()) else { return Self::Unknown };
        match kind {
            Kind::Elsewhere(_) => Self::Elsewhere,
            Kind::NotAsked(_) => Self::NotAsked,
            Kind::Ungoverned(_) => Self::Ungoverned,
            Kind::Itself(_) => Self::Itself,
            Kind::OwnNode(_) => Self::OwnNode,
            Kind::Allowed(reference) => Self::Allowed(Rule::read(reference)),
            Kind::Denied(reference) => Self::Denied(Rule::read(reference)),
            Kind::Isolated(isolation) => Self::Isolated { policies: isolation.policies.clone() },
        }
    }

    /// What it makes of the connection.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Ungoverned | Self::Itself | Self::OwnNode | Self::Allowed(_) => Verdict::Allow,
            Self::Denied(_) | Self::Isolated { .. } => Verdict::Deny,
            Self::Unknown | Self::Elsewhere | Self::NotAsked => Verdict::Untold,
        }
    }
}

impl Rule {
    fn read(message: &v1::RuleReference) -> Self {
        Self { policy: message.policy.clone(), rule: message.rule.clone() }
    }
}

impl fmt::Display for Opinion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown | Self::Elsewhere | Self::NotAsked => f.write_str("-"),
            Self::Ungoverned => f.write_str("no policy"),
            Self::Itself => f.write_str("no policy: a pod and itself"),
            Self::OwnNode => f.write_str("no policy: a pod and its own node"),
            Self::Allowed(Rule { policy, rule }) => write!(f, "{policy} {rule}"),
            Self::Denied(Rule { policy, rule }) => write!(f, "denied by {policy} {rule}"),
            Self::Isolated { policies } => write!(f, "denied: no rule of {} allows it", policies.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> v1::RuleReference {
        v1::RuleReference { policy: "NetworkPolicy shop/front".to_owned(), rule: "ingress[0]".to_owned() }
    }

    fn message(kind: Kind) -> Option<v1::Opinion> {
        Some(v1::Opinion { kind: Some(kind) })
    }

    #[test]
    fn opinions_in_words() {
        let policies = ["NetworkPolicy shop/a", "NetworkPolicy shop/b"].map(str::to_owned).to_vec();
        let empty = v1::Empty {};
        for (kind, verdict, words) in [
            (Kind::Elsewhere(empty), Verdict::Untold, "-"),
            (Kind::NotAsked(empty), Verdict::Untold, "-"),
            (Kind::Ungoverned(empty), Verdict::Allow, "no policy"),
            (Kind::Itself(empty), Verdict::Allow, "no policy: a pod and itself"),
            (Kind::OwnNode(empty), Verdict::Allow, "no policy: a pod and its own node"),
            (Kind::Allowed(rule()), Verdict::Allow, "NetworkPolicy shop/front ingress[0]"),
            (Kind::Denied(rule()), Verdict::Deny, "denied by NetworkPolicy shop/front ingress[0]"),
            (
                Kind::Isolated(v1::Isolation { policies }),
                Verdict::Deny,
                "denied: no rule of NetworkPolicy shop/a, NetworkPolicy shop/b allows it",
            ),
        ] {
            let opinion = Opinion::read(message(kind).as_ref());
            assert_eq!((opinion.verdict(), opinion.to_string().as_str()), (verdict, words));
        }
        assert_eq!(Opinion::read(None), Opinion::Unknown);
    }

    #[test]
    fn who_forbids_is_told_with_the_direction() {
        let egress = message(Kind::Ungoverned(v1::Empty {}));
        let denied = v1::Opinions { egress: egress.clone(), ingress: message(Kind::Denied(rule())) };
        let told = Opinions::read(&denied).denial();
        assert_eq!(told.as_deref(), Some("ingress denied by NetworkPolicy shop/front ingress[0]"));
        let allowed = v1::Opinions { egress, ingress: message(Kind::Allowed(rule())) };
        assert_eq!(Opinions::read(&allowed).denial(), None);
    }

    #[test]
    fn documents_say_what_policy_says() {
        let document = |kind| serde_json::to_value(Opinion::read(message(kind).as_ref())).unwrap();
        assert_eq!(document(Kind::OwnNode(v1::Empty {})), serde_json::json!({ "says": "own_node" }));
        let denied = serde_json::json!({ "says": "denied", "policy": "NetworkPolicy shop/front", "rule": "ingress[0]" });
        assert_eq!(document(Kind::Denied(rule())), denied);
    }
}
