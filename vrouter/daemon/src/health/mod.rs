//! What load balancers outside the cluster are told over HTTP: at each service's health check port, whether it has
//! endpoints on this node (`healthCheckNodePort`), and at the node's own, whether the node forwards at all.

mod answer;
mod listener;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use vrouter_objects::Version;

use self::answer::Answer;
use self::listener::Listener;
use crate::agent::{Agent, Health};

/// How often it is looked after what nobody tells: whether the node is healthy, and ports that were in use.
const INTERVAL: Duration = Duration::from_secs(1);

/// Answers until it is told to stop, at the node's own address where it has one. A port that is in use is in the way of
/// nothing else, and is tried again.
pub async fn serve(agent: Arc<Agent>, node: Option<SocketAddr>, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut changes = agent.changes();
    let mut desk = Desk { node, ..Desk::default() };
    loop {
        changes.mark_unchanged();
        let asked = Arc::clone(&agent);
        if let Ok(health) = spawn_blocking(move || asked.health()).await
            && let Some(problems) = desk.follow(&health)
        {
            let told = Arc::clone(&agent);
            let _ = spawn_blocking(move || told.set_health_problems(problems)).await;
        }
        tokio::select! {
            () = &mut stop => return,
            // The sender is the agent's own.
            _ = changes.changed() => {}
            () = sleep(INTERVAL) => {}
        }
    }
}

/// All ports at which answers are given.
#[derive(Default)]
struct Desk {
    node: Option<SocketAddr>,
    listeners: BTreeMap<SocketAddr, Listener>,
    problems: Vec<String>,
    tables: Option<(Version, SystemTime)>,
}

impl Desk {
    /// Says what is so now, where it is to be said. Returns what keeps it from being said, if that is news.
    fn follow(&mut self, health: &Health) -> Option<Vec<String>> {
        let wanted = self.answers(health);
        self.listeners.retain(|address, _| wanted.contains_key(address));
        let mut problems = Vec::new();
        for (address, answer) in wanted {
            match self.listeners.get(&address) {
                Some(listener) => listener.say(answer),
                None => {
                    let subject = match &answer {
                        Answer::Service { name, .. } => format!("service {name}"),
                        Answer::Node { .. } => "this node".to_owned(),
                    };
                    match Listener::open(address, answer) {
                        Ok(listener) => drop(self.listeners.insert(address, listener)),
                        Err(error) => {
                            problems.push(format!("health checks of {subject} at {address}: {error}"));
                        }
                    }
                }
            }
        }
        if problems == self.problems {
            return None;
        }
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tracing::error!("{problem}");
        }
        self.problems.clone_from(&problems);
        Some(problems)
    }

    fn answers(&mut self, health: &Health) -> BTreeMap<SocketAddr, Answer> {
        let is_healthy = health.is_healthy;
        let updated = match self.tables {
            Some((version, since)) if version == health.version => since,
            _ => SystemTime::now(),
        };
        self.tables = Some((health.version, updated));
        let services = health.checks.iter().map(|(address, check)| {
            let name = check.service.clone();
            let local_endpoints = check.local_endpoints;
            (*address, Answer::Service { name, local_endpoints, is_node_healthy: is_healthy })
        });
        let node = self.node.map(|address| (address, Answer::Node { is_healthy, updated }));
        services.chain(node).collect()
    }
}

#[cfg(test)]
mod tests;
