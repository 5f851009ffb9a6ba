//! What policy says of connections, as the local API tells it.

use vrouter_forward::policy::{Opinion, Opinions};
use vrouter_proto::v1;
use vrouter_proto::v1::opinion::Kind;

/// Of both ends.
pub(super) fn opinions(opinions: Opinions) -> v1::Opinions {
    v1::Opinions { egress: Some(opinion(opinions.egress)), ingress: Some(opinion(opinions.ingress)) }
}

fn opinion(opinion: Opinion) -> v1::Opinion {
    let reference = |policy, rule| v1::RuleReference { policy, rule };
    let kind = match opinion {
        Opinion::Elsewhere => Kind::Elsewhere(v1::Empty {}),
        Opinion::NotAsked => Kind::NotAsked(v1::Empty {}),
        Opinion::Ungoverned => Kind::Ungoverned(v1::Empty {}),
        Opinion::Itself => Kind::Itself(v1::Empty {}),
        Opinion::OwnNode => Kind::OwnNode(v1::Empty {}),
        Opinion::Allowed { policy, rule } => Kind::Allowed(reference(policy, rule)),
        Opinion::Denied { policy, rule } => Kind::Denied(reference(policy, rule)),
        Opinion::Isolated { policies } => Kind::Isolated(v1::Isolation { policies }),
    };
    v1::Opinion { kind: Some(kind) }
}
