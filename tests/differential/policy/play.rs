//! Playing a script: each packet goes through the nodes, and what becomes of it is compared with what the text says.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use anyhow::{Context, Result};
use vrouter_objects::DropReason;

use crate::fleet::{Fleet, Place, Seen};
use crate::objects::node_address;
use crate::reach::{Link, Probe, Reach, Transport};
use crate::script::{Script, Step};
use crate::text::Verdict;
use crate::wire::{Kind, RST, SYN, Segment, Shape};
use crate::world::{Protocol, World, family_of};

/// One delivered datagram in so many is complained about by its receiver.
const COMPLAINTS: u16 = 4;

/// What was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// New connections that were let through.
    pub allowed: usize,
    /// New connections that the sender's policies stopped.
    pub egress_denied: usize,
    /// New connections that the receiver's policies stopped.
    pub ingress_denied: usize,
    /// New connections between networks that have no way to each other.
    pub nowhere: usize,
    /// Packets of living connections that were let through.
    pub living_allowed: usize,
    /// Packets of living connections that were stopped.
    pub living_denied: usize,
    /// Answers that came back, which need no rule.
    pub answers: usize,
    /// ICMP errors that came back.
    pub complaints: usize,
}

/// What is not as it should be.
#[derive(Debug, Clone)]
pub struct Disagreement {
    /// The step at which it showed.
    pub step: usize,
    /// What should be and what was, without names: two with the same are the same fault.
    pub summary: String,
    /// All there is to know.
    pub details: String,
}

/// A connection that was let through.
#[derive(Debug, Clone)]
struct Living {
    probe: Probe,
    link: Link,
    /// As its first packet was sent.
    sent: Segment,
    /// As its first packet arrived.
    arrived: Segment,
    /// Where it arrived.
    server: Place,
}

/// One run.
#[derive(Debug)]
struct Play {
    fleet: Fleet,
    world: World,
    living: BTreeMap<u16, Living>,
    tally: Tally,
}

/// What a step shows: nothing, or what is wrong, in short and in full.
type Judged = Result<(), (String, String)>;

/// Plays a script to its end, or to the first disagreement.
pub fn play(script: &Script) -> Result<Result<Tally, Disagreement>> {
    let mut fleet = Fleet::new()?;
    fleet.become_like(&script.world)?;
    let mut play =
        Play { fleet, world: script.world.clone(), living: BTreeMap::new(), tally: Tally::default() };
    for (number, step) in script.steps.iter().enumerate() {
        if let Err((summary, details)) = play.step(step).with_context(|| format!("step {number}: {step}"))? {
            let problems = play.fleet.controller.problems().join("\n    ");
            let tables = play.fleet.tables_text();
            let details =
                format!("step {number}: {step}\n{details}\n problems:\n    {problems}\n tables:\n{tables}");
            return Ok(Err(Disagreement { step: number, summary, details }));
        }
    }
    Ok(Ok(play.tally))
}

impl Play {
    fn step(&mut self, step: &Step) -> Result<Judged> {
        match step {
            Step::Begin(probe) => self.begin(probe),
            Step::GoOn(id) => self.go_on(*id),
            Step::Answer(id) => self.answer(*id),
            Step::Change(changes) => {
                changes.iter().for_each(|change| change.apply(&mut self.world));
                self.living.retain(|_, living| {
                    living.link.verdict(&self.world).is_some() && living.serves(&self.world)
                });
                self.fleet.become_like(&self.world)?;
                Ok(Ok(()))
            }
        }
    }

    fn begin(&mut self, probe: &Probe) -> Result<Judged> {
        let links = match probe.reach(&self.world) {
            Reach::Void => return Ok(Ok(())),
            Reach::Nowhere => Vec::new(),
            Reach::Links(links) => links,
        };
        let Some(segment) = probe.segment(&self.world) else { return Ok(Ok(())) };
        let frames = segment.frames(probe.shape);
        let seen = self.fleet.send(&probe.place(), &frames)?;
        let seen = Outcome::read(&seen, &segment, &probe.place())?;
        let verdicts = links.into_iter().filter_map(|link| Some((link.verdict(&self.world)?, link)));
        let verdicts: Vec<(Verdict, Link)> = verdicts.collect();
        let right = verdicts.iter().find(|(verdict, link)| self.fits(*verdict, link, &seen, frames.len()));
        match right {
            None if verdicts.is_empty() && seen.arrived.is_empty() => {
                self.tally.nowhere += 1;
                Ok(Ok(()))
            }
            None => {
                let expected: Vec<String> =
                    verdicts.iter().map(|(verdict, _)| format!("{verdict:?}")).collect();
                let summary = format!("expected {}, but {}", expected.join(" or "), seen.summary());
                Ok(Err((summary, format!("  sent {segment:?}\n  expected {verdicts:?}\n  but {seen:?}"))))
            }
            Some((Verdict::EgressDenied, _)) => {
                self.tally.egress_denied += 1;
                Ok(Ok(()))
            }
            Some((Verdict::IngressDenied, _)) => {
                self.tally.ingress_denied += 1;
                Ok(Ok(()))
            }
            Some((Verdict::Allowed, link)) => {
                self.tally.allowed += 1;
                let (link, probe) = (link.clone(), probe.clone());
                let (server, arrived) = seen.arrived[0].clone();
                let living = Living { probe, link, sent: segment, arrived, server };
                self.converse(living)
            }
        }
    }

    /// The answer must come back, and so must an error about the packet; neither needs a rule.
    fn converse(&mut self, living: Living) -> Result<Judged> {
        if living.probe.shape != Shape::Whole {
            return Ok(Ok(()));
        }
        let client = living.probe.place();
        let server = living.server.clone();
        let answer = living.arrived.answer();
        let seen = self.pass(&server, &answer)?;
        if !seen.is_just(&client, &living.sent.answer()) {
            return Ok(Err(wrong("an answer", &answer, &living.sent.answer(), &seen)));
        }
        self.tally.answers += 1;
        if living.sent.kind == Kind::Udp && living.probe.id.is_multiple_of(COMPLAINTS) {
            let complaint = living.arrived.complaint();
            let seen = self.pass(&server, &complaint)?;
            if !seen.is_just(&client, &living.sent.complaint()) {
                return Ok(Err(wrong("an error", &complaint, &living.sent.complaint(), &seen)));
            }
            self.tally.complaints += 1;
        }
        if matches!(living.sent.kind, Kind::Tcp(_)) {
            let seen = self.pass(&client, &living.sent.next())?;
            if !seen.is_just(&server, &living.arrived.next()) {
                return Ok(Err(wrong("a handshake", &living.sent.next(), &living.arrived.next(), &seen)));
            }
        }
        self.living.insert(living.probe.id, living);
        Ok(Ok(()))
    }

    fn go_on(&mut self, id: u16) -> Result<Judged> {
        let Some(living) = self.living.get(&id).cloned() else { return Ok(Ok(())) };
        let (from, to) = (living.probe.place(), living.server.clone());
        self.continues(&living, (&from, living.sent.next()), (&to, living.arrived.next()))
    }

    fn answer(&mut self, id: u16) -> Result<Judged> {
        let Some(living) = self.living.get(&id).cloned() else { return Ok(Ok(())) };
        let (from, to) = (living.server.clone(), living.probe.place());
        self.continues(&living, (&from, living.arrived.next().answer()), (&to, living.sent.next().answer()))
    }

    /// A packet of a living connection meets the rules as they are now.
    fn continues(
        &mut self,
        living: &Living,
        (from, sent): (&Place, Segment),
        (to, expected): (&Place, Segment),
    ) -> Result<Judged> {
        let Some(verdict) = living.link.verdict(&self.world) else { return Ok(Ok(())) };
        let seen = self.pass(from, &sent)?;
        let is_right = match verdict {
            Verdict::Allowed => seen.is_just(to, &expected),
            Verdict::EgressDenied | Verdict::IngressDenied => {
                seen.arrived.is_empty() && seen.dropped.iter().all(|(_, reason)| is_policy(*reason))
            }
        };
        if !is_right {
            let (summary, details) = wrong("a living connection", &sent, &expected, &seen);
            let summary = format!("{summary}, expected {verdict:?}");
            return Ok(Err((summary, format!("  {verdict:?}: {:?}\n{details}", living.link))));
        }
        match verdict {
            // What was stopped goes on once it may again.
            Verdict::Allowed => self.tally.living_allowed += 1,
            Verdict::EgressDenied | Verdict::IngressDenied => self.tally.living_denied += 1,
        }
        Ok(Ok(()))
    }

    fn pass(&mut self, from: &Place, segment: &Segment) -> Result<Outcome> {
        let seen = self.fleet.send(from, &segment.frames(Shape::Whole))?;
        Outcome::read(&seen, segment, from)
    }

    fn fits(&self, verdict: Verdict, link: &Link, seen: &Outcome, frames: usize) -> bool {
        match verdict {
            Verdict::Allowed => {
                seen.dropped.is_empty()
                    && seen.arrived.len() == frames
                    && seen.arrived.iter().all(|(place, segment)| {
                        link.arrives_at(place) && is_of(segment, link) && is_from(segment, link)
                    })
            }
            Verdict::EgressDenied | Verdict::IngressDenied => {
                let reason = match verdict {
                    Verdict::EgressDenied => DropReason::PolicyEgress,
                    _ => DropReason::PolicyIngress,
                };
                let node = link.node_of(&self.world, verdict);
                seen.arrived.is_empty()
                    && seen.dropped.len() == frames
                    && seen.dropped.iter().all(|dropped| Some(dropped.0) == node && dropped.1 == reason)
            }
        }
    }
}

impl Living {
    /// Whether who was spoken to still is where the service leads.
    fn serves(&self, world: &World) -> bool {
        match self.probe.reach(world) {
            Reach::Links(links) => links.iter().any(|link| link.to == self.link.to),
            Reach::Nowhere | Reach::Void => false,
        }
    }
}

/// What became of packets, read.
#[derive(Debug)]
struct Outcome {
    arrived: Vec<(Place, Segment)>,
    dropped: Vec<(usize, DropReason)>,
    /// What the sender was told.
    told: Vec<Segment>,
}

impl Outcome {
    fn read(seen: &Seen, sent: &Segment, sender: &Place) -> Result<Self> {
        let mut outcome = Self { arrived: Vec::new(), dropped: seen.dropped.clone(), told: Vec::new() };
        for (place, frame) in &seen.arrived {
            let segment = Segment::read(frame)?;
            let is_about_it = match &segment.kind {
                Kind::Tcp(flags) => flags & RST != 0,
                Kind::Error(_) => !matches!(sent.kind, Kind::Error(_)),
                _ => false,
            };
            if is_about_it && place == sender {
                outcome.told.push(segment);
            } else {
                outcome.arrived.push((place.clone(), segment));
            }
        }
        Ok(outcome)
    }

    fn is_just(&self, place: &Place, segment: &Segment) -> bool {
        let arrived = self.arrived.iter().map(|(place, segment)| (place, segment));
        self.dropped.is_empty() && arrived.eq([(place, segment)])
    }

    fn summary(&self) -> String {
        let dropped: Vec<String> = self.dropped.iter().map(|(_, reason)| reason.to_string()).collect();
        let arrived = if self.arrived.is_empty() { "nothing arrived" } else { "it arrived" };
        format!("{arrived}, dropped: [{}]", dropped.join(", "))
    }
}

fn is_policy(reason: DropReason) -> bool {
    matches!(reason, DropReason::PolicyEgress | DropReason::PolicyIngress)
}

/// Whether an arrived packet is for whom the connection is to.
fn is_of(segment: &Segment, link: &Link) -> bool {
    let to = link.to.1;
    let is_port = match (&segment.kind, link.transport) {
        (Kind::Fragment, _) | (_, Transport::Echo) => true,
        (Kind::Tcp(flags), Transport::Ports(Protocol::Tcp)) => {
            flags & SYN != 0 && segment.destination.port() == to.port()
        }
        (Kind::Udp, Transport::Ports(Protocol::Udp)) | (Kind::Sctp, Transport::Ports(Protocol::Sctp)) => {
            segment.destination.port() == to.port()
        }
        _ => false,
    };
    segment.destination.ip() == to.ip() && is_port
}

/// Whether an arrived packet is in the name of who sent it, or of the node.
fn is_from(segment: &Segment, link: &Link) -> bool {
    let (source, from) = (segment.source.ip(), link.from.1);
    // Who reaches itself through a service must not see itself.
    let is_itself = link.from.0 == link.to.0;
    is_itself || source == from || source == node_address(link.exit, family_of(from))
}

fn wrong(what: &str, sent: &Segment, expected: &Segment, seen: &Outcome) -> (String, String) {
    let summary = format!("{what}: {}", seen.summary());
    (summary, format!("  sent {sent:?}\n  expected {expected:?}\n  but {seen:?}"))
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.allowed += other.allowed;
        self.egress_denied += other.egress_denied;
        self.ingress_denied += other.ingress_denied;
        self.nowhere += other.nowhere;
        self.living_allowed += other.living_allowed;
        self.living_denied += other.living_denied;
        self.answers += other.answers;
        self.complaints += other.complaints;
    }
}

impl Tally {
    /// How many packets had a verdict that was compared.
    pub fn cases(&self) -> usize {
        let new = self.allowed + self.egress_denied + self.ingress_denied + self.nowhere;
        new + self.living_allowed + self.living_denied
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, egress_denied, ingress_denied, nowhere, living_allowed, living_denied, .. } =
            self;
        writeln!(f, "{} cases", self.cases())?;
        writeln!(
            f,
            "  new: {allowed} allowed, {egress_denied} denied by egress, {ingress_denied} by ingress"
        )?;
        writeln!(f, "  between networks without a way: {nowhere}")?;
        writeln!(f, "  of living connections: {living_allowed} allowed, {living_denied} denied")?;
        write!(f, "  came back: {} answers, {} errors", self.answers, self.complaints)
    }
}
