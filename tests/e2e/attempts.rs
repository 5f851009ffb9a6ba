//! Carrying out what examples say must work and must not: with real connections, in both families.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use vrouter_tests::attempt::{Asked, Asker, Attempt, Manner, Verdict};
use vrouter_tests::command::Running;
use vrouter_tests::lab::{Family, Lab, Place};
use vrouter_tests::report::{Associations, Replies, Reply};
use vrouter_tests::status::{LabStatus, Pod};

/// Milliseconds for what must be answered, however busy the machine is.
const PATIENCE: u64 = 5000;
/// For what must not be.
const LITTLE_PATIENCE: u64 = 1000;
/// How the host beyond the nodes' network calls itself.
const INTERNET: &str = "internet";

/// Carries them all out, in both families, and fails with all that came out otherwise.
pub fn carry_out(lab: &Lab, attempts: &[Attempt]) -> Result<()> {
    let world = World(lab.status()?);
    let mut questions = BTreeMap::<String, (Place, Vec<Question>)>::new();
    for attempt in attempts {
        for family in Family::BOTH {
            let (place, question) =
                world.question(attempt, family).with_context(|| format!("{attempt}, {family:?}"))?;
            questions.entry(format!("{place:?}")).or_insert((place, Vec::new())).1.push(question);
        }
    }
    let _answering = answer_associations(lab, attempts)?;
    let mut wrong = Vec::new();
    thread::scope(|scope| {
        let asking: Vec<_> = questions
            .values()
            .map(|(place, questions)| scope.spawn(move || ask_all(lab, *place, questions)))
            .collect();
        for thread in asking {
            wrong.extend(thread.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        anyhow::Ok(())
    })?;
    ensure!(wrong.is_empty(), "{} came out otherwise:\n  {}", wrong.len(), wrong.join("\n  "));
    Ok(())
}

/// The attempts by which the pods' own nodes reach what others ask: probes.
pub fn probes(attempts: &[Attempt]) -> Vec<Attempt> {
    let mut probes: Vec<Attempt> = Vec::new();
    for Attempt { to, manner, .. } in attempts {
        let probe =
            Attempt { from: Asker::OwnNode, to: to.clone(), manner: *manner, verdict: Verdict::Works };
        if matches!(to, Asked::Pod(_)) && !probes.contains(&probe) {
            probes.push(probe);
        }
    }
    probes
}

/// How many packets policy must have dropped when these were carried out: one each, in both families.
pub fn denied(attempts: &[Attempt]) -> u64 {
    2 * attempts.iter().filter(|attempt| attempt.verdict == Verdict::Denied).count() as u64
}

/// An attempt in one family, and what it comes to.
struct Question<'a> {
    attempt: &'a Attempt,
    target: SocketAddr,
    /// Who may answer.
    answerers: BTreeSet<&'a str>,
    /// The address that whoever answers sees the client at; `None`: that is of no matter here.
    seen_as: Option<IpAddr>,
}

/// The lab as it is when they are carried out.
struct World(LabStatus);

impl World {
    fn question<'a>(&'a self, attempt: &'a Attempt, family: Family) -> Result<(Place<'a>, Question<'a>)> {
        let place = self.place(attempt)?;
        let address = match &attempt.to {
            Asked::Pod(pod) => family.pick(&self.pod(pod)?.ips),
            Asked::Service(service) => self.service(service, place, family)?,
            Asked::Internet => family.pick(&self.0.internet.addresses),
        };
        let port = match attempt.manner {
            Manner::Tcp(port) | Manner::Udp(port) | Manner::Sctp(port) => port,
            Manner::Ping => 0,
        };
        let target = SocketAddr::new(address.context("no address")?, port);
        let answerers = self.answerers(&attempt.to);
        Ok((place, Question { attempt, target, answerers, seen_as: self.seen_as(attempt, family)? }))
    }

    fn place<'a>(&'a self, attempt: &'a Attempt) -> Result<Place<'a>> {
        Ok(match &attempt.from {
            Asker::Pod(pod) => Place::Pod(pod),
            Asker::Client => Place::Client,
            Asker::SecondClient => Place::SecondClient,
            Asker::Internet => Place::Internet,
            Asker::OwnNode | Asker::AnotherNode => {
                let Asked::Pod(pod) = &attempt.to else { return Err(anyhow!("nodes ask pods alone")) };
                let own = &self.pod(pod)?.node;
                let wanted = |name: &&str| (name == own) == (attempt.from == Asker::OwnNode);
                let found = self.0.nodes.iter().map(|node| node.name.as_str()).find(wanted);
                Place::Node(found.context("no such node")?)
            }
        })
    }

    fn pod(&self, name: &str) -> Result<&Pod> {
        let mut pods = self.0.pods.iter();
        let found = pods.find(|pod| split(name) == Some((&pod.namespace, &pod.name)));
        found.with_context(|| format!("no pod {name}"))
    }

    /// Inside the cluster address counts, and outside the load balancer's.
    fn service(&self, name: &str, from: Place, family: Family) -> Result<Option<IpAddr>> {
        let mut services = self.0.services.iter();
        let found = services.find(|it| split(name) == Some((&it.namespace, &it.name)));
        let service = found.with_context(|| format!("no service {name}"))?;
        Ok(family.pick(match from {
            Place::Pod(_) | Place::Node(_) => &service.cluster_ips,
            Place::Client | Place::SecondClient | Place::Internet => &service.ingress_ips,
        }))
    }

    /// Of a Service the pod that is called like it, or else any pod of its namespace.
    fn answerers<'a>(&'a self, asked: &'a Asked) -> BTreeSet<&'a str> {
        match asked {
            Asked::Pod(pod) => split(pod).map(|(_, name)| name).into_iter().collect(),
            Asked::Service(service) => {
                let Some((namespace, name)) = split(service) else { return BTreeSet::new() };
                let inside = self.0.pods.iter().filter(|pod| pod.namespace == namespace);
                let names: BTreeSet<_> = inside.map(|pod| pod.name.as_str()).collect();
                if names.contains(name) { [name].into() } else { names }
            }
            Asked::Internet => [INTERNET].into(),
        }
    }

    /// Pods and clients are seen as themselves, but pods by the world as their nodes.
    fn seen_as(&self, attempt: &Attempt, family: Family) -> Result<Option<IpAddr>> {
        let addresses = match (&attempt.from, &attempt.to) {
            (Asker::Pod(pod), Asked::Internet) => {
                let name = &self.pod(pod)?.node;
                self.0.nodes.iter().find(|node| node.name == *name).map(|node| &node.addresses)
            }
            (Asker::Pod(pod), _) => Some(&self.pod(pod)?.ips),
            (Asker::Client, _) => Some(&self.0.client.addresses),
            (Asker::SecondClient, _) => Some(&self.0.client2.addresses),
            (Asker::Internet, _) => Some(&self.0.internet.addresses),
            (Asker::OwnNode | Asker::AnotherNode, _) => None,
        };
        Ok(addresses.and_then(|addresses| family.pick(addresses)))
    }
}

/// A namespace and a name in it.
fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// The lab's server answers no SCTP, so something else does for as long as this lives.
fn answer_associations(lab: &Lab, attempts: &[Attempt]) -> Result<Vec<Running>> {
    let ports: BTreeSet<_> = attempts
        .iter()
        .filter_map(|attempt| match (&attempt.to, attempt.manner) {
            (Asked::Pod(pod), Manner::Sctp(port)) => Some((pod, port)),
            _ => None,
        })
        .collect();
    let answer =
        |(pod, port): (&String, u16)| lab.start_probe(Place::Pod(pod), &["answer-sctp", &port.to_string()]);
    ports.into_iter().map(answer).collect()
}

/// Asks all that is to be asked from one place; returns what came out otherwise.
fn ask_all(lab: &Lab, from: Place, questions: &[Question]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut surveyed = Vec::new();
    for question in questions {
        match question.attempt.manner {
            Manner::Tcp(_) => surveyed.push((question, "tcp")),
            Manner::Udp(_) => surveyed.push((question, "udp")),
            Manner::Sctp(_) => wrong.extend(question.associate(lab, from)?),
            Manner::Ping => wrong.extend(question.ping(lab, from)?),
        }
    }
    if surveyed.is_empty() {
        return Ok(wrong);
    }
    let lines: Vec<_> = surveyed.iter().map(|(question, protocol)| question.line(protocol)).collect();
    let found: Vec<Replies> = lab.probe_with(from, &["survey"], &lines.join("\n"))?;
    ensure!(found.len() == surveyed.len(), "{from:?}: {} of {} answers", found.len(), surveyed.len());
    let judged = surveyed.iter().zip(&found).filter(|((question, _), replies)| !question.is_right(replies));
    wrong.extend(judged.map(|((question, _), replies)| format!("{question}: {replies:?}")));
    Ok(wrong)
}

impl Question<'_> {
    fn works(&self) -> bool {
        self.attempt.verdict == Verdict::Works
    }

    /// As the probe's survey takes it.
    fn line(&self, protocol: &str) -> String {
        let (count, patience) = if self.works() { (3, PATIENCE) } else { (1, LITTLE_PATIENCE) };
        format!("{} --protocol {protocol} --count {count} --patience {patience}", self.target)
    }

    fn is_right(&self, replies: &Replies) -> bool {
        match self.attempt.verdict {
            Verdict::Works => replies.iter().all(|reply| self.is_fitting(reply)),
            Verdict::Denied => *replies == [Reply::Silent].into(),
            Verdict::Fails => !replies.iter().any(|reply| self.is_reached(reply)),
        }
    }

    /// In another network somebody else may have the same address.
    fn is_reached(&self, reply: &Reply) -> bool {
        matches!(reply, Reply::Answered { pod, .. } if self.answerers.contains(pod.as_str()))
    }

    fn is_fitting(&self, reply: &Reply) -> bool {
        let Reply::Answered { pod, client } = reply else { return false };
        // Whoever reaches itself by way of a service sees its gateway there.
        let is_self = matches!(&self.attempt.from, Asker::Pod(name) if name.ends_with(&format!("/{pod}")));
        self.is_reached(reply) && (is_self || self.seen_as.is_none_or(|seen| seen == *client))
    }

    fn associate(&self, lab: &Lab, from: Place) -> Result<Option<String>> {
        let report: Associations = lab.probe(from, &["sctp", &self.target.to_string(), "--count", "1"])?;
        Ok(((report.answered > 0) != self.works()).then(|| format!("{self}: {report:?}")))
    }

    fn ping(&self, lab: &Lab, from: Place) -> Result<Option<String>> {
        let wait = Duration::from_millis(if self.works() { PATIENCE } else { LITTLE_PATIENCE });
        let (wait, address) = (wait.as_secs().to_string(), self.target.ip().to_string());
        let finished = lab.exec(from, &["ping", "-n", "-c", "1", "-W", &wait, &address])?;
        let silent = finished.stdout.contains("100% packet loss") && !finished.stdout.contains("errors");
        let right = match self.attempt.verdict {
            Verdict::Works => finished.succeeded(),
            Verdict::Denied => silent,
            Verdict::Fails => !finished.succeeded(),
        };
        Ok((!right).then(|| format!("{self}: {}", finished.stdout.trim())))
    }
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.attempt, self.target)
    }
}
