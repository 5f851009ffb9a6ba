//! Where the vRouter is meant to differ from kube-proxy: the one list, each entry with its reason.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::frontends::Aim;
use crate::packet::Protocol;
use crate::place::{OWN, Place, family_of, pod_prefix};
use crate::question::Question;
use crate::verdict::{Answer, Delivery, Refusal, Source, Verdict};

/// One intended difference.
#[derive(Debug)]
pub struct Difference {
    /// What it is called.
    pub name: &'static str,
    /// Why it is so.
    pub reason: &'static str,
    /// How it shows.
    shows: Shows,
}

/// How a difference shows.
#[derive(Debug)]
enum Shows {
    /// The vRouter does with such a packet what the kernel does with one to this destination.
    Elsewhere(fn(&Question) -> Option<SocketAddr>),
    /// Where the kernel does this with a packet, the vRouter does that; `None`: it is none of this entry's.
    Otherwise(fn(&Question, Verdict) -> Option<Verdict>),
}

/// All of them. They apply one after the other, each to what the last made of it.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "node ports of others",
        reason: "a pod's packet to another node's node port is translated where the pod is, as one to its own node's",
        shows: Shows::Elsewhere(|question| {
            let family = family_of(question.destination.ip());
            let own = SocketAddr::new(OWN.address(family), question.destination.port());
            (question.aim == Aim::OthersNodePort).then_some(own)
        }),
    },
    Difference {
        name: "source ranges first",
        reason: "who may not use a balancer's address is told nothing, not even that nobody would answer",
        shows: Shows::Otherwise(|question, verdict| {
            let is_told = matches!(verdict, Verdict::Refused(_)) || leaks(question, verdict);
            (question.is_barred && is_told).then_some(Verdict::Silent)
        }),
    },
    Difference {
        name: "node ports where none are served",
        reason: "a port at such an address is the node's own; kube-proxy's filter still takes it for that of a service \
                 that nobody answers for",
        shows: Shows::Otherwise(|question, verdict| {
            let is_filtered = matches!(verdict, Verdict::Refused(_) | Verdict::Silent);
            let (place, source, destination) = (Place::Host, Source::Client, question.destination);
            let given = Verdict::Delivered(Delivery { place, source, destination });
            (question.aim == Aim::Node && is_filtered).then_some(given)
        }),
    },
    Difference {
        name: "resets",
        reason: "a TCP client is told by a reset, which it believes at once, and not by ICMP",
        shows: Shows::Otherwise(|question, verdict| {
            let is_refused = verdict == Verdict::Refused(Refusal::PortUnreachable);
            (is_refused && question.protocol == Protocol::Tcp).then_some(Verdict::Refused(Refusal::Reset))
        }),
    },
    Difference {
        name: "no leak",
        reason: "what nobody answers at a service's address is refused, and never leaves by the default route",
        shows: Shows::Otherwise(|question, verdict| {
            leaks(question, verdict).then_some(match question.protocol {
                Protocol::Tcp => Verdict::Refused(Refusal::Reset),
                Protocol::Udp | Protocol::Sctp => Verdict::Refused(Refusal::PortUnreachable),
            })
        }),
    },
    Difference {
        name: "hairpin",
        reason: "a pod that reaches itself by a service sees its gateway, which is the same on every node, and not the node",
        shows: Shows::Otherwise(|question, verdict| {
            let own = question.client.pod().map(Place::Pod);
            delivered(verdict, |delivery| {
                let is_own = Some(delivery.place) == own && is_translated(question);
                is_own.then_some(Source::Gateway)
            })
        }),
    },
    Difference {
        name: "pod to outside",
        reason: "a pod's packets leave the cluster in the node's name; beside kube-proxy that is another program's work",
        shows: Shows::Otherwise(|question, verdict| {
            let is_pod = question.client.pod().is_some();
            delivered(verdict, |delivery| {
                (is_pod && delivery.place == Place::Outside).then_some(Source::Node)
            })
        }),
    },
    Difference {
        name: "member outside the overlay",
        reason: "what came by the node's stack and was given to a member there comes back only to the node itself",
        shows: Shows::Otherwise(|question, verdict| {
            let is_outside = question.client.is_outside();
            delivered(verdict, |delivery| {
                (is_outside && is_translated(question) && !is_overlay(delivery)).then_some(Source::Node)
            })
        }),
    },
    Difference {
        name: "client address kept",
        reason: "a member sees who its client is: replies find their way back through the node that translated",
        shows: Shows::Otherwise(|question, verdict| {
            let pod = question.client.pod();
            delivered(verdict, |delivery| {
                let is_to_node = matches!(delivery.place, Place::Host | Place::Node(_));
                let is_kept = is_overlay(delivery) || pod.is_some() && is_to_node;
                let is_masqueraded = is_translated(question) && delivery.source == Source::Node;
                (is_kept && is_masqueraded).then_some(Source::Client)
            })
        }),
    },
];

/// Differences, and how often each was met.
#[derive(Debug, Clone)]
pub struct Met {
    differences: &'static [Difference],
    counts: BTreeMap<&'static str, usize>,
}

impl Met {
    /// None of these was met yet.
    pub fn none_of(differences: &'static [Difference]) -> Self {
        Self { differences, counts: BTreeMap::new() }
    }

    /// Adds what another met.
    pub fn add(&mut self, other: Self) {
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
    }

    /// Those that were never met: they say nothing that is checked.
    pub fn unmet(&self) -> Vec<&'static str> {
        let names = self.differences.iter().map(|difference| difference.name);
        names.filter(|name| !self.counts.contains_key(name)).collect()
    }

    /// The question that the kernel is asked in place of this one.
    pub fn stand_in(&mut self, question: &Question) -> Question {
        for difference in self.differences {
            if let Shows::Elsewhere(destination) = difference.shows
                && let Some(destination) = destination(question)
            {
                self.count(difference);
                return Question { destination, ..question.clone() };
            }
        }
        question.clone()
    }

    /// The answer the vRouter is to give where the kernel gives this one.
    pub fn expected(&mut self, question: &Question, kernel: &Answer) -> Answer {
        let verdicts = kernel.verdicts.iter().map(|&verdict| self.translate(question, verdict));
        Answer { verdicts: verdicts.collect(), wavering: kernel.wavering }
    }

    fn translate(&mut self, question: &Question, verdict: Verdict) -> Verdict {
        let mut verdict = verdict;
        for difference in self.differences {
            if let Shows::Otherwise(otherwise) = difference.shows
                && let Some(other) = otherwise(question, verdict).filter(|other| *other != verdict)
            {
                self.count(difference);
                verdict = other;
            }
        }
        verdict
    }

    fn count(&mut self, difference: &Difference) {
        *self.counts.entry(difference.name).or_default() += 1;
    }
}

impl std::fmt::Display for Met {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Difference { name, reason, .. } in self.differences {
            let count = self.counts.get(name).copied().unwrap_or_default();
            writeln!(f, "{count:8}  {name}: {reason}")?;
        }
        Ok(())
    }
}

/// The same delivery from another source, where there is to be one.
fn delivered(verdict: Verdict, source: impl Fn(&Delivery) -> Option<Source>) -> Option<Verdict> {
    match verdict {
        Verdict::Delivered(delivery) => {
            source(&delivery).map(|source| Verdict::Delivered(Delivery { source, ..delivery }))
        }
        _ => None,
    }
}

/// Whether the kernel lets a packet to a service go out by the default route.
fn leaks(question: &Question, verdict: Verdict) -> bool {
    let is_service = matches!(question.aim, Aim::NoService | Aim::Service);
    matches!(verdict, Verdict::Delivered(delivery)
        if is_service && delivery.place == Place::Outside && delivery.destination == question.destination)
}

/// Whether the member is a pod, here or elsewhere.
fn is_overlay(delivery: &Delivery) -> bool {
    let family = family_of(delivery.destination.ip());
    let pods = pod_prefix(family).parse::<ipnet::IpNet>();
    pods.is_ok_and(|pods| pods.contains(&delivery.destination.ip()))
}

fn is_translated(question: &Question) -> bool {
    matches!(question.aim, Aim::Service | Aim::NodePort | Aim::OthersNodePort)
}
