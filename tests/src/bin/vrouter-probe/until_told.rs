//! Going on until standard input ends.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;
use vrouter_tests::report::STARTED;

/// Whether the probe was told to finish.
#[derive(Debug, Clone)]
pub struct UntilTold(Arc<AtomicBool>);

impl UntilTold {
    /// Says that the probe has begun, and listens for the end.
    pub fn begin() -> Result<Self> {
        let told = Self(Arc::new(AtomicBool::new(false)));
        let waiter = told.clone();
        thread::spawn(move || {
            let mut rest = Vec::new();
            // An error ends it as well.
            let _ = std::io::stdin().read_to_end(&mut rest);
            waiter.0.store(true, Ordering::Release);
        });
        println!("{STARTED}");
        std::io::stdout().flush()?;
        Ok(told)
    }

    /// Whether it was told to finish.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
