//! The one error type of the tool. Each is one line.

use std::net::IpAddr;
use std::path::PathBuf;

use thiserror::Error;
use tonic::Status;
use vrouter_proto::convert::ConvertError;

/// Why nothing is shown.
#[derive(Debug, Error)]
pub enum CliError {
    /// No thread or timer to work with.
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    /// Nobody answers.
    #[error("cannot reach the vrouter at {}: {problem}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why not.
        problem: String,
    },
    /// It answered with an error.
    #[error("{}", .0.message())]
    Answer(#[from] Status),
    /// What it answered makes no sense.
    #[error("the answer makes no sense: {0}")]
    Convert(#[from] ConvertError),
    /// A document of the controller's that is none.
    #[error("{kind} {name} is no JSON document: {error}")]
    Document {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// Something was asked for by a name that nothing has.
    #[error("there is no {kind} \"{name}\"")]
    Unknown {
        /// What kind of thing.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A Service of which the node holds nothing.
    #[error("this node holds no service \"{name}\"; {}", near_or(.near, "those without an address of their own are held nowhere"))]
    UnknownService {
        /// The name that was asked for.
        name: String,
        /// What may have been meant.
        near: Vec<String>,
    },
    /// A policy that the node does not hold.
    #[error("this node holds no policy \"{name}\"; {}", near_or(.near, "those that select no pod of it are held elsewhere"))]
    UnknownPolicy {
        /// The name that was asked for.
        name: String,
        /// What may have been meant.
        near: Vec<String>,
    },
    /// A pod that is not on this node.
    #[error("pod {pod} is not on this node, and where else it is cannot be told: {problem}")]
    PodElsewhere {
        /// The pod.
        pod: String,
        /// Why not.
        problem: String,
    },
    /// An address that several have.
    #[error("{address} may be of {}: say by its name who is meant, or by --vrf", .owners.join(" or of "))]
    Ambiguous {
        /// The address.
        address: IpAddr,
        /// Who may be meant.
        owners: Vec<String>,
    },
    /// A network of which the node holds nothing.
    #[error("this node holds nothing of network {network}, which {whose} is in: ask where it runs")]
    NetworkNotHeld {
        /// Whose network it is.
        whose: String,
        /// The network.
        network: String,
    },
    /// Two that have no addresses of one family.
    #[error("{from} and {to} have no addresses of one family")]
    NoCommonFamily {
        /// One.
        from: String,
        /// The other.
        to: String,
    },
    /// The socket belongs to the controller, which has no tables.
    #[error("{} is a controller's socket: only get and status work there", .0.display())]
    Controller(PathBuf),
    /// It cannot be written as JSON.
    #[error("cannot print: {0}")]
    Json(#[from] serde_json::Error),
    /// It cannot be written as YAML.
    #[error("cannot print: {0}")]
    Yaml(#[from] serde_yaml_ng::Error),
    /// Standard output is closed.
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}

/// What to look at instead, or why there may be none.
fn near_or(near: &[String], otherwise: &str) -> String {
    if near.is_empty() { otherwise.to_owned() } else { format!("near to it: {}", near.join(", ")) }
}
