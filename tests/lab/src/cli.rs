//! The command line of `vrouter-lab`, which `scripts/lab` passes through.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::name::LabName;
use crate::object::Name;
use crate::state::{Readiness, Vxlan};

/// A cluster on one machine: nodes and pods as network namespaces, Kubernetes YAML from a folder.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
pub struct Cli {
    /// Which lab; several can be up at once.
    #[arg(long, default_value = "lab", global = true)]
    pub name: LabName,
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: Command,
}

#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Bring a lab up, afresh: whatever is left of an earlier one of this name is removed first.
    Up(Up),
    /// Remove the lab with everything in it.
    Down,
    /// Show nodes, pods, services and their addresses.
    Status {
        /// How to print it.
        #[arg(short, long, default_value = "table")]
        output: Output,
    },
    /// Apply manifests; returns once pods serve and every node has acknowledged.
    Apply {
        /// A file, or a folder with *.yaml and *.yml files.
        #[arg(short, long = "filename", required = true, value_name = "FILE_OR_DIR")]
        files: Vec<PathBuf>,
    },
    /// Delete what manifests name, or one object by its kind and name.
    Delete(Delete),
    /// Set the number of a workload's pods.
    Scale {
        /// NAMESPACE/DEPLOYMENT.
        workload: Name,
        replicas: usize,
    },
    /// Replace a workload's pods, within the bounds of its strategy.
    ///
    /// A Deployment keeps to maxSurge and maxUnavailable of its spec.strategy (25 % each, unless it says otherwise); a
    /// StatefulSet and a DaemonSet replace one pod at a time. New pods are ready before old ones are told to go.
    ///
    /// A pod that goes is terminating first: every node has acknowledged that it takes no new connections before its
    /// processes get SIGTERM. The lab's own server then answers everybody it has, and whoever is still on the way,
    /// closing each connection after its answer; a connection on which nothing is asked it closes after 3 seconds. Once
    /// none is open and nobody has spoken for half a second it ends, at the latest with the pod's
    /// terminationGracePeriodSeconds. So a client loses no request to a restart.
    Restart {
        /// NAMESPACE/DEPLOYMENT.
        workload: Name,
    },
    /// Set what a pod's readiness probe says.
    Ready {
        /// NAMESPACE/POD.
        pod: Name,
        #[arg(value_parser = readiness)]
        readiness: Readiness,
    },
    /// Stop a node's vRouter or the controller in an orderly way.
    Stop {
        /// A node, or `controller`.
        what: String,
    },
    /// Start a stopped or killed one again, with the state it had.
    Start {
        /// A node, or `controller`.
        what: String,
    },
    /// Kill a node's vRouter or the controller at once.
    Kill {
        /// A node, or `controller`.
        what: String,
    },
    /// Run a command in a pod.
    Exec {
        /// NAMESPACE/POD.
        pod: Name,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command on a node.
    Node {
        node: String,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command on the outside client. It reaches load balancers by way of every node.
    Client {
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command on the other outside client.
    Client2 {
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Run a command on the host beyond the nodes' network, which serves 80/TCP and 53/UDP.
    Internet {
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Ask a node's vRouter, or the controller, with vrctl.
    Vrctl {
        /// A node, or `controller`.
        node: String,
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Show what a cluster does with the examples, checked and measured.
    Demo(Demo),
}

/// What a lab consists of at first.
#[derive(Debug, Args)]
pub struct Up {
    /// How many nodes with a vRouter.
    #[arg(long, default_value_t = 2)]
    pub nodes: usize,
    /// How many nodes that Linux itself forwards on.
    #[arg(long, default_value_t = 0)]
    pub kernel_nodes: usize,
    /// Worker threads of each vRouter.
    #[arg(long)]
    pub workers: Option<u16>,
    /// How each vRouter's packets get into tunnels.
    #[arg(long)]
    pub vxlan: Option<Vxlan>,
    /// Manifests to apply at once.
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
}

/// What to delete.
#[derive(Debug, Args)]
pub struct Delete {
    /// A file, or a folder with *.yaml and *.yml files.
    #[arg(short, long = "filename", value_name = "FILE_OR_DIR", conflicts_with_all = ["kind", "object"])]
    pub files: Vec<PathBuf>,
    /// The kind, as kubectl takes it.
    #[arg(required_unless_present = "files", requires = "object")]
    pub kind: Option<String>,
    /// NAMESPACE/NAME.
    pub object: Option<String>,
}

/// How the demo runs.
#[derive(Debug, Args)]
pub struct Demo {
    /// The folder with the example manifests.
    #[arg(long, value_name = "DIR")]
    pub examples: PathBuf,
    /// Leave the lab up.
    #[arg(long)]
    pub keep: bool,
    /// Write checks and figures to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    pub seconds: u32,
}

/// How a status is printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

fn readiness(text: &str) -> Result<Readiness, String> {
    match text {
        "true" => Ok(Readiness::Ready),
        "false" => Ok(Readiness::NotReady),
        _ => Err("wanted true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_interface_is_as_promised() {
        Cli::command().debug_assert();
        for line in [
            "lab up",
            "lab --name x up --nodes 3 --kernel-nodes 1 --workers 2 --vxlan device --manifests d",
            "lab down --name x",
            "lab status -o json",
            "lab apply -f a.yaml",
            "lab delete -f a",
            "lab delete svc default/nginx",
            "lab delete node n1",
            "lab scale default/nginx 4",
            "lab restart default/nginx",
            "lab ready default/nginx-1 false",
            "lab stop n1",
            "lab start controller",
            "lab kill n2",
            "lab exec default/a -- ping -c 1 10.0.0.1",
            "lab node n1 -- ip addr",
            "lab client -- curl -s http://x",
            "lab client2 -- ip addr",
            "lab internet -- ip addr",
            "lab vrctl n1 -- flow -o json",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in
            ["lab delete svc", "lab delete", "lab delete -f a svc x/y", "lab exec a -- b", "lab apply"]
        {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
