//! Packets in bursts, sent again and again.

use std::time::{Duration, Instant};

use vrouter_forward::Burst;
use vrouter_forward::frame::Frame;

use crate::Lane;

/// How many packets are sent between two refills.
pub const ROUND: usize = 256;

/// Where packets come from.
pub trait Traffic {
    /// A buffer for its packets.
    fn frame(&self) -> Frame;

    /// What comes next are packets of one burst.
    fn begin_burst(&mut self) {}

    /// Makes the frame, one of [`Traffic::frame`] that may have been through the router, the next packet.
    fn next(&mut self, frame: &mut Frame);

    /// What is to be done after a round, so that the next one finds everything as the last one did.
    fn restore(&mut self, _lane: &mut Lane) {}
}

/// [`ROUND`] packets in bursts of one size.
#[derive(Debug)]
pub struct Round {
    bursts: Vec<Burst>,
}

impl Round {
    /// Empty buffers for this traffic, in bursts of so many.
    pub fn new(traffic: &impl Traffic, burst: usize) -> Self {
        let frames = || (0..burst).map(|_| traffic.frame()).collect();
        let bursts = (0..ROUND / burst).map(|_| Burst { frames: frames(), spare: Vec::new() });
        Self { bursts: bursts.collect() }
    }

    /// How long so many packets take, by rounds of which only the router's part is measured.
    pub fn time(&mut self, packets: u64, traffic: &mut impl Traffic, lane: &mut Lane) -> Duration {
        let rounds = packets.div_ceil(ROUND as u64);
        let measured: Duration = (0..rounds).map(|_| self.take(traffic, lane)).sum();
        measured.mul_f64(packets as f64 / (rounds * ROUND as u64) as f64)
    }

    /// One round, after which everything is as it was before. Says how long it took.
    pub fn take(&mut self, traffic: &mut impl Traffic, lane: &mut Lane) -> Duration {
        let measured = self.send(traffic, lane);
        traffic.restore(lane);
        measured
    }

    /// One round that leaves what it did. Says how long it took.
    pub fn send(&mut self, traffic: &mut impl Traffic, lane: &mut Lane) -> Duration {
        self.refill(traffic);
        self.process(lane)
    }

    /// Puts the next packets into the buffers.
    fn refill(&mut self, traffic: &mut impl Traffic) {
        for burst in &mut self.bursts {
            traffic.begin_burst();
            burst.frames.iter_mut().for_each(|frame| traffic.next(frame));
        }
    }

    /// Takes them through the router and says how long it took.
    fn process(&mut self, lane: &mut Lane) -> Duration {
        let begin = Instant::now();
        for burst in &mut self.bursts {
            lane.process_burst(burst);
        }
        begin.elapsed()
    }

    /// Makes sure that what is measured is what it is taken for.
    ///
    /// # Panics
    /// If a packet was not forwarded.
    pub fn check(&self) {
        let frames = self.bursts.iter().flat_map(|burst| &burst.frames);
        assert_eq!(frames.filter(|frame| frame.egress.is_some()).count(), ROUND, "every packet is forwarded");
    }
}
