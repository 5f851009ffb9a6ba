//! A steady load that other things happen under.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use vrouter_tests::command::Running;
use vrouter_tests::lab::{Lab, Place};
use vrouter_tests::report::{Load, Tally};

/// Requests that run from a pod to a Service.
pub struct Requests(Running);

impl Requests {
    /// Starts them.
    pub fn start(lab: &Lab, pod: &str, target: SocketAddr) -> Result<Self> {
        lab.start_probe(Place::Pod(pod), &["load", &target.to_string()]).map(Self)
    }

    /// Ends them; none may have failed, and no connection may have been answered by two pods.
    pub fn finish_unharmed(self) -> Result<Load> {
        let load: Load = self.0.finish(Duration::from_secs(40))?;
        all_answered("on kept connections", &load.kept)?;
        all_answered("on fresh connections", &load.fresh)?;
        ensure!(
            load.moved == 0,
            "{} answers on kept connections came from another pod: {load:?}",
            load.moved
        );
        Ok(load)
    }
}

/// Every request was answered, and there were some.
pub fn all_answered(what: &str, tally: &Tally) -> Result<()> {
    ensure!(tally.failed == 0 && tally.requests > 0, "{what}: {tally:?}");
    Ok(())
}

/// Asks so many times, each on a connection of its own; all must be answered.
pub fn ask(lab: &Lab, pod: &str, target: SocketAddr, count: u64) -> Result<Tally> {
    let (target, count) = (target.to_string(), count.to_string());
    let words = ["requests", &target, "--count", &count, "--parallel", "16"];
    let tally = lab.probe(Place::Pod(pod), &words)?;
    all_answered(&format!("requests to {target}"), &tally)?;
    Ok(tally)
}
