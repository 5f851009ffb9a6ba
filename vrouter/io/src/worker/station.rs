//! One worker's loop: wait, receive, process, transmit.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use crossbeam::queue::ArrayQueue;
use vrouter_forward::frame::{Egress, Frame, Ingress, PortId, Time};
use vrouter_forward::{Burst, DroppedPacket, NoObserver, Snapshot, Worker};
use vrouter_objects::DropReason;

use super::buffers::{put_back, take};
use super::command::{Command, Inbox};
use super::poller::{Poller, Source};
use super::ports::Ports;
use crate::ledger::Ledger;
use crate::tap::Receipt;
use crate::vxlan::{Senders, TunnelReceiver, TunnelTransmitter};
use crate::{IoError, boot_time};

/// The most frames of one burst.
const BURST_FRAMES: usize = 64;
/// A burst ends once it has so many bytes: super-frames are sent on while they are still in the cache.
const BURST_BYTES: usize = 64 << 10;
/// The most bursts from one port before the others have their turn.
const BURSTS_IN_TURN: usize = 4;
/// So often the sample of dropped packets is handed over, at most.
const DROPS_MILLIS: u64 = 100;

/// What all workers of a data path share.
#[derive(Debug)]
pub(crate) struct Common {
    /// The snapshot in force.
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    /// The last dropped packets.
    pub(crate) drops: ArrayQueue<DroppedPacket>,
    /// Ports whose interface is gone, not reported yet.
    pub(crate) unplugged: ArrayQueue<PortId>,
}

/// A worker with everything it serves.
pub(super) struct Station {
    worker: Worker,
    common: Arc<Common>,
    snapshot: Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>,
    inbox: Inbox,
    poller: Poller,
    ports: Ports,
    tunnel: Option<Tunnel>,
    burst: Burst,
    /// When maintenance is due; `None`: after the next packet.
    maintenance: Option<Time>,
    drops_due: Time,
}

struct Tunnel {
    receiver: TunnelReceiver,
    transmitter: TunnelTransmitter<Arc<Senders>>,
}

/// Whether the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

impl Station {
    pub(super) fn new(worker: Worker, common: Arc<Common>, inbox: Inbox) -> nix::Result<Self> {
        let poller = Poller::new()?;
        poller.add(Source::Commands, &*inbox.bell)?;
        Ok(Self {
            worker,
            snapshot: Cache::new(common.snapshot.clone()),
            common,
            inbox,
            poller,
            ports: Ports::new(),
            tunnel: None,
            burst: Burst::default(),
            maintenance: None,
            drops_due: Time(0),
        })
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        loop {
            self.worker.idle();
            let ready = self.poller.wait(self.time_to_sleep());
            for number in 0..ready {
                match self.poller.ready(number) {
                    Source::Port(port) => self.serve_port(port),
                    Source::Tunnel => self.serve_tunnel(),
                    Source::Commands if self.obey() == Next::Stop => return self.worker.idle(),
                    Source::Commands => {}
                }
            }
            self.maintain();
        }
    }

    /// Milliseconds until maintenance is due, rounded up so that it is then.
    fn time_to_sleep(&self) -> Option<u16> {
        let wait = self.maintenance?.0.saturating_sub(boot_time().0);
        Some(u16::try_from(wait.div_ceil(1000)).unwrap_or(u16::MAX))
    }

    fn serve_port(&mut self, port: PortId) {
        for _ in 0..BURSTS_IN_TURN {
            let Some(appetite) = self.ports.get_mut(port).map(|port| port.appetite) else { return };
            let count = self.receive_from(port, appetite);
            self.process();
            let Some(port) = self.ports.get_mut(port) else { return };
            port.appetite = next_appetite(appetite, count);
            if count < appetite {
                return;
            }
        }
    }

    /// Reads up to so many frames of a port into the burst; returns how many there were.
    fn receive_from(&mut self, id: PortId, appetite: usize) -> usize {
        let Some(port) = self.ports.get_mut(id) else { return 0 };
        let mut count = 0;
        let mut bytes = 0;
        while count < appetite {
            let mut frame = take(&mut self.burst.spare);
            let receipt = port.queue.sink().receive(&mut frame);
            if let Receipt::Frame = receipt {
                frame.ingress = Ingress::Port(id);
                bytes += frame.len();
                count += 1;
                self.burst.frames.push(frame);
                // A full burst was satisfied, however large its frames.
                if bytes >= BURST_BYTES {
                    return appetite;
                }
                continue;
            }
            self.burst.spare.push(frame);
            match receipt {
                Receipt::Malformed => {
                    self.worker.counters().drop_unparsed(DropReason::InvalidOffload);
                    count += 1;
                }
                Receipt::Unplugged => {
                    self.unplug(id);
                    return count;
                }
                Receipt::Frame | Receipt::Empty => return count,
            }
        }
        count
    }

    fn serve_tunnel(&mut self) {
        for _ in 0..BURSTS_IN_TURN {
            let Some(tunnel) = &mut self.tunnel else { return };
            let Burst { frames, spare } = &mut self.burst;
            let mut ledger = Account { worker: &mut self.worker, now: Time(0) };
            let is_more = tunnel.receiver.receive(frames, spare, &mut ledger);
            self.process();
            if !is_more {
                return;
            }
        }
    }

    /// Takes the burst through the router and sends what leaves it.
    fn process(&mut self) {
        if self.burst.frames.is_empty() {
            return;
        }
        let now = boot_time();
        self.worker.begin_burst();
        let snapshot = self.snapshot.load();
        self.worker.process(now, snapshot, &mut self.burst, &mut NoObserver);
        self.transmit(now);
        put_back(&mut self.burst.spare, &mut self.burst.frames);
        if self.maintenance.is_none() {
            self.maintenance = Some(now);
        }
    }
}
