//! Policies: found by the labels of a pod, and compiled into rules that refer to peer sets.
//!
//! A rule does not list addresses. It names a set by what the set [means](meaning::Meaning), whoever else names the same one,
//! so that a pod's coming, going or changing touches the sets that mean it, and no policy. What means a pod is found by
//! [anchors](anchor), not by asking everything that might.

pub mod anchor;
mod compile;
mod meaning;
mod members;
mod register;
mod sets;

pub use compile::{Compiler, NoIds};
pub use meaning::{Meaning, Whom};
pub use members::elements;
pub use register::{Register, RegisterChanges};
pub use sets::PeerSets;
