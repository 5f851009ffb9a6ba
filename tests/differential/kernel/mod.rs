//! The kernel's side: a network namespace plays the node, with rules in its real iptables, and what comes out of it is seen
//! at the other ends of its links.

mod links;
mod sockets;
mod stage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use vrouter_tests::lab::Family;

use self::links::Link;
use self::sockets::{Arrival, Sockets};
use self::stage::Stage;
use crate::packet::{Probe, Protocol, Seen, SeenKind};
use crate::place::{Client, OTHERS, Place, outsider};
use crate::verdict::Verdict;
use crate::world::World;

/// Packets that are under way together: fewer than the queue of a CPU holds.
const BATCH: usize = 100;
/// What a fence is sent to: nobody serves there, and no service has this address.
const NOBODY: u16 = 250;

/// A node of the kernel with a ruleset.
#[derive(Debug)]
pub struct Kernel {
    sockets: Sockets,
    sent: u32,
}

/// Rules for both families, as iptables-restore and ip6tables-restore read them.
#[derive(Debug, Clone)]
pub struct Ruleset {
    /// For IPv4.
    pub v4: String,
    /// For IPv6.
    pub v6: String,
}

/// Runs with a node of the kernel that has these rules. It lives in namespaces of one thread, which go with it, however it
/// ends.
pub fn with_kernel<T: Send>(
    ruleset: &Ruleset,
    work: impl FnOnce(&mut Kernel) -> Result<T> + Send,
) -> Result<T> {
    let run = || work(&mut Kernel::new(ruleset)?);
    thread::scope(|scope| scope.spawn(run).join()).map_err(|_| anyhow!("the kernel's side panicked"))?
}

impl Kernel {
    fn new(ruleset: &Ruleset) -> Result<Self> {
        let stage = Stage::set_up().context("the kernel's stage")?;
        stage.load(Family::V4, &ruleset.v4)?;
        stage.load(Family::V6, &ruleset.v6)?;
        let sockets = Sockets::open(&stage)?;
        Ok(Self { sockets, sent: 0 })
    }

    fn ask_batch(&mut self, probes: &[Probe]) -> Result<Vec<Verdict>> {
        let mut asked = BTreeMap::new();
        for (index, probe) in probes.iter().enumerate() {
            asked.insert(self.send(probe)?, index);
        }
        let mut verdicts = vec![Verdict::Silent; probes.len()];
        for (arrival, seen) in self.until_fence()? {
            let Some(&index) = asked.get(&seen.number) else { continue };
            let verdict = verdict(&probes[index], &arrival, &seen)?;
            ensure!(verdicts[index] == Verdict::Silent, "{:?} came out twice: {verdict}", probes[index]);
            verdicts[index] = verdict;
        }
        Ok(verdicts)
    }

    fn send(&mut self, probe: &Probe) -> Result<u32> {
        self.sent += 1;
        let packet = probe.packet(self.sent)?;
        match link_of(probe.client) {
            Some(link) => self.sockets.send_frame(link, &packet)?,
            None => self.sockets.send_from_node(probe.destination.ip(), &packet)?,
        }
        Ok(self.sent)
    }

    /// All that came out before a packet that is sent now. One CPU does everything in the order it was begun, so nothing
    /// can be under way any more.
    fn until_fence(&mut self) -> Result<Vec<(Arrival, Seen)>> {
        let family = Family::V4;
        let fence = self.send(&Probe {
            client: Client::Caller,
            protocol: Protocol::Udp,
            source: SocketAddr::new(Client::Caller.address(family, 0), 9),
            destination: SocketAddr::new(outsider(family, NOBODY), 9),
        })?;
        let mut arrivals = Vec::new();
        loop {
            let arrival = self.sockets.receive().context("the fence did not come out")?;
            let Some(seen) = Seen::read(&arrival.packet) else { continue };
            if seen.number == fence {
                return Ok(arrivals);
            }
            arrivals.push((arrival, seen));
        }
    }
}

impl World for Kernel {
    fn ask(&mut self, probes: &[Probe]) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(probes.len());
        for batch in probes.chunks(BATCH) {
            verdicts.extend(self.ask_batch(batch)?);
        }
        Ok(verdicts)
    }
}

/// The link that a client is at; `None`: the node itself.
fn link_of(client: Client) -> Option<Link> {
    match client.pod() {
        Some(number) => Some(Link::Pod(number)),
        None => client.is_outside().then_some(Link::Uplink),
    }
}

fn verdict(probe: &Probe, arrival: &Arrival, seen: &Seen) -> Result<Verdict> {
    let place = place(arrival)?;
    if let SeenKind::Reset | SeenKind::Error(..) = seen.kind {
        let own = link_of(probe.client).unwrap_or(Link::Observer);
        let is_told = arrival.link == own && seen.to == probe.source.ip();
        ensure!(is_told, "{probe:?}: {seen:?} went to somebody else, at {:?}", arrival.link);
    }
    Ok(Verdict::of(probe, seen.kind, place))
}

fn place(arrival: &Arrival) -> Result<Place> {
    Ok(match arrival.link {
        Link::Pod(number) => Place::Pod(number),
        Link::Observer => Place::Host,
        Link::Uplink if arrival.to == links::GATEWAY_MAC => Place::Outside,
        Link::Uplink => {
            let node = OTHERS.into_iter().find(|machine| links::node_mac(*machine) == arrival.to);
            match node {
                Some(machine) => Place::Node(machine.number),
                None => bail!("a packet to nobody's MAC address, {:02x?}", arrival.to),
            }
        }
    })
}
