//! A daemon that is away for a while.

use anyhow::Result;
use vrouter_tests::lab::Lab;

/// How a daemon ends.
pub type End = fn(&Lab, &str) -> Result<()>;

/// A node's vRouter, or the controller, that does not run for as long as this lives.
pub struct Away<'a> {
    lab: &'a Lab,
    what: &'a str,
}

impl<'a> Away<'a> {
    /// Ends it.
    pub fn begin(lab: &'a Lab, what: &'a str, end: End) -> Result<Self> {
        end(lab, what)?;
        Ok(Self { lab, what })
    }

    /// Starts it again, and waits until every node has acknowledged where the controller runs.
    pub fn back(self) -> Result<()> {
        self.lab.start(self.what)
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        // The next case needs it; where it was called back it runs already.
        let _ = self.lab.start(self.what);
    }
}
