//! A steady load that other things happen under.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::de::DeserializeOwned;
use vrouter_tests::command::Running;
use vrouter_tests::lab::{Family, Lab, Place};
use vrouter_tests::report::{Knock, Load, Outcome, Tally};

/// Requests that run from one place to another.
pub struct Requests(Running);

impl Requests {
    /// Starts them in a pod.
    pub fn start(lab: &Lab, pod: &str, target: SocketAddr) -> Result<Self> {
        Self::from(lab, Place::Pod(pod), target)
    }

    /// Starts them anywhere.
    pub fn from(lab: &Lab, from: Place, target: SocketAddr) -> Result<Self> {
        lab.start_probe(from, &["load", &target.to_string()]).map(Self)
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

/// Probes that go on, each with what it does.
pub struct Loads<'a> {
    lab: &'a Lab,
    running: Vec<(String, Running)>,
}

impl<'a> Loads<'a> {
    /// None yet.
    pub fn of(lab: &'a Lab) -> Self {
        Self { lab, running: Vec::new() }
    }

    /// Starts one more: the probe's command, the target, and its options.
    pub fn add(mut self, from: Place, target: SocketAddr, words: &[&str]) -> Result<Self> {
        let target = target.to_string();
        let words = [&words[..1], &[&target], &words[1..]].concat();
        self.running.push((format!("{from:?}: {}", words.join(" ")), self.lab.start_probe(from, &words)?));
        Ok(self)
    }

    /// Ends them, and reads what each reports.
    pub fn finish<T: DeserializeOwned>(self) -> Result<Vec<(String, T)>> {
        let finish = |(what, probe): (String, Running)| Ok((what, probe.finish(Duration::from_secs(30))?));
        self.running.into_iter().map(finish).collect()
    }
}

/// Every request was answered, and there were some.
pub fn all_answered(what: &str, tally: &Tally) -> Result<()> {
    ensure!(tally.failed == 0 && tally.requests > 0, "{what}: {tally:?}");
    Ok(())
}

/// Asks so many times, each on a connection of its own; all must be answered.
pub fn ask(lab: &Lab, pod: &str, target: SocketAddr, count: u64) -> Result<Tally> {
    ask_from(lab, Place::Pod(pod), Protocol::Tcp, target, count)
}

/// Checks in both families and protocols.
pub fn each(check: impl Fn(Family, Protocol) -> Result<()>) -> Result<()> {
    for family in Family::BOTH {
        for protocol in Protocol::BOTH {
            check(family, protocol)?;
        }
    }
    Ok(())
}

/// Where a service's port is reached at a node's own address.
pub fn node_port(
    lab: &Lab,
    (service, port): (&str, u16),
    node: &str,
    family: Family,
    protocol: Protocol,
) -> Result<SocketAddr> {
    let port = lab.node_port(service, protocol.word(), port)?;
    Ok(SocketAddr::new(lab.address(Place::Node(node), family)?, port))
}

/// A protocol of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP.
    Tcp,
    /// A datagram, answered by one.
    Udp,
}

impl Protocol {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tcp, Self::Udp];

    /// As the probe takes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Asks so many times, each from a port of its own; all must be answered.
pub fn ask_from(lab: &Lab, from: Place, protocol: Protocol, target: SocketAddr, count: u64) -> Result<Tally> {
    let (text, count) = (target.to_string(), count.to_string());
    let words = ["requests", &text, "--protocol", protocol.word(), "--count", &count, "--parallel", "16"];
    let tally = lab.probe(from, &words)?;
    all_answered(&format!("{protocol:?} requests from {from:?} to {target}"), &tally)?;
    Ok(tally)
}

/// The same; and all who answer must have seen the client at this address.
pub fn ask_seen_as(
    lab: &Lab,
    from: Place,
    protocol: Protocol,
    target: SocketAddr,
    client: IpAddr,
) -> Result<Tally> {
    let tally = ask_from(lab, from, protocol, target, 12)?;
    let seen: Vec<_> = tally.clients.keys().copied().collect();
    ensure!(seen == [client], "{from:?} to {target}: seen as {seen:?}, not as {client}");
    Ok(tally)
}

/// Who answered.
pub fn members(tally: &Tally) -> Vec<&str> {
    tally.members.keys().map(String::as_str).collect()
}

/// How a port answers.
pub fn knock(lab: &Lab, from: Place, protocol: Protocol, target: SocketAddr) -> Result<Outcome> {
    let words = ["knock", &target.to_string(), "--protocol", protocol.word(), "--patience", "700"];
    Ok(lab.probe::<Knock>(from, &words)?.outcome)
}

/// A port must answer like this.
pub fn expect(
    lab: &Lab,
    from: Place,
    protocol: Protocol,
    target: SocketAddr,
    outcome: Outcome,
) -> Result<()> {
    let found = knock(lab, from, protocol, target)?;
    ensure!(found == outcome, "{protocol:?} from {from:?} to {target}: {found:?}, not {outcome:?}");
    Ok(())
}
