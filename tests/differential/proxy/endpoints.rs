//! Which endpoints of a frontend take traffic on a node.

use super::frontend::{Endpoint, Frontend, Policy};
use crate::place::OWN;

/// The endpoints in use, by policy, and whether there is one anywhere.
#[derive(Debug, Default)]
pub struct Usable {
    /// For traffic that may go to any node.
    pub cluster: Vec<Endpoint>,
    /// For traffic that stays on this node.
    pub local: Vec<Endpoint>,
    /// Whether somebody in the cluster would take traffic.
    pub anywhere: bool,
}

impl Usable {
    /// Sorts a frontend's endpoints.
    pub fn of(frontend: &Frontend) -> Self {
        let endpoints = &frontend.endpoints;
        let uses_cluster = frontend.internal == Policy::Cluster || frontend.is_external();
        let uses_local = frontend.internal == Policy::Local
            || frontend.external == Policy::Local && frontend.is_external();
        let own = OWN.name();
        let is_local = |endpoint: &&Endpoint| endpoint.node.as_deref() == Some(&own);
        let cluster = if uses_cluster { in_scope(endpoints.iter(), hinted(endpoints)) } else { Vec::new() };
        let all = Hints::Ignored;
        let local = if uses_local { in_scope(endpoints.iter().filter(is_local), all) } else { Vec::new() };
        let anywhere = endpoints.iter().any(|it| it.ready || is_last_resort(it));
        Self { cluster, local, anywhere }
    }

    /// Every endpoint that some policy uses, once.
    pub fn all(&self) -> impl Iterator<Item = &Endpoint> {
        let is_new = |endpoint: &&Endpoint| self.cluster.iter().all(|it| it.address != endpoint.address);
        self.cluster.iter().chain(self.local.iter().filter(is_new))
    }
}

/// How topology narrows the ready endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hints {
    Ignored,
    Node,
    Zone,
}

/// The ready ones; where there are none, those that terminate but still serve.
fn in_scope<'a>(scope: impl Iterator<Item = &'a Endpoint> + Clone, hints: Hints) -> Vec<Endpoint> {
    let ready = scope.clone().filter(|endpoint| endpoint.ready && fits(endpoint, hints));
    let ready: Vec<Endpoint> = ready.cloned().collect();
    if ready.is_empty() { scope.filter(|it| is_last_resort(it)).cloned().collect() } else { ready }
}

fn is_last_resort(endpoint: &Endpoint) -> bool {
    !endpoint.ready && endpoint.serving && endpoint.terminating
}

fn fits(endpoint: &Endpoint, hints: Hints) -> bool {
    match hints {
        Hints::Ignored => true,
        Hints::Node => endpoint.nodes.contains(&OWN.name()),
        Hints::Zone => endpoint.zones.iter().any(|zone| zone == OWN.zone),
    }
}

/// A kind of hints counts where every ready endpoint has some and one of them names this node, or its zone.
fn hinted(endpoints: &[Endpoint]) -> Hints {
    let ready: Vec<&Endpoint> = endpoints.iter().filter(|endpoint| endpoint.ready).collect();
    let all_have = |has: fn(&Endpoint) -> bool| ready.iter().all(|endpoint| has(endpoint));
    let any_fits = |hints| ready.iter().any(|endpoint| fits(endpoint, hints));
    if all_have(|it| !it.nodes.is_empty()) && any_fits(Hints::Node) {
        Hints::Node
    } else if all_have(|it| !it.zones.is_empty()) && any_fits(Hints::Zone) {
        Hints::Zone
    } else {
        Hints::Ignored
    }
}
