//! What `vrouter-probe` prints, as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::frame::from_hex;

/// The line by which a probe that goes on until its standard input ends says that it has begun.
pub const STARTED: &str = "started";

/// Requests, and who answered them.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Requests that were answered or failed.
    pub requests: u64,
    /// Requests without an answer, or with one that makes no sense.
    pub failed: u64,
    /// Those of them that ended in a reset.
    pub resets: u64,
    /// Answers by pod.
    pub members: BTreeMap<String, u64>,
    /// Answers by the address that the pod saw its client at.
    pub clients: BTreeMap<IpAddr, u64>,
    /// The first few errors.
    pub errors: Vec<String>,
}

/// A load of requests: on connections that are kept, and on fresh ones.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// On kept connections.
    pub kept: Tally,
    /// On fresh connections.
    pub fresh: Tally,
    /// Answers on one connection by another pod than its first.
    pub moved: u64,
    /// Kept connections that the server asked to close, and that were opened anew.
    pub closed: u64,
}

/// What came of a load that wrk made.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrk {
    /// Requests that were answered.
    pub requests: u64,
    /// Connections that failed to open.
    pub connect: u64,
    /// Answers that failed to come.
    pub read: u64,
    /// Requests that failed to go.
    pub write: u64,
    /// Answers other than 200.
    pub status: u64,
    /// Requests that took too long.
    pub timeout: u64,
}

/// Questions sent from one socket, one at a time.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// How many were sent.
    pub sent: u64,
    /// How many were answered in time.
    pub answered: u64,
    /// The most in a row that were not.
    pub unanswered_in_a_row: u64,
    /// Answers by pod.
    pub members: BTreeMap<String, u64>,
    /// Answers by the address that the pod saw its client at.
    pub clients: BTreeMap<IpAddr, u64>,
}

/// Datagrams sent to an echo server.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// How many were sent.
    pub sent: u64,
    /// How many came back as they were sent, each counted once.
    pub answered: u64,
    /// How many came back otherwise.
    pub damaged: u64,
    /// How many came back more than once.
    pub repeated: u64,
    /// How many sends or receives failed, as by an ICMP error.
    pub refused: u64,
}

impl Datagrams {
    /// How many never came back.
    pub fn lost(&self) -> u64 {
        self.sent - self.answered
    }
}

/// SCTP packets sent, each awaiting one in return.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Associations {
    /// INIT chunks sent.
    pub sent: u64,
    /// INIT ACK chunks that came from where the INIT went, with a valid checksum.
    pub answered: u64,
}

/// A stream of bytes sent to an echo server and read back.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Bytes that came back in their place.
    pub intact: u64,
    /// The first byte that came back otherwise.
    pub damaged_at: Option<u64>,
}

/// How a port answers to somebody who knocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knock {
    /// What came of it.
    pub outcome: Outcome,
    /// After how many milliseconds.
    pub milliseconds: u64,
}

/// What came of knocking at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Somebody answered.
    Open,
    /// TCP RST, or ICMP port unreachable.
    Refused,
    /// Another ICMP error.
    Unreachable,
    /// Nothing.
    Silent,
}

/// Everything that came of asking at one port.
pub type Replies = BTreeSet<Reply>;

/// What came of one question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// An answer.
    Answered {
        /// The pod that gave it.
        pod: String,
        /// The address that the pod saw its client at.
        client: IpAddr,
    },
    /// TCP RST, or ICMP port unreachable.
    Refused,
    /// Nothing.
    Silent,
    /// Something else, in words.
    Failed(String),
}

/// Frames seen on an interface.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Each as hexadecimal digits.
    pub frames: Vec<String>,
}

impl Capture {
    /// The frames themselves.
    pub fn read(&self) -> Result<Vec<Vec<u8>>> {
        self.frames.iter().map(|digits| from_hex(digits)).collect()
    }
}
