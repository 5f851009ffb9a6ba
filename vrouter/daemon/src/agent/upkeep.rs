//! What the agent does unasked: it keeps the tables on disk, looks after interfaces that vanish, tries the tunnel end
//! again where it could not be opened, and keeps the node's own stack as it should be.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::sleep;

use super::{Agent, State};
use crate::attachment::Attachment;
use crate::state::StateError;

/// Tables are written to disk no more often than this.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// How often it is looked after what nobody tells.
const TEND_INTERVAL: Duration = Duration::from_secs(1);

impl Agent {
    /// Keeps the tables on disk up to date, off everybody's way: changes that come soon after each other are written
    /// together. Nobody else writes them, and what was not written yet is when this is told to stop.
    pub async fn keep_tables(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let stop = stop.shared();
        loop {
            let stopping = tokio::select! {
                () = stop.clone() => true,
                () = self.unsaved.notified() => false,
            };
            let agent = Arc::clone(&self);
            let stored = tokio::task::spawn_blocking(move || agent.store_tables()).await;
            let problem = match stored {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                tracing::error!("the tables could not be kept: {problem}");
                self.unsaved.notify_one();
            }
            if stopping {
                return;
            }
            tokio::select! {
                () = stop.clone() => {}
                () = sleep(STORE_INTERVAL) => {}
            }
        }
    }

    /// Looks after interfaces, tunnels and the node's own stack until it is told to stop: every so often, and at once
    /// where the kernel told of a change.
    pub async fn keep_tending(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut is_host_well = true;
        loop {
            tokio::select! {
                () = &mut stop => return,
                () = sleep(TEND_INTERVAL) => {}
                // Where something fails, what the kernel tells of may be the attempt itself.
                () = self.host_changed.notified(), if is_host_well => {}
            }
            let agent = Arc::clone(&self);
            let tended = tokio::task::spawn_blocking(move || {
                agent.tend();
                agent.state().own_host.problem().is_none()
            });
            is_host_well = tended.await.unwrap_or_else(|error| {
                tracing::error!("looking after interfaces: {error}");
                false
            });
        }
    }

    /// Takes interfaces that have vanished out of the tables, and brings about the tunnel end and the node's own stack
    /// where they are not as they should be. Blocks.
    ///
    /// A vanished interface's address stays with its attachment until the runtime detaches it.
    pub fn tend(&self) {
        let mut state = self.state();
        // Asked under the lock: a port that was given to another pod since would be taken for this one.
        let unplugged = self.plane.unplugged_ports();
        let reason = |attachment: &Attachment| {
            if unplugged.contains(&attachment.port) {
                return Some("its interface has vanished");
            }
            (!attachment.netns.is_there()).then_some("its network namespace is gone")
        };
        let vanished =
            state.working().filter_map(|attachment| Some((attachment.clone(), reason(attachment)?)));
        for (attachment, reason) in vanished.collect::<Vec<_>>() {
            tracing::warn!("pod {}: {reason}", attachment.pod);
            self.take_out(&mut state, &attachment, reason);
            // A namespace that nothing is bound to any more lives on for as long as our descriptors are open.
            if let Err(error) = self.close_device(&attachment) {
                tracing::error!("{error}");
            }
        }
        self.tend_tunnel_end(&mut state);
        if state.own_host.port().is_some_and(|port| unplugged.contains(&port)) {
            state.own_host.unplugged();
        }
        self.tend_host(&mut state);
    }

    /// Writes the tables to disk now.
    pub(super) fn store_tables(&self) -> Result<(), StateError> {
        let tables = &self.files.tables;
        let (version, digest, records, noted) = {
            let state: &State = &self.state();
            let records: Vec<_> = state.held.encoded().map(<[u8]>::to_vec).collect();
            (state.held.version(), state.held.offered(), records, tables.noted()?)
        };
        tables.store(version, digest, records.iter().map(Vec::as_slice))?;
        // Nobody notes anything meanwhile.
        let _state = self.state();
        tables.forget_noted(noted)
    }
}
