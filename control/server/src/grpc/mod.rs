//! The two services, as thin faces of the core.

mod exchange;
mod inspect;
mod peer;
mod read;

pub use exchange::ControlService;
pub use inspect::InspectService;

use tonic::Status;

/// The core has stopped.
fn stopping() -> Status {
    Status::unavailable("the controller is stopping")
}
