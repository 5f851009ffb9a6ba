//! What counts against each interface, so that none fills the table for all.

use vrouter_objects::VmiId;

use super::config::FlowConfig;
use super::pairs::NotInstalled;
use super::sync::{AtomicU64, Ordering};

/// Interfaces are counted in so many places.
const PLACES: usize = 4096;

/// What counts against one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowShare {
    /// Connections.
    pub connections: u32,
    /// Those of them that nobody answered yet.
    pub unreplied: u32,
}

impl FlowShare {
    /// Whether another connection may count against an interface that has this.
    pub(super) fn admits_another(self, config: &FlowConfig) -> Result<(), NotInstalled> {
        if self.connections >= config.connections_per_interface {
            Err(NotInstalled::InterfaceLimit)
        } else if self.unreplied >= config.unreplied_per_interface {
            Err(NotInstalled::UnrepliedLimit)
        } else {
            Ok(())
        }
    }
}

/// The shares of all, by interface id; interfaces far apart may have one together.
#[derive(Debug)]
pub(super) struct Shares(Box<[Share]>);

impl Shares {
    pub(super) fn new() -> Self {
        Self((0..PLACES).map(|_| Share(AtomicU64::new(0))).collect())
    }

    /// An interface's share; `None`: of what is none's here.
    pub(super) fn of(&self, owner: Option<VmiId>) -> &Share {
        // No interface has the id 0.
        &self.0[owner.map_or(0, VmiId::get) as usize % PLACES]
    }
}

/// One interface's share: connections in the upper half, unanswered ones in the lower, so that a connection
/// that comes or goes is one write.
#[derive(Debug)]
pub(super) struct Share(AtomicU64);

const CONNECTION: u64 = 1 << 32;
const UNREPLIED: u64 = 1;

impl Share {
    pub(super) fn get(&self) -> FlowShare {
        let word = self.0.load(Ordering::Relaxed);
        FlowShare { connections: (word >> 32) as u32, unreplied: word as u32 }
    }

    /// Another connection that nobody answered yet.
    pub(super) fn add_unreplied(&self) {
        self.0.fetch_add(CONNECTION + UNREPLIED, Ordering::Relaxed);
    }

    /// Another connection that was answered.
    pub(super) fn add_replied(&self) {
        self.0.fetch_add(CONNECTION, Ordering::Relaxed);
    }

    /// One of them was answered.
    pub(super) fn note_reply(&self) {
        self.0.fetch_sub(UNREPLIED, Ordering::Relaxed);
    }

    /// One that nobody answered is gone.
    pub(super) fn remove_unreplied(&self) {
        self.0.fetch_sub(CONNECTION + UNREPLIED, Ordering::Relaxed);
    }

    /// One that was answered is gone.
    pub(super) fn remove_replied(&self) {
        self.0.fetch_sub(CONNECTION, Ordering::Relaxed);
    }
}
