//! Every system call of the data path: TAP interfaces, VXLAN, the flow table's memory, and the worker threads
//! that take packets from one to the other through [`vrouter_forward`].
//!
//! Nothing here decides where a packet goes. What is decided here is how many packets one system call takes: runs of
//! one flow are gathered into super-frames on their way in and out, and super-frames are cut only where an egress
//! cannot take them.

mod clock;
mod data_path;
mod error;
mod flow_file;
mod ledger;
mod netns;
mod tap;
#[cfg(test)]
mod testing;
mod vnet;
mod vxlan;
mod worker;

pub use clock::{BootId, boot_id, boot_time};
pub use data_path::{DataPath, DataPathConfig, VXLAN_PORT};
pub use error::IoError;
pub use flow_file::FlowFile;
pub use netns::within;
pub use tap::{Tap, TapSpec};
pub use vxlan::{Peers, TunnelDevice, TunnelEnd};
