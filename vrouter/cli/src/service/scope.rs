//! Which members take new flows by which of a service's frontends.

use vrouter_objects::{FloatingIp, Listener, Member, MemberState, TrafficPolicy};

use super::OwnNode;

/// The members of one listener that take new flows on this node, in order of id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes<'a> {
    /// Those of the cluster; `None` where no frontend leads to them.
    pub cluster: Option<Vec<&'a Member>>,
    /// Those of the node itself; `None` where no frontend leads to them.
    pub local: Option<Vec<&'a Member>>,
    /// Whether any member could take some, be it on another node.
    pub is_usable: bool,
}

impl<'a> Scopes<'a> {
    /// Those of a service's listener on this node.
    pub fn of(service: &FloatingIp, listener: &'a Listener, node: &OwnNode) -> Self {
        let has_external = is_external(service, listener);
        let internal_is_local = service.internal_policy == TrafficPolicy::Local;
        let external_is_local = service.external_policy == TrafficPolicy::Local;
        // Pods and the node itself get all of the cluster by an external frontend, whatever its policy.
        let uses_cluster = !internal_is_local || has_external;
        let uses_local = internal_is_local || (external_is_local && has_external);
        let members = &listener.members;
        let vantage = node.vantage();
        Self {
            cluster: uses_cluster.then(|| vantage.taking(TrafficPolicy::Cluster, members)),
            local: uses_local.then(|| vantage.taking(TrafficPolicy::Local, members)),
            is_usable: members.iter().any(|member| member.state != MemberState::Leaving),
        }
    }

    /// The members that a frontend with this policy leads to.
    pub fn by(&self, policy: TrafficPolicy) -> &[&'a Member] {
        let scope = match policy {
            TrafficPolicy::Cluster => &self.cluster,
            TrafficPolicy::Local => &self.local,
        };
        scope.as_deref().unwrap_or_default()
    }
}

/// Whether the listener has any frontend but the cluster address.
pub(crate) fn is_external(service: &FloatingIp, listener: &Listener) -> bool {
    listener.node_port.is_some() || !service.external.is_empty()
}

#[cfg(test)]
mod tests {
    use MemberState::{Leaving, Ready, Serving};
    use vrouter_objects::{ExternalAddress, ExternalKind, TopologyHints};

    use super::*;
    use crate::service::testing::{ip, listener, member, node, router, service};

    fn numbers(scope: Option<&Vec<&Member>>) -> Option<Vec<u32>> {
        scope.map(|members| members.iter().map(|member| member.id.get()).collect())
    }

    /// Members 1, 2, … on these nodes in these states, of a service that uses both scopes.
    fn scopes(members: &[(u32, MemberState)]) -> (Vec<u32>, Vec<u32>, bool) {
        let members = (1..).zip(members);
        let members = members.map(|(id, (on, state))| member(id, &format!("10.244.{on}.{id}"), *on, *state));
        let listener = listener("", 80, members.collect());
        let mut service = service("default/web", "10.96.0.1", vec![]);
        service.external_policy = TrafficPolicy::Local;
        service.external =
            vec![ExternalAddress { address: ip("203.0.113.1"), kind: ExternalKind::ExternalIp }];
        let scopes = Scopes::of(&service, &listener, &node());
        let (cluster, local) = (numbers(scopes.cluster.as_ref()), numbers(scopes.local.as_ref()));
        (cluster.unwrap(), local.unwrap(), scopes.is_usable)
    }

    #[test]
    fn each_scope_falls_back_by_itself() {
        for (members, cluster, local, is_usable) in [
            (&[][..], &[][..], &[][..], false),
            (&[(1, Ready), (2, Ready)], &[1, 2], &[1], true),
            (&[(1, Serving), (2, Ready)], &[2], &[1], true),
            (&[(1, Serving), (1, Ready), (2, Serving)], &[2], &[2], true),
            (&[(1, Serving), (2, Serving), (1, Leaving)], &[1, 2], &[1], true),
            (&[(2, Ready), (3, Ready)], &[1, 2], &[], true),
            (&[(1, Leaving), (2, Serving)], &[2], &[], true),
            (&[(1, Leaving)], &[], &[], false),
        ] {
            assert_eq!(scopes(members), (cluster.to_vec(), local.to_vec(), is_usable), "{members:?}");
        }
    }

    #[test]
    fn a_scope_is_there_where_a_frontend_leads_to_it() {
        use TrafficPolicy::{Cluster, Local};
        for (internal, external, is_reached_from_outside, uses) in [
            (Cluster, Cluster, false, (true, false)),
            (Cluster, Local, false, (true, false)),
            (Cluster, Local, true, (true, true)),
            (Local, Cluster, false, (false, true)),
            (Local, Cluster, true, (true, true)),
            (Local, Local, true, (true, true)),
        ] {
            let mut service = service("default/web", "10.96.0.1", vec![]);
            let mut listener = listener("", 80, vec![]);
            (service.internal_policy, service.external_policy) = (internal, external);
            listener.node_port = is_reached_from_outside.then(|| crate::service::testing::number(30_080));
            let scopes = Scopes::of(&service, &listener, &node());
            let found = (scopes.cluster.is_some(), scopes.local.is_some());
            assert_eq!(found, uses, "{internal:?} {external:?} {is_reached_from_outside}");
        }
    }

    /// Members 1, 2, … with hints for these nodes and zones.
    fn hinted(hints: &[(&[u32], &[&str])]) -> Vec<u32> {
        let members = (1..).zip(hints).map(|(id, (routers, zones))| Member {
            hints: TopologyHints {
                routers: routers.iter().copied().map(router).collect(),
                zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            },
            ..member(id, &format!("10.244.2.{id}"), 2, Ready)
        });
        let listener = listener("", 80, members.collect());
        let service = service("default/web", "10.96.0.1", vec![]);
        numbers(Scopes::of(&service, &listener, &node()).cluster.as_ref()).unwrap()
    }

    #[test]
    fn hints_of_nodes_come_before_those_of_zones_and_count_where_all_have_them() {
        for (hints, expected) in [
            (&[(&[1][..], &["a"][..]), (&[2], &["a"]), (&[3], &["b"])][..], &[1][..]),
            (&[(&[2], &["a"]), (&[2], &["a"]), (&[3], &["b"])], &[1, 2]),
            (&[(&[1], &["a"]), (&[], &["a"]), (&[], &["b"])], &[1, 2]),
            (&[(&[2], &["b"]), (&[3], &["b"])], &[1, 2]),
            (&[(&[], &["a"]), (&[], &[])], &[1, 2]),
            (&[(&[], &["a", "b"]), (&[], &["b"])], &[1]),
        ] {
            assert_eq!(hinted(hints), expected, "{hints:?}");
        }
    }

    #[test]
    fn hints_of_those_that_are_not_ready_do_not_count() {
        let hint = |member: Member, zone: &str| Member {
            hints: TopologyHints { zones: vec![zone.to_owned()], routers: vec![] },
            ..member
        };
        let of = |members| {
            let listener = listener("", 80, members);
            let service = service("default/web", "10.96.0.1", vec![]);
            numbers(Scopes::of(&service, &listener, &node()).cluster.as_ref()).unwrap()
        };
        let ready = |id, zone| hint(member(id, &format!("10.244.2.{id}"), 2, Ready), zone);
        let plain = member(3, "10.244.2.3", 2, Serving);
        assert_eq!(of(vec![ready(1, "a"), ready(2, "b"), plain]), [1]);
        let serving = |id, zone| hint(member(id, &format!("10.244.2.{id}"), 2, Serving), zone);
        assert_eq!(of(vec![serving(1, "a"), serving(2, "b")]), [1, 2], "as a last resort all count");
    }
}
