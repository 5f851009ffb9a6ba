//! Why the host path is not as it should be.

use std::io;

use thiserror::Error;

use super::ports::PortRange;
use crate::nft::NftError;
use crate::state::StateError;

/// Why the host path is not, or not in everything, as it should be.
#[derive(Debug, Error)]
pub enum HostPathError {
    /// The kernel refused something.
    #[error("{object}: {step}: {source}")]
    Kernel {
        /// The link, route or rule.
        object: String,
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The device of the host path was removed.
    #[error("vhost0 is gone")]
    NoDevice,
    /// A setting of the kernel could not be read or changed.
    #[error("sysctl {key}: {source}")]
    Sysctl {
        /// Which, as a path below `/proc/sys`.
        key: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A setting of the kernel is not what such a setting looks like.
    #[error("sysctl {key}: \"{value}\" is no list of ports")]
    Ports {
        /// Which, as a path below `/proc/sys`.
        key: &'static str,
        /// What it is.
        value: String,
    },
    /// The node's own processes are given the ports that are the router's.
    #[error(
        "the ports {source_ports} of source translation overlap {local}, which the kernel gives to this node's own \
         processes (sysctl net.ipv4.ip_local_port_range)"
    )]
    PortsInUse {
        /// The router's.
        source_ports: PortRange,
        /// The kernel's.
        local: PortRange,
    },
    /// The steering could not be set or removed.
    #[error("the steering of packets to vhost0: {0}")]
    Steering(#[from] NftError),
    /// What the kernel's settings were before could not be kept.
    #[error(transparent)]
    State(#[from] StateError),
}

impl HostPathError {
    /// Names the object and the step that failed.
    pub(super) fn kernel<E: std::error::Error + Send + Sync + 'static>(
        object: impl ToString,
        step: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::Kernel { object: object.to_string(), step, source: Box::new(error) }
    }
}
