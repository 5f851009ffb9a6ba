//! One port of one service, and which chains it needs.

use std::net::{IpAddr, SocketAddr};

use vrouter_objects::{FloatingIp, Listener, Member, TrafficPolicy};

use super::Family;
use super::name::ServicePortName;
use super::rule::Rule;
use super::table::Tables;
use super::{external, frontend, pool};
use crate::service::{OwnNode, Scopes, is_external};

/// One port of one service, with who answers it on this node.
pub(super) struct ServicePort<'a> {
    pub(super) service: &'a FloatingIp,
    pub(super) listener: &'a Listener,
    pub(super) node: &'a OwnNode,
    pub(super) name: ServicePortName,
    pub(super) scopes: Scopes<'a>,
}

/// What becomes of packets to a frontend that leads nowhere.
pub(super) struct Refusal {
    comment: String,
    target: &'static str,
}

impl<'a> ServicePort<'a> {
    pub(super) fn new(service: &'a FloatingIp, listener: &'a Listener, node: &'a OwnNode) -> Self {
        Self {
            service,
            listener,
            node,
            name: ServicePortName::new(&service.name, listener),
            scopes: Scopes::of(service, listener, node),
        }
    }

    /// Writes everything that it needs.
    pub(super) fn write(&self, tables: &mut Tables) {
        frontend::cluster_address(self, tables);
        frontend::external_addresses(self, tables);
        frontend::node_port(self, tables);
        frontend::health_check(self, &mut tables.filter);
        if self.scopes.is_usable {
            if is_external(self.service, self.listener) {
                external::destinations(self, &mut tables.nat);
            }
            if self.has_firewall() {
                external::firewall(self, &mut tables.nat);
            }
            pool::write(self, &mut tables.nat);
        }
    }

    pub(super) fn family(&self) -> Family {
        Family::of(self.service.address)
    }

    /// A rule for packets to the service's port at this address.
    pub(super) fn to(&self, address: IpAddr, comment: &str) -> Rule {
        Rule::new().to(address).comment(comment).port(self.name.protocol(), self.listener.port)
    }

    /// The chain that leads to the members that a policy allows.
    pub(super) fn policy_chain(&self, policy: TrafficPolicy) -> String {
        match policy {
            TrafficPolicy::Cluster => self.name.cluster_chain(),
            TrafficPolicy::Local => self.name.local_chain(),
        }
    }

    /// What becomes of packets, if a policy leads them to nobody.
    pub(super) fn refusal(&self, policy: TrafficPolicy) -> Option<Refusal> {
        if !self.scopes.is_usable {
            let target = self.family().reject();
            Some(Refusal { comment: format!("{} has no endpoints", self.name), target })
        } else if self.scopes.by(policy).is_empty() {
            Some(Refusal { comment: format!("{} has no local endpoints", self.name), target: "DROP" })
        } else {
            None
        }
    }

    /// Whether it is looked at who comes to the load balancer's addresses.
    pub(super) fn has_firewall(&self) -> bool {
        let has_load_balancer = frontend::load_balancer_addresses(self).next().is_some();
        self.scopes.is_usable && has_load_balancer && !self.service.source_ranges.is_empty()
    }
}

impl Refusal {
    pub(super) fn comment(&self) -> &str {
        &self.comment
    }

    /// The refusal of the packets that this rule is for.
    pub(super) fn of(&self, rule: Rule) -> Rule {
        rule.then(self.target)
    }
}

/// Where a member is.
pub(super) fn endpoint(member: &Member) -> SocketAddr {
    SocketAddr::new(member.address, member.port.get())
}
