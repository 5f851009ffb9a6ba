//! What the end-to-end tests stand on: a handle on a lab, manifests, and frames made and read by etherparse, which the
//! vRouter itself does not use to forward.
//!
//! The tests are in `e2e/`. Inside pods they speak through `vrouter-probe`, a small program of this crate.

pub mod attempt;
pub mod cni;
pub mod command;
pub mod crc32c;
pub mod frame;
pub mod lab;
pub mod manifest;
pub mod noise;
pub mod report;
pub mod status;
pub mod wire;
