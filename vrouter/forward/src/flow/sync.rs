//! The synchronisation primitives of the flow table, behind one name so that loom can check them.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Waits a moment in a spin loop.
pub(crate) fn relax(spins: &mut u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if *spins < 64 {
        std::hint::spin_loop();
    } else {
        // The holder of the lock may have lost its core.
        std::thread::yield_now();
    }
    *spins = spins.wrapping_add(1);
}
