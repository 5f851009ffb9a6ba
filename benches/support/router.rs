//! A node's router: tables, flows, and the snapshot in force.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use vrouter_forward::flow::{FlowConfig, FlowTable, Slot};
use vrouter_forward::frame::Time;
use vrouter_forward::sim::Node;
use vrouter_forward::tables::{Change, Tables};
use vrouter_forward::{Epoch, ForwardConfig, Shared, Snapshot};
use vrouter_objects::Object;

use crate::Lane;

/// A node's router without ports.
#[derive(Debug)]
pub struct Router {
    /// What its workers share.
    pub shared: Arc<Shared>,
    master: Mutex<Master>,
    snapshot: Arc<ArcSwap<Snapshot>>,
}

/// What the agent alone has.
#[derive(Debug)]
struct Master {
    tables: Tables,
    epoch: Epoch,
}

impl Router {
    /// A router with the tables of this node, and with so many flow slots (which are never freed) and workers.
    pub fn new(node: Node, slots: usize, workers: usize) -> Self {
        let epoch = Epoch(node.epoch().0 + 1);
        let mut tables = node.tables;
        let snapshot = Arc::new(ArcSwap::new(tables.publish(epoch)));
        let slots: &'static [Slot] = Box::leak((0..slots).map(|_| Slot::new()).collect());
        let high_water: &'static AtomicU32 = Box::leak(Box::default());
        let (flows, _) = FlowTable::recover(slots, high_water, FlowConfig::default(), Time::default());
        let shared = Shared::new(flows, workers, ForwardConfig::default());
        Self { shared, master: Mutex::new(Master { tables, epoch }), snapshot }
    }

    /// A worker of this router. There must be but one of each number at a time.
    pub fn lane(&self, worker: usize) -> Lane {
        Lane::new(worker, Arc::clone(&self.shared), Arc::clone(&self.snapshot))
    }

    /// The snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Puts objects, and lets workers meet them from their next burst on.
    ///
    /// # Panics
    /// If one is refused.
    pub fn put(&self, objects: impl IntoIterator<Item = Object>) {
        self.apply(objects.into_iter().map(Change::Put).collect());
    }

    /// Makes changes, and lets workers meet them from their next burst on.
    ///
    /// # Panics
    /// If an object is refused.
    pub fn apply(&self, changes: Vec<Change>) {
        let Master { tables, epoch } =
            &mut *self.master.lock().expect("nobody panicked with the tables in hand");
        assert_eq!(tables.apply(changes), []);
        epoch.0 += 1;
        self.snapshot.store(tables.publish(*epoch));
    }
}
