//! Worker threads: each takes its own queue of every port, and its own socket of the tunnel, from receiving to sending.

mod buffers;
mod command;
mod flood;
mod patience;
mod poller;
mod ports;
mod station;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::channel::bounded;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use vrouter_forward::Worker;

pub(crate) use buffers::take;
pub(crate) use command::{Answer, Command, Mailbox};
pub(crate) use flood::Cores;
pub(crate) use station::{Common, Waiting};

use self::command::mailbox;
use self::station::Station;
use crate::IoError;

/// A running worker thread.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    number: usize,
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
}

impl WorkerThread {
    /// Starts worker `number`, on this core if one is given.
    pub(crate) fn start(
        number: usize,
        worker: Worker,
        common: Arc<Common>,
        core: Option<usize>,
    ) -> Result<Self, IoError> {
        let failed = move |step| move |source| IoError::Worker { worker: number, step, source };
        let (mailbox, inbox) = mailbox().map_err(|errno| failed("making its mailbox")(errno.into()))?;
        let (started, is_started) = bounded(1);
        let run = move || {
            let station =
                pin(core).map_err(|errno| failed("pinning it to its core")(errno.into())).and_then(|()| {
                    Station::new(worker, common, inbox)
                        .map_err(|errno| failed("setting up its poller")(errno.into()))
                });
            match station {
                Ok(station) => {
                    let _ = started.send(Ok(()));
                    station.run();
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let thread = thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(run)
            .map_err(failed("starting its thread"))?;
        is_started.recv().unwrap_or(Err(IoError::WorkerStopped(number)))?;
        Ok(Self { number, mailbox, thread: Some(thread) })
    }

    /// Has the worker do something and waits until it has.
    pub(crate) fn call(&self, command: impl FnOnce(Answer) -> Command) -> Result<(), IoError> {
        let (done, is_done) = bounded(1);
        if !self.mailbox.send(command(done)) {
            return Err(IoError::WorkerStopped(self.number));
        }
        is_done.recv().unwrap_or(Err(IoError::WorkerStopped(self.number)))
    }

    /// Has the worker pass a burst boundary, if it sleeps.
    pub(crate) fn wake(&self) {
        self.mailbox.wake();
    }

    /// Tells the worker to end, without waiting.
    pub(crate) fn tell_to_stop(&self) {
        self.mailbox.send(Command::Stop);
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(worker = self.number, "the worker thread panicked");
        }
    }
}

fn pin(core: Option<usize>) -> nix::Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut cores = CpuSet::new();
    cores.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &cores)
}
