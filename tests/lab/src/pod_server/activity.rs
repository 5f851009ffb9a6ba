//! Whether anybody still needs a server that was told to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// What all of a server's tasks tell each other.
#[derive(Debug)]
pub struct Activity {
    draining: AtomicBool,
    /// Whether a connection may be kept on which nothing is asked.
    idle: watch::Sender<Idle>,
    open: AtomicUsize,
    started: Instant,
    /// Milliseconds after the start at which somebody spoke last.
    last: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idle {
    Kept,
    Closed,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            draining: AtomicBool::new(false),
            idle: watch::Sender::new(Idle::Kept),
            open: AtomicUsize::new(0),
            started: Instant::now(),
            last: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// From now on each connection is closed after its next answer.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.spoken();
    }

    /// Whether connections are to be closed.
    pub fn draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// From now on a connection on which nothing is asked is closed.
    pub fn close_idle(&self) {
        self.idle.send_replace(Idle::Closed);
    }

    /// Waits until connections on which nothing is asked are to be closed.
    pub async fn idle_is_over(&self) {
        // The sender lives as long as this.
        let _ = self.idle.subscribe().wait_for(|idle| *idle == Idle::Closed).await;
    }

    /// Somebody asked something.
    pub fn spoken(&self) {
        let now = self.started.elapsed().as_millis();
        self.last.store(now.try_into().unwrap_or(u64::MAX), Relaxed);
    }

    /// A connection is open for as long as the returned value lives.
    pub fn connection(self: &Arc<Self>) -> Connection {
        self.spoken();
        self.open.fetch_add(1, Relaxed);
        Connection(self.clone())
    }

    /// Whether no connection is open and nobody has spoken for this long.
    pub fn quiet_for(&self, time: Duration) -> bool {
        let silence = self.started.elapsed().saturating_sub(Duration::from_millis(self.last.load(Relaxed)));
        self.open.load(Relaxed) == 0 && silence >= time
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Connection(Arc<Activity>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.spoken();
        self.0.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_connection_is_never_quiet() {
        let activity = Arc::new(Activity::default());
        assert!(activity.quiet_for(Duration::ZERO));
        assert!(!activity.quiet_for(Duration::from_secs(3600)));
        let connection = activity.connection();
        assert!(!activity.quiet_for(Duration::ZERO));
        drop(connection);
        assert!(activity.quiet_for(Duration::ZERO));
    }
}
