//! What policies are asked, and what they say.

use vrouter_objects::{IpProtocol, PolicyAction, PolicyDirection, VrfId};

use super::policy::{InterfacePolicy, PolicyEntry, RuleEntry};
use crate::address::Address;

/// Who is at the other end of a connection, and what is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The network whose address it is; `None`: no pod's, as far as can be told.
    pub(crate) space: Option<VrfId>,
    /// The peer's address.
    pub(crate) address: Address,
    /// The protocol.
    pub(crate) protocol: IpProtocol,
    /// The destination port, whichever end it is on.
    pub(crate) port: u16,
}

/// What an interface's policies say of a request, and the administrator's rule that left it to those after.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ruled<'a> {
    /// What decides.
    pub(crate) ruling: Ruling<'a>,
    pub(super) passed_on: Option<&'a RuleEntry>,
}

/// What decides about a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ruling<'a> {
    /// Nothing: no policy governs the direction, or none that does has a rule about it.
    Open,
    /// This rule decides.
    Rule {
        /// Whose rule it is.
        policy: &'a PolicyEntry,
        /// The rule.
        rule: &'a RuleEntry,
    },
    /// Policies of the namespace govern the direction, and none of them lets it pass.
    Isolated(&'a InterfacePolicy, PolicyDirection),
}

impl Ruled<'_> {
    /// Whether the request may pass.
    pub(crate) fn allows(&self) -> bool {
        self.ruling.allows()
    }

    /// Counts a flow that is let pass, or a packet that is not.
    pub(crate) fn count(&self) {
        self.ruling.count();
        if let Some(rule) = self.passed_on.filter(|_| self.allows()) {
            rule.hits.count();
        }
    }
}

impl Ruling<'_> {
    fn allows(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Rule { rule, .. } => rule.action() != PolicyAction::Deny,
            Self::Isolated(..) => false,
        }
    }

    fn count(&self) {
        match self {
            Self::Open => {}
            Self::Rule { rule, .. } => rule.hits.count(),
            Self::Isolated(interface, direction) => {
                interface.isolating(*direction).for_each(|policy| policy.count_unmatched(*direction));
            }
        }
    }
}
