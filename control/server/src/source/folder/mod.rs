//! A folder of YAML as a source: watched, and looked through again now and then in case the watch misses something.

mod document;
mod file;
mod kinds;
mod scan;
mod upgrade;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::{EventSender, Rescanner};
use crate::ServerError;
use scan::Scanner;

/// How long a folder must be quiet before it is read: an editor writes a file in several steps.
const QUIET: Duration = Duration::from_millis(20);
/// How long a folder that is never quiet is waited for.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// How often it is looked through without a sign.
const RESCAN: Duration = Duration::from_secs(5);

/// The source.
pub struct Folder {
    path: PathBuf,
    events: EventSender,
    scanner: Option<Scanner>,
    /// Dropping it ends the watch.
    _watcher: RecommendedWatcher,
    touched: Arc<Notify>,
    requests: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Folder {
    /// Watches a folder, which must exist.
    pub fn watch(path: &Path, events: EventSender) -> Result<(Self, Rescanner), ServerError> {
        let touched = Arc::new(Notify::new());
        let signal = touched.clone();
        let watch_error = |error| ServerError::Watch { path: path.to_owned(), error };
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the folder is an access, too: only changes count, or it would wake itself.
            if event.map_or(true, |event| !event.kind.is_access()) {
                signal.notify_one();
            }
        })
        .map_err(watch_error)?;
        watcher.watch(path, RecursiveMode::Recursive).map_err(watch_error)?;
        let (sender, requests) = mpsc::channel(16);
        let scanner = Some(Scanner::new(path.to_owned()));
        let folder = Self { path: path.to_owned(), events, scanner, _watcher: watcher, touched, requests };
        Ok((folder, Rescanner(sender)))
    }

    /// Feeds events until nobody can ask for more.
    pub async fn run(mut self) {
        self.scan().await;
        let mut ticks = interval_at(Instant::now() + RESCAN, RESCAN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let request = tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => Some(request),
                    None => return,
                },
                () = self.touched.notified() => {
                    self.quiet().await;
                    None
                }
                _ = ticks.tick() => None,
            };
            self.scan().await;
            if let Some(done) = request {
                // Whoever asked may have given up.
                done.send(()).ok();
            }
        }
    }

    /// Waits until nothing was written for a moment.
    async fn quiet(&self) {
        let quiet = async { while timeout(QUIET, self.touched.notified()).await.is_ok() {} };
        tokio::select! {
            () = quiet => {}
            () = sleep(MAX_WAIT) => {}
        }
    }

    async fn scan(&mut self) {
        let Some(mut scanner) = self.scanner.take() else { return };
        let scanned = tokio::task::spawn_blocking(move || {
            let events = scanner.scan();
            (scanner, events)
        });
        match scanned.await {
            Ok((scanner, events)) => {
                self.scanner = Some(scanner);
                for event in events {
                    self.events.send(event).await;
                }
            }
            Err(error) => {
                tracing::error!(folder = %self.path.display(), %error, "reading the folder failed; starting over");
                self.scanner = Some(Scanner::new(self.path.clone()));
            }
        }
    }
}
