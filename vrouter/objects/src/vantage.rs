//! Which members of a pool take new flows, as one node sees them: by kube-proxy's rules (`CategorizeEndpoints`).

use crate::{Member, MemberState, RouterId, TrafficPolicy};

/// The place that a node looks at members from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vantage<'a> {
    /// The node; `None`: it does not know itself yet, and has no member of its own.
    pub router: Option<RouterId>,
    /// Its zone, empty where it has none.
    pub zone: &'a str,
}

impl Vantage<'_> {
    /// Whether a member is on this node.
    pub fn has(&self, member: &Member) -> bool {
        self.router.is_some() && member.router == self.router
    }

    /// Those that a policy gives new flows to, in their order: the ready ones of its scope, or else the serving ones
    /// (KEP-1669); of all the cluster's, those that are meant for this node, where hints say for whom they are.
    pub fn taking<'m>(&self, policy: TrafficPolicy, members: &'m [Member]) -> Vec<&'m Member> {
        match policy {
            TrafficPolicy::Cluster => self.near(best(members.iter().collect())),
            TrafficPolicy::Local => best(members.iter().filter(|member| self.has(member)).collect()),
        }
    }

    /// Those that are meant for this node, where all say for whom they are meant: for the node itself, or else for its
    /// zone. Hints count for ready members only.
    fn near<'m>(&self, taking: Vec<&'m Member>) -> Vec<&'m Member> {
        let is_ready = taking.first().is_some_and(|member| member.state == MemberState::Ready);
        if !is_ready {
            return taking;
        }
        let for_node =
            |member: &&Member| self.router.is_some_and(|router| member.hints.routers.contains(&router));
        let for_zone = |member: &&Member| {
            !self.zone.is_empty() && member.hints.zones.iter().any(|zone| zone == self.zone)
        };
        let all_name_nodes = taking.iter().all(|member| !member.hints.routers.is_empty());
        if all_name_nodes && taking.iter().any(for_node) {
            return taking.into_iter().filter(for_node).collect();
        }
        let all_name_zones = taking.iter().all(|member| !member.hints.zones.is_empty());
        if all_name_zones && taking.iter().any(for_zone) {
            return taking.into_iter().filter(for_zone).collect();
        }
        taking
    }
}

/// The ready ones, or else the serving ones.
fn best(scope: Vec<&Member>) -> Vec<&Member> {
    let best = scope.iter().map(|member| member.state).min();
    match best {
        Some(best @ (MemberState::Ready | MemberState::Serving)) => {
            scope.into_iter().filter(|member| member.state == best).collect()
        }
        Some(MemberState::Leaving) | None => Vec::new(),
    }
}
