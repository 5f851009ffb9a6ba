//! The node process: it holds the control channel, serves the local API, keeps its state on disk and runs the data
//! path.
//!
//! - [`agent`] owns the tables; everything else asks it.
//! - [`control`] is the channel to the controller.
//! - [`api`] is the unix socket for the CNI plugin and for `vrctl`.
//! - [`addressing`] gives out addresses; [`attachment`] is what a pod has got.
//! - [`plane`] is the seam to the data path, [`io_plane`] the data path behind it, [`tunnel_devices`] the kernel's
//!   devices that may carry its tunnels; [`state`] is what is on disk.
//! - [`host_path`] is how the node's own network stack reaches the router; [`health`] tells load balancers over HTTP.
//! - [`lock`] keeps two nodes from sharing what is one node's own.
//! - [`node`] puts it all together and takes it apart again.

pub mod addressing;
pub mod agent;
pub mod api;
pub mod attachment;
pub mod config;
pub mod control;
pub mod health;
pub mod host_path;
pub mod io_plane;
pub mod lock;
mod netlink;
mod nft;
pub mod node;
pub mod plane;
pub mod state;
#[cfg(test)]
mod testing;
pub mod tunnel_devices;
pub mod underlay;

/// An error with everything that led to it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some errors repeat their source in their own text.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
