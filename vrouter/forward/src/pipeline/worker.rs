//! A worker: takes a burst through the stages and accounts for every frame.

use std::sync::Arc;

use vrouter_objects::DropReason;

use super::classify::{Arrived, Staged, stage};
use super::drops::DropSample;
use super::fast_path::forward_established;
use super::fragments::Fragments;
use super::leads::{Lead, Leads};
use super::limiter::Limiters;
use super::{Burst, Context, DroppedPacket, Outcome, Shared, arp};
use crate::address::Family;
use crate::counters::WorkerCounters;
use crate::flow::{FlowTable, WorkerFlows, tenths};
use crate::frame::{CountedAs, Egress, Frame, Ingress, PortId, Time};
use crate::observer::{Event, Observer};
use crate::parse::{PlainIp, PlainV4, PlainV6};
use crate::tables::Snapshot;

/// One of a node's workers. Workers share the flow table and the snapshot and nothing that changes per
/// packet.
#[derive(Debug)]
pub struct Worker {
    pub(super) id: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) flows: WorkerFlows,
    pub(super) fragments: Fragments,
    pub(super) answers: Limiters,
    /// Frames the router made, or released, in this burst.
    pub(super) made: Vec<Frame>,
    counters: Arc<WorkerCounters>,
    drops: DropSample,
    leads: Leads,
}

impl Worker {
    /// Worker `id` of `shared`, counted from 0.
    ///
    /// # Panics
    /// If `shared` has no such worker.
    pub fn new(id: usize, shared: Arc<Shared>) -> Self {
        assert!(id < shared.workers(), "worker {id} of {}", shared.workers());
        let answers = Limiters::new(shared.config.answers_per_second);
        Self {
            id,
            flows: WorkerFlows::new(),
            fragments: Fragments::new(shared.flows.seed()),
            counters: Arc::clone(&shared.counters[id]),
            shared,
            answers,
            made: Vec::new(),
            drops: DropSample::new(),
            leads: Leads::default(),
        }
    }

    /// Begins a burst. To be called before the snapshot for it is loaded, or a boundary could be thought
    /// passed that is not.
    pub fn begin_burst(&self) {
        self.shared.quiescence.enter(self.id);
    }

    /// Says that the worker holds on to nothing until it begins a burst again: before it sleeps.
    pub fn idle(&self) {
        self.shared.quiescence.leave(self.id);
    }

    /// This worker's counters.
    pub fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// Takes a burst through the router. Afterwards each frame has its egress or none, and what the router
    /// made itself, cut into fragments or released stands behind the received frames.
    pub fn process<O: Observer>(
        &mut self,
        now: Time,
        snapshot: &Snapshot,
        burst: &mut Burst,
        observer: &mut O,
    ) {
        let context = Context { now, tenths: tenths(now), snapshot };
        self.process_led(context, burst, observer, |leads, flows, frames, counters| {
            leads.follow(context, flows, frames, counters);
        });
    }

    /// [`Worker::process`], the long way for every frame: the measure of what the short way does.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn process_the_long_way<O: Observer>(
        &mut self,
        now: Time,
        snapshot: &Snapshot,
        burst: &mut Burst,
        observer: &mut O,
    ) {
        let context = Context { now, tenths: tenths(now), snapshot };
        self.process_led(context, burst, observer, |leads, _, frames, counters| {
            leads.follow_none(frames, counters);
        });
    }

    /// Takes a burst through the router as its frames are led.
    #[inline(always)]
    fn process_led<O: Observer>(
        &mut self,
        context: Context<'_>,
        burst: &mut Burst,
        observer: &mut O,
        lead: impl FnOnce(&mut Leads, &FlowTable, &[Frame], &WorkerCounters),
    ) {
        let mut leads = std::mem::take(&mut self.leads);
        lead(&mut leads, &self.shared.flows, &burst.frames, &self.counters);
        burst.frames.iter().for_each(|frame| observer.observe(Event::Received(frame)));
        let Burst { frames, spare } = burst;
        let mut frames = &mut frames[..];
        for (run, leads) in leads.runs() {
            let (those, rest) = std::mem::take(&mut frames).split_at_mut(run.len);
            match run.family {
                Some(Family::V4) => self.forward::<PlainV4, O>(context, those, leads, spare, observer),
                Some(Family::V6) => self.forward::<PlainV6, O>(context, those, leads, spare, observer),
                None => {
                    those.iter_mut().for_each(|frame| self.take_long_way(context, frame, spare, observer))
                }
            }
            frames = rest;
        }
        self.leads = leads;
        for frame in self.made.iter().filter(|frame| frame.counted_as == CountedAs::Made) {
            observer.observe(Event::Made(frame));
        }
        burst.frames.append(&mut self.made);
    }

    /// Forwards plain packets of one family, the short way where it is open to them.
    #[inline(never)]
    fn forward<Ip: PlainIp, O: Observer>(
        &mut self,
        context: Context<'_>,
        frames: &mut [Frame],
        leads: &[Lead],
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) {
        let mut leads = leads.iter();
        for frame in frames {
            // There is one for each.
            let Some(lead) = leads.next() else { break };
            match forward_established::<Ip>(context, frame, lead, &self.counters) {
                Some(egress) => observer.observe(Event::Forwarded(frame, egress)),
                None => self.take_from_lead::<Ip, O>(context, frame, lead, spare, observer),
            }
        }
    }

    /// Takes a frame the long way from where what is known of it leads to.
    #[inline(never)]
    fn take_from_lead<Ip: PlainIp, O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        lead: &Lead,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) {
        match lead.arrived::<Ip>(context, frame) {
            Some(arrived) => {
                self.count_super_frame(frame);
                let outcome = self.ip(context, frame, &arrived, spare, observer);
                self.account(context, frame, outcome, observer);
            }
            None => self.take_long_way(context, frame, spare, observer),
        }
    }

    /// Takes a frame through every stage.
    #[inline(never)]
    fn take_long_way<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) {
        self.count_super_frame(frame);
        let staged = stage(context, frame);
        let outcome = self.decide(context, frame, &staged, spare, observer);
        self.account(context, frame, outcome, observer);
    }

    fn count_super_frame(&self, frame: &Frame) {
        if frame.offload.segmentation.is_some() {
            self.counters.super_frames_received.add(1);
        }
    }

    pub(super) fn decide<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        staged: &Staged,
        spare: &mut Vec<Frame>,
        observer: &mut O,
    ) -> Outcome {
        match staged {
            Staged::Drop(reason) => Outcome::Drop(*reason),
            Staged::Arp(offset) => arp::answer(context, frame, (*offset).into()),
            Staged::Ip(packet, arrival) => {
                let arrived = Arrived::new(*packet, *arrival, &self.shared.flows);
                self.ip(context, frame, &arrived, spare, observer)
            }
        }
    }

    /// Counts how a frame's way ended and sets its egress.
    pub(super) fn account<O: Observer>(
        &mut self,
        context: Context<'_>,
        frame: &mut Frame,
        outcome: Outcome,
        observer: &mut O,
    ) {
        let counters = self.counters();
        let port = match frame.ingress {
            Ingress::Port(port) => Some(port),
            Ingress::Tunnel { .. } => None,
        };
        frame.egress = match outcome {
            Outcome::Forward(egress) => {
                observer.observe(Event::Forwarded(frame, egress));
                counters.forwarded.add(1);
                Some(egress)
            }
            Outcome::Fragmented => {
                counters.forwarded.add(1);
                None
            }
            Outcome::Consume => {
                observer.observe(Event::Consumed(frame));
                counters.consumed.add(1);
                None
            }
            Outcome::Answer(egress) => {
                observer.observe(Event::Consumed(frame));
                counters.consumed.add(1);
                counters.originated.add(1);
                Some(egress)
            }
            Outcome::Drop(reason) => {
                observer.observe(Event::Dropped(frame, reason));
                counters.drop(reason, port);
                self.drops.offer(context.now, reason, frame);
                None
            }
            Outcome::Refuse(reason, egress) => {
                observer.observe(Event::Dropped(frame, reason));
                counters.drop(reason, port);
                counters.originated.add(1);
                Some(egress)
            }
            Outcome::Hold => {
                observer.observe(Event::Held(frame));
                counters.held.add(1);
                None
            }
        };
        if matches!(outcome, Outcome::Answer(_) | Outcome::Refuse(..)) {
            frame.counted_as = CountedAs::Made;
        }
        if let Some(Egress::Port(port)) = frame.egress {
            self.counters().tx(port, 1, frame.len() as u64);
        }
    }

    /// Keeps a packet for people to look at, before it is turned into an answer.
    pub(super) fn sample_drop(&mut self, context: Context<'_>, frame: &Frame, reason: DropReason) {
        self.drops.offer(context.now, reason, frame);
    }

    /// Takes back a frame that could not be sent after all: it counts as dropped instead.
    pub fn transmit_failed(&mut self, now: Time, frame: &Frame, reason: DropReason) {
        let counters = self.counters();
        if let Some(Egress::Port(port)) = frame.egress {
            counters.tx_undone(port, frame.len());
        }
        match frame.counted_as {
            CountedAs::Received => {
                counters.forwarded.sub(1);
                counters.drop(reason, ingress_port(frame));
            }
            // Its cause was counted for itself.
            CountedAs::Made => counters.originated.sub(1),
        }
        self.drops.offer(now, reason, frame);
    }

    /// Ages flows and gives up on fragments that wait in vain, a piece at a time. Returns when it is to be
    /// called again; `None`: not before the next packet.
    pub fn maintain(&mut self, now: Time) -> Option<Time> {
        let counters: &WorkerCounters = &self.counters;
        let drops = &mut self.drops;
        self.fragments.expire(now, |frame, reason| {
            counters.held.sub(1);
            counters.drop(reason, ingress_port(frame));
            drops.offer(now, reason, frame);
        });
        let shared = &self.shared;
        let flows = shared.flows.age(&mut self.flows, now, &shared.quiescence);
        let fragments = self.fragments.next_expiry();
        let due = [flows.map(|millis| now.plus_millis(millis)), fragments];
        due.into_iter().flatten().min()
    }

    /// Takes the sample of packets dropped since the last time.
    pub fn take_drops(&mut self, sink: impl FnMut(DroppedPacket)) {
        self.drops.take(sink);
    }
}

fn ingress_port(frame: &Frame) -> Option<PortId> {
    match frame.ingress {
        Ingress::Port(port) => Some(port),
        Ingress::Tunnel { .. } => None,
    }
}
