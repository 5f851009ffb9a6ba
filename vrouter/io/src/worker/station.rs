//! One worker's loop: wait, receive, process, transmit.

use std::sync::Arc;
use std::thread;

use arc_swap::{ArcSwap, Cache};
use crossbeam::queue::ArrayQueue;
use vrouter_forward::frame::{Egress, Frame, Ingress, PortId, Time};
use vrouter_forward::{Burst, DroppedPacket, NoObserver, Snapshot, Worker};
use vrouter_objects::DropReason;

use super::buffers::{put_back, take};
use super::command::{Answer, Command, Inbox};
use super::flood::Cores;
use super::patience::Patience;
use super::poller::{Poller, Source};
use super::ports::Ports;
use crate::ledger::Ledger;
use crate::tap::{Receipt, TapQueue};
use crate::vnet::{Transmitter, Unplugged};
use crate::vxlan::Tunnel;
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
    /// Who else needs the cores.
    pub(crate) cores: Cores,
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
    patience: Patience,
    /// A port had more full bursts than it may have in one turn.
    flooded: bool,
    /// When maintenance is due; `None`: after the next packet.
    maintenance: Option<Time>,
    drops_due: Time,
}

/// What a queue may still hold after a burst was read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It was empty.
    Nothing,
    /// Reading ended before it was.
    Perhaps,
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
            patience: Patience::Exhausted,
            flooded: false,
            // What was recovered is to age, whether or not a packet ever comes.
            maintenance: Some(Time(0)),
            drops_due: Time(0),
        })
    }

    /// Serves until told to stop.
    pub(super) fn run(mut self) {
        loop {
            let ready = self.wait();
            for number in 0..ready {
                match self.poller.ready(number) {
                    Source::Port(port) => self.serve_port(port),
                    Source::Tunnel(number) => self.serve_tunnel(number),
                    Source::Commands if self.obey() == Next::Stop => return self.worker.idle(),
                    Source::Commands => {}
                }
            }
            self.maintain();
        }
    }

    /// Waits until something is ready or maintenance is due. Returns how many sources are ready.
    fn wait(&mut self) -> usize {
        self.worker.idle();
        if std::mem::take(&mut self.flooded) {
            self.common.cores.pause();
        }
        let began = boot_time();
        let mut ready = self.ask_until(self.patience.ends(began));
        if ready == 0 {
            ready = self.poller.wait(self.time_to_sleep());
        }
        self.patience = Patience::after(began, boot_time());
        ready
    }

    /// Asks what is ready until something is, or it is that late. Whoever else wants the core has it in between: it may
    /// well be the one that is to send the next packet.
    fn ask_until(&mut self, end: Time) -> usize {
        while boot_time() < end {
            match self.poller.wait(Some(0)) {
                0 => thread::yield_now(),
                ready => return ready,
            }
        }
        0
    }

    /// Milliseconds until maintenance is due, rounded up so that it is then.
    fn time_to_sleep(&self) -> Option<u16> {
        let wait = self.maintenance?.0.saturating_sub(boot_time().0);
        Some(u16::try_from(wait.div_ceil(1000)).unwrap_or(u16::MAX))
    }

    /// Serves a port for some bursts. The first is as large as the last one was: so a lone packet is on its way before
    /// the queue is asked whether there is a second one.
    fn serve_port(&mut self, id: PortId) {
        let Some(mut appetite) = self.ports.get_mut(id).map(|port| port.appetite) else { return };
        for turn in 1..=BURSTS_IN_TURN {
            let waiting = self.receive_from(id, appetite);
            let count = self.burst.frames.len();
            self.process();
            if let Some(port) = self.ports.get_mut(id).filter(|_| count > 0) {
                port.appetite = count;
            }
            if waiting == Waiting::Nothing {
                return;
            }
            self.flooded |= count == BURST_FRAMES && turn == BURSTS_IN_TURN;
            appetite = (2 * appetite).min(BURST_FRAMES);
        }
    }

    /// Reads up to so many frames of a port into the burst.
    fn receive_from(&mut self, id: PortId, appetite: usize) -> Waiting {
        let Some(port) = self.ports.get_mut(id) else { return Waiting::Nothing };
        let mut bytes = 0;
        for _ in 0..appetite {
            let mut frame = take(&mut self.burst.spare);
            match port.queue.sink().receive(&mut frame) {
                Receipt::Frame => {
                    frame.ingress = Ingress::Port(id);
                    bytes += frame.len();
                    self.burst.frames.push(frame);
                }
                Receipt::Malformed => {
                    self.burst.spare.push(frame);
                    self.worker.counters().drop_unparsed(DropReason::InvalidOffload, Some(id));
                }
                Receipt::Empty => {
                    self.burst.spare.push(frame);
                    return Waiting::Nothing;
                }
                Receipt::Unplugged => {
                    self.burst.spare.push(frame);
                    self.unplug(id);
                    return Waiting::Nothing;
                }
            }
            if bytes >= BURST_BYTES {
                break;
            }
        }
        Waiting::Perhaps
    }

    fn serve_tunnel(&mut self, number: u16) {
        for _ in 0..BURSTS_IN_TURN {
            let Some(tunnel) = &mut self.tunnel else { return };
            let Burst { frames, spare } = &mut self.burst;
            let mut account = Account { worker: &mut self.worker };
            let waiting = tunnel.receive(number.into(), frames, spare, &mut account);
            self.process();
            if waiting == Waiting::Nothing {
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
        self.transmit();
        put_back(&mut self.burst.spare, &mut self.burst.frames);
        if self.maintenance.is_none() {
            self.maintenance = Some(now);
        }
    }

    /// Sends the burst's frames in their order, as many at once as go the same way.
    fn transmit(&mut self) {
        let mut account = Account { worker: &mut self.worker };
        let mut unplugged = Vec::new();
        let mut rest = &mut self.burst.frames[..];
        while let Some(first) = rest.first() {
            let way = Way::of(first);
            let count = rest.iter().take_while(|frame| Way::of(frame) == way).count();
            let (together, later) = rest.split_at_mut(count);
            rest = later;
            match way {
                Way::Nowhere => {}
                Way::Port(id) => match self.ports.get_mut(id) {
                    Some(port) => {
                        if port.queue.send(together, &mut account) == Err(Unplugged) {
                            unplugged.push(id);
                        }
                    }
                    None => account.lost_all(together),
                },
                Way::Tunnel => match &mut self.tunnel {
                    Some(tunnel) => tunnel.send(together, &mut account),
                    None => account.lost_all(together),
                },
            }
        }
        unplugged.into_iter().for_each(|id| self.unplug(id));
    }

    /// The port's interface is gone: it is not asked again, and whoever looks after ports is told.
    fn unplug(&mut self, id: PortId) {
        if let Some(port) = self.ports.remove(id) {
            self.poller.remove(port.queue.sink());
            tracing::warn!(port = id.0, "interface unplugged");
            self.common.unplugged.force_push(id);
        }
    }

    /// Does what is due between bursts.
    fn maintain(&mut self) {
        let now = boot_time();
        if self.maintenance.is_some_and(|due| due <= now) {
            self.worker.begin_burst();
            self.maintenance = self.worker.maintain(now);
        }
        if self.drops_due <= now {
            self.drops_due = now.plus_millis(DROPS_MILLIS);
            self.hand_over_drops();
        }
    }

    fn hand_over_drops(&mut self) {
        self.worker.take_drops(|packet| drop(self.common.drops.force_push(packet)));
    }

    /// Does what it was told.
    fn obey(&mut self) -> Next {
        // The bell first: what is sent after that rings it again.
        let _ = self.inbox.bell.read();
        // Lets go of a snapshot that is no longer in force.
        self.snapshot.load();
        while let Ok(command) = self.inbox.commands.try_recv() {
            match command {
                Command::AddPort { port, queue, done } => answer(&done, self.add_port(port, queue)),
                Command::RemovePort { port, done } => {
                    self.remove_port(port);
                    answer(&done, Ok(()));
                }
                Command::SetTunnel { tunnel, done } => answer(&done, self.set_tunnel(tunnel)),
                Command::EndTunnel { done } => {
                    self.end_tunnel();
                    answer(&done, Ok(()));
                }
                Command::CollectDrops { done } => {
                    self.hand_over_drops();
                    answer(&done, Ok(()));
                }
                Command::Stop => return Next::Stop,
            }
        }
        Next::Go
    }

    fn add_port(&mut self, id: PortId, queue: Transmitter<TapQueue>) -> Result<(), IoError> {
        self.remove_port(id);
        self.poller.add(Source::Port(id), queue.sink()).map_err(watch_failed)?;
        self.ports.insert(id, queue);
        Ok(())
    }

    fn remove_port(&mut self, id: PortId) {
        if let Some(port) = self.ports.remove(id) {
            self.poller.remove(port.queue.sink());
        }
    }

    fn set_tunnel(&mut self, tunnel: Tunnel) -> Result<(), IoError> {
        self.end_tunnel();
        let tunnel = self.tunnel.insert(tunnel);
        (0..).zip(tunnel.descriptors()).try_for_each(|(number, descriptor)| {
            self.poller.add(Source::Tunnel(number), &descriptor).map_err(watch_failed)
        })
    }

    fn end_tunnel(&mut self) {
        if let Some(tunnel) = self.tunnel.take() {
            tunnel.descriptors().iter().for_each(|descriptor| self.poller.remove(descriptor));
        }
    }
}

fn watch_failed(errno: nix::Error) -> IoError {
    IoError::Watch(errno.into())
}

/// Whoever waits for the answer may have given up.
fn answer(done: &Answer, result: Result<(), IoError>) {
    let _ = done.send(result);
}

/// Which side a frame leaves by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Nowhere,
    Port(PortId),
    Tunnel,
}

impl Way {
    fn of(frame: &Frame) -> Self {
        match frame.egress {
            None => Self::Nowhere,
            Some(Egress::Port(port)) => Self::Port(port),
            Some(Egress::Tunnel { .. }) => Self::Tunnel,
        }
    }
}

/// Takes down in the worker's counters what became of frames.
struct Account<'a> {
    worker: &'a mut Worker,
}

impl Account<'_> {
    fn lost_all(&mut self, frames: &[Frame]) {
        frames.iter().for_each(|frame| self.lost(frame, DropReason::InterfaceDown));
    }
}

impl Ledger for Account<'_> {
    fn refused(&mut self, reason: DropReason) {
        self.worker.counters().drop_unparsed(reason, None);
    }

    fn lost(&mut self, frame: &Frame, reason: DropReason) {
        self.worker.transmit_failed(boot_time(), frame, reason);
    }

    fn sent_whole(&mut self) {
        self.worker.counters().super_frames_sent.add(1);
    }

    fn cut(&mut self, packets: usize) {
        self.worker.counters().segments_cut.add(packets as u64);
    }

    fn gathered(&mut self, packets: usize) {
        self.worker.counters().frames_merged.add(packets as u64);
    }
}
