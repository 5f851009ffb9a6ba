//! The one error type of the plugin, with the specification's codes.

use serde_json::{Value, json};
use thiserror::Error;

use crate::version::SpecVersion;

/// Why an operation failed.
#[derive(Debug, Error)]
pub enum CniError {
    /// A version that is not spoken here.
    #[error("CNI version \"{0}\" is not supported")]
    Version(String),
    /// The operation is not part of the version that was asked for.
    #[error("{operation} needs CNI version {} or later, not {}", first.text(), version.text())]
    TooOld {
        /// The operation.
        operation: &'static str,
        /// The version asked for.
        version: SpecVersion,
        /// The first one that has it.
        first: SpecVersion,
    },
    /// A parameter in the environment is missing or wrong.
    #[error("{variable}: {problem}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    Input(std::io::Error),
    /// Standard input is not JSON.
    #[error("the configuration is not JSON: {0}")]
    Decode(serde_json::Error),
    /// The configuration cannot be.
    #[error("the configuration's {field}: {problem}")]
    Configuration {
        /// The field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody answers at the vRouter's socket.
    #[error("the vrouter is not running: {socket}: {problem}")]
    NotRunning {
        /// The socket.
        socket: String,
        /// Why it cannot be reached.
        problem: String,
    },
    /// The vRouter cannot do it now, but may be able to later.
    #[error("the vrouter is not ready: {0}")]
    TryLater(String),
    /// The vRouter knows nothing of this interface.
    #[error("{0}")]
    Unknown(String),
    /// The vRouter refused.
    #[error("the vrouter refused: {0}")]
    Refused(String),
    /// What the vRouter answered makes no sense.
    #[error("the vrouter's answer: {0}")]
    Answer(String),
    /// The pod's network namespace cannot be entered.
    #[error("network namespace {path}: {error}")]
    Namespace {
        /// Its path.
        path: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The kernel refused to configure the interface.
    #[error("{interface}: {step}: {problem}")]
    Interface {
        /// The interface's name.
        interface: String,
        /// What was being done.
        step: String,
        /// What the kernel said.
        problem: String,
    },
    /// The pod's interface is not as it was made.
    #[error("{interface}: {problem}")]
    Check {
        /// The interface's name.
        interface: String,
        /// How it differs.
        problem: String,
    },
    /// STATUS: pods cannot be attached.
    #[error("pods cannot be attached: {0}")]
    Unavailable(String),
    /// STATUS: pods cannot be attached, and those there are may be cut off.
    #[error("pods cannot be attached, and those there are have no network: {0}")]
    Limited(String),
}

impl CniError {
    /// The specification's error code; from 100 on they are the plugin's own.
    pub fn code(&self) -> u32 {
        match self {
            Self::Version(_) | Self::TooOld { .. } => 1,
            Self::Unknown(_) => 3,
            Self::Environment { .. } => 4,
            Self::Input(_) => 5,
            Self::Decode(_) => 6,
            Self::Configuration { .. } => 7,
            Self::NotRunning { .. } | Self::TryLater(_) => 11,
            Self::Unavailable(_) => 50,
            Self::Limited(_) => 51,
            Self::Refused(_) => 100,
            Self::Namespace { .. } => 101,
            Self::Interface { .. } => 102,
            Self::Check { .. } => 103,
            Self::Answer(_) => 104,
        }
    }

    fn headline(&self) -> &'static str {
        match self {
            Self::Version(_) | Self::TooOld { .. } => "incompatible CNI version",
            Self::Unknown(_) => "unknown container",
            Self::Environment { .. } => "invalid environment variable",
            Self::Input(_) => "I/O failure",
            Self::Decode(_) => "failed to decode content",
            Self::Configuration { .. } => "invalid network configuration",
            Self::NotRunning { .. } | Self::TryLater(_) => "try again later",
            Self::Unavailable(_) => "plugin not available",
            Self::Limited(_) => "plugin not available, limited connectivity",
            Self::Refused(_) => "refused by the vrouter",
            Self::Namespace { .. } => "network namespace not accessible",
            Self::Interface { .. } => "interface not configured",
            Self::Check { .. } => "interface not as it was made",
            Self::Answer(_) => "unexpected answer of the vrouter",
        }
    }
}

/// An error as it is printed.
pub struct Failure {
    version: SpecVersion,
    code: u32,
    headline: &'static str,
    details: String,
}

impl Failure {
    /// The error, in an answer of this version.
    pub fn new(version: SpecVersion, error: &CniError) -> Self {
        Self { version, code: error.code(), headline: error.headline(), details: error.to_string() }
    }

    /// The document to print.
    pub fn to_json(&self) -> Value {
        json!({
            "cniVersion": self.version.text(),
            "code": self.code,
            "msg": self.headline,
            "details": self.details,
        })
    }
}
