//! The one error type of this crate.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;
use vrouter_control_model::ModelError;

/// Why the controller cannot start or go on.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Neither certificates nor the explicit flag were given.
    #[error("give --tls-ca, --tls-cert and --tls-key for mutual TLS, or --insecure for plaintext (the lab)")]
    NoTransport,
    /// Two controllers cannot share their files.
    #[error("another controller is running: it holds {}", .0.display())]
    Running(PathBuf),
    /// A file cannot be read.
    #[error("{what} {}: {error}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The saved state cannot be used. It is never replaced by an empty one, as that could give ids and addresses out
    /// twice.
    #[error("state file {}: {message}; restore it from a copy, or remove it if no node of this cluster runs", path.display())]
    State {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A listener cannot be opened.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// The folder of manifests cannot be watched.
    #[error("cannot watch {}: {error}", path.display())]
    Watch {
        /// Which folder.
        path: PathBuf,
        /// What happened.
        error: notify::Error,
    },
    /// The certificates do not fit.
    #[error("TLS: {0}")]
    Tls(tonic::transport::Error),
    /// The cluster's networks do not fit.
    #[error(transparent)]
    Model(#[from] ModelError),
}
