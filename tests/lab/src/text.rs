//! Text that is written piece by piece.

use std::fmt::Result;

/// All that this writes.
pub fn written(write: impl FnOnce(&mut String) -> Result) -> String {
    let mut text = String::new();
    write(&mut text).expect("a String takes all that is written to it");
    text
}
