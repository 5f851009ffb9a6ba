//! A lab of the tests' own: brought up, spoken to, and taken down when it is dropped.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Finished, Running, run};
use crate::manifest;
use crate::status::{
    ControllerStatus, Drops, FloatingIp, Interface, LabStatus, NodeStatus, Pod, PolicyInBrief, Service,
};

/// Labs of the tests bear this, the group's name and the process id.
const PREFIX: &str = "e2e";
/// The first call may have to build everything.
const BUILDING: Duration = Duration::from_secs(1800);
/// Bringing up, applying, stopping: these wait for processes and acknowledgements.
const CHANGING: Duration = Duration::from_secs(120);
/// Everything else that is not told how long it may take.
const ASKING: Duration = Duration::from_secs(30);

/// The programs under test, all in one folder.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    probe: PathBuf,
}

impl Programs {
    /// Finds them: beside the program that `VROUTER_LAB` names, or where `scripts/lab` builds them, in the profile that
    /// the tests themselves were built in.
    pub fn find(probe: &Path) -> Result<Self> {
        let own = probe.parent().ok_or_else(|| anyhow!("{}: no folder", probe.display()))?;
        let folder = match std::env::var_os("VROUTER_LAB") {
            Some(lab) => Path::new(&lab).parent().map(Path::to_owned).unwrap_or_default(),
            None => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/lab");
                let profile = if own.ends_with("release") { "release" } else { "dev" };
                run(Command::new(script).arg("--version").env("VROUTER_PROFILE", profile), b"", BUILDING)?
                    .success()?;
                own.to_owned()
            }
        };
        let programs = Self { folder: folder.canonicalize()?, probe: probe.to_owned() };
        match programs.path("vrouter-lab") {
            lab if lab.exists() => Ok(programs),
            lab => bail!("{} is not built", lab.display()),
        }
    }

    /// Where one of them is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where the probe is.
    pub fn probe(&self) -> &Path {
        &self.probe
    }

    fn lab(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("vrouter-lab"));
        command.args(["--name", name]);
        command
    }

    /// Removes labs that earlier runs of the tests left behind, as when they were killed.
    pub fn sweep(&self) -> Result<()> {
        let Ok(labs) = fs::read_dir("/run/vrouter-lab") else { return Ok(()) };
        for lab in labs.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            if is_abandoned(&lab) {
                run(self.lab(&lab).arg("down"), b"", CHANGING)?.success()?;
            }
        }
        Ok(())
    }
}

/// Whether a lab belongs to a run of the tests that is over.
fn is_abandoned(lab: &str) -> bool {
    let mut words = lab.split('-');
    let owner = match (words.next(), words.next_back()) {
        (Some(PREFIX), Some(owner)) if owner.parse::<u32>().is_ok() => owner,
        _ => return false,
    };
    // One that has ended but was not collected has no program any more.
    fs::read_link(Path::new("/proc").join(owner).join("exe")).is_err()
}

/// What a lab consists of.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Nodes with a vRouter, `n1` and on.
    pub nodes: usize,
    /// Nodes that Linux itself forwards on, `k1` and on.
    pub kernel_nodes: usize,
}

/// Where to run something.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// In a pod: its name in namespace `default`, or NAMESPACE/NAME.
    Pod(&'a str),
    /// On a node.
    Node(&'a str),
    /// On the outside client.
    Client,
    /// On the other outside client.
    SecondClient,
    /// On a host beyond the nodes' own network.
    Internet,
}

/// A lab.
#[derive(Debug)]
pub struct Lab {
    name: String,
    programs: Programs,
    scratch: TempDir,
}

impl Lab {
    /// Brings one up for a group of tests, with these objects in it.
    pub fn up(programs: &Programs, group: &str, shape: Shape, objects: &[Value]) -> Result<Self> {
        let scratch = TempDir::new()?;
        let name = format!("{PREFIX}-{}-{}", group.replace('_', "-"), process::id());
        let lab = Self { name, programs: programs.clone(), scratch };
        let (nodes, kernel_nodes) = (shape.nodes.to_string(), shape.kernel_nodes.to_string());
        lab.change(&["up", "--nodes", &nodes, "--kernel-nodes", &kernel_nodes])?;
        if !objects.is_empty() {
            lab.apply(objects)?;
        }
        Ok(lab)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The programs it consists of.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The folder that the lab's controller reads, for objects that the lab itself is to know nothing of.
    pub fn manifests(&self) -> PathBuf {
        self.directory().join("manifests")
    }

    /// The local API of a node's vRouter.
    pub fn socket(&self, node: &str) -> PathBuf {
        self.directory().join("nodes").join(node).join("run/node.sock")
    }

    fn directory(&self) -> PathBuf {
        Path::new("/run/vrouter-lab").join(&self.name)
    }

    /// Applies objects.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        let file = self.write("objects.yaml", &manifest::stream(objects))?;
        self.try_apply(&file)?.success().map(drop)
    }

    /// Applies a file or folder, whatever comes of it.
    pub fn try_apply(&self, file: &Path) -> Result<Finished> {
        self.run([OsStr::new("apply"), OsStr::new("-f"), file.as_os_str()], CHANGING)
    }

    /// Writes a manifest where the lab can read it, and returns its path.
    pub fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join(file);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Deletes one object.
    pub fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.change(&["delete", kind, name])
    }

    /// Deletes what a file names.
    pub fn delete_file(&self, file: &Path) -> Result<()> {
        self.change(&["delete", "-f", &file.to_string_lossy()])
    }

    /// Sets how many pods a Deployment has.
    pub fn scale(&self, deployment: &str, replicas: usize) -> Result<()> {
        self.change(&["scale", deployment, &replicas.to_string()])
    }

    /// Replaces a Deployment's pods.
    pub fn restart(&self, deployment: &str) -> Result<()> {
        self.change(&["restart", deployment])
    }

    /// Stops a node's vRouter or the controller in an orderly way.
    pub fn stop(&self, what: &str) -> Result<()> {
        self.change(&["stop", what])
    }

    /// Kills a node's vRouter or the controller.
    pub fn kill(&self, what: &str) -> Result<()> {
        self.change(&["kill", what])
    }

    /// Starts a stopped or killed one again.
    pub fn start(&self, what: &str) -> Result<()> {
        self.change(&["start", what])
    }

    /// Returns once every node has acknowledged what the manifests say, and the controller has heard what nodes did.
    pub fn settle(&self) -> Result<()> {
        self.apply(&[manifest::namespace("settled")])
    }

    fn change(&self, arguments: &[&str]) -> Result<()> {
        self.run(arguments, CHANGING)?.success().map(drop)
    }

    fn run<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        limit: Duration,
    ) -> Result<Finished> {
        run(self.programs.lab(&self.name).args(arguments), b"", limit)
    }

    /// What the lab consists of now.
    pub fn status(&self) -> Result<LabStatus> {
        self.run(["status", "-o", "json"], ASKING)?.success()?.json()
    }

    /// A pod, as [`Place::Pod`] names it.
    pub fn pod(&self, name: &str) -> Result<Pod> {
        let wanted = qualified(name);
        let mut pods = self.status()?.pods.into_iter();
        let found = pods.find(|pod| (pod.namespace.as_str(), pod.name.as_str()) == wanted);
        found.ok_or_else(|| anyhow!("no pod {name}"))
    }

    /// A pod's address of one family.
    pub fn pod_address(&self, pod: &str, family: Family) -> Result<IpAddr> {
        let ips = self.pod(pod)?.ips;
        family.pick(&ips).ok_or_else(|| anyhow!("pod {pod}: no {family:?} address among {ips:?}"))
    }

    /// A Service: its name in namespace `default`, or NAMESPACE/NAME.
    pub fn service(&self, name: &str) -> Result<Service> {
        let wanted = qualified(name);
        let mut services = self.status()?.services.into_iter();
        let found = services.find(|service| (service.namespace.as_str(), service.name.as_str()) == wanted);
        found.ok_or_else(|| anyhow!("no service {name}"))
    }

    /// A Service's address of one family, with a port.
    pub fn service_address(&self, service: &str, family: Family, port: u16) -> Result<SocketAddr> {
        let addresses = self.service(service)?.cluster_ips;
        let address = family.pick(&addresses);
        let address =
            address.ok_or_else(|| anyhow!("service {service}: no {family:?} address among {addresses:?}"))?;
        Ok(SocketAddr::new(address, port))
    }

    /// A Service's load balancer's address of one family, with a port.
    pub fn ingress(&self, service: &str, family: Family, port: u16) -> Result<SocketAddr> {
        let addresses = self.service(service)?.ingress_ips;
        let address = family.pick(&addresses);
        let address =
            address.ok_or_else(|| anyhow!("service {service}: no {family:?} among {addresses:?}"))?;
        Ok(SocketAddr::new(address, port))
    }

    /// The port at every node that stands for a Service's port.
    pub fn node_port(&self, service: &str, protocol: &str, port: u16) -> Result<u16> {
        let ports = self.service(service)?.ports;
        let found =
            ports.iter().find(|it| it.port == u64::from(port) && it.protocol.eq_ignore_ascii_case(protocol));
        let found = found.and_then(|it| it.node_port?.try_into().ok());
        found.ok_or_else(|| anyhow!("service {service}: no node port for {port}/{protocol} in {ports:?}"))
    }

    /// The address of one family that somebody in a place speaks from.
    pub fn address(&self, place: Place, family: Family) -> Result<IpAddr> {
        let status = self.status()?;
        let addresses = match place {
            Place::Pod(pod) => return self.pod_address(pod, family),
            Place::Node(name) => {
                status.nodes.into_iter().find(|node| node.name == name).map(|node| node.addresses)
            }
            Place::Client => Some(status.client.addresses),
            Place::SecondClient => Some(status.client2.addresses),
            Place::Internet => Some(status.internet.addresses),
        };
        let address = addresses.and_then(|addresses| family.pick(&addresses));
        address.ok_or_else(|| anyhow!("{place:?} has no {family:?} address"))
    }

    /// Runs `ip` on the router that joins the nodes' network and what is beyond.
    pub fn router(&self, words: &[&str]) -> Result<Finished> {
        let netns = format!("vrl-{}-underlay", self.name);
        run(Command::new("ip").args(["-n", &netns]).args(words), b"", ASKING)?.success()
    }

    /// A command that will run in a place.
    pub fn command(&self, place: Place, words: &[&str]) -> Command {
        let mut command = self.programs.lab(&self.name);
        match place {
            Place::Pod(pod) => {
                let (namespace, name) = qualified(pod);
                command.args(["exec", &format!("{namespace}/{name}")])
            }
            Place::Node(node) => command.args(["node", node]),
            Place::Client => command.arg("client"),
            Place::SecondClient => command.arg("client2"),
            Place::Internet => command.arg("internet"),
        };
        command.arg("--").args(words);
        command
    }

    /// Runs a command in a place.
    pub fn exec(&self, place: Place, words: &[&str]) -> Result<Finished> {
        run(&mut self.command(place, words), b"", ASKING)
    }

    /// Runs the probe in a place and reads its report.
    pub fn probe<T: DeserializeOwned>(&self, place: Place, words: &[&str]) -> Result<T> {
        self.probe_with(place, words, "")
    }

    /// The same, with this on its standard input.
    pub fn probe_with<T: DeserializeOwned>(&self, place: Place, words: &[&str], input: &str) -> Result<T> {
        run(&mut self.probe_command(place, words), input.as_bytes(), CHANGING)?.success()?.json()
    }

    /// Starts a probe that goes on until it is told to finish.
    pub fn start_probe(&self, place: Place, words: &[&str]) -> Result<Running> {
        Running::start(&mut self.probe_command(place, words), ASKING)
    }

    fn probe_command(&self, place: Place, words: &[&str]) -> Command {
        let probe = self.programs.probe.to_string_lossy();
        self.command(place, &[&[&*probe], words].concat())
    }

    /// Asks a node, or the `controller`, with `vrctl`.
    pub fn vrctl<T: DeserializeOwned>(&self, whom: &str, words: &[&str]) -> Result<T> {
        self.try_vrctl(whom, words)?.success()?.json()
    }

    /// The same, whatever comes of it.
    pub fn try_vrctl(&self, whom: &str, words: &[&str]) -> Result<Finished> {
        self.run([&["vrctl", whom, "--"], words, &["-o", "json"]].concat(), ASKING)
    }

    /// How a node is.
    pub fn node_status(&self, node: &str) -> Result<NodeStatus> {
        self.vrctl(node, &["status"])
    }

    /// How the controller is.
    pub fn controller_status(&self) -> Result<ControllerStatus> {
        self.vrctl("controller", &["status"])
    }

    /// What a node dropped.
    pub fn drops(&self, node: &str) -> Result<Drops> {
        self.vrctl(node, &["drops"])
    }

    /// The policies of a node's pods.
    pub fn policies(&self, node: &str) -> Result<Vec<PolicyInBrief>> {
        self.vrctl(node, &["policies"])
    }

    /// A node's interfaces.
    pub fn interfaces(&self, node: &str) -> Result<Vec<Interface>> {
        self.vrctl(node, &["vif"])
    }

    /// A pod's interface on its node.
    pub fn interface(&self, pod: &str) -> Result<Interface> {
        let Pod { namespace, name, node, .. } = self.pod(pod)?;
        let name = format!("{namespace}/{name}");
        let found = self.interfaces(&node)?.into_iter().find(|interface| interface.name == name);
        found.ok_or_else(|| anyhow!("no interface {name} on {node}"))
    }

    /// A node's service addresses.
    pub fn floating_ips(&self, node: &str) -> Result<Vec<FloatingIp>> {
        self.vrctl(node, &["fip"])
    }
}

/// The namespace and name of something that may be named by its name in namespace `default`.
fn qualified(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("default", name))
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = self.change(&["down"]) {
            eprintln!("lab {} is left behind: {error:#}", self.name);
        }
    }
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The first address of this family.
    pub fn pick(self, addresses: &[IpAddr]) -> Option<IpAddr> {
        addresses.iter().copied().find(|address| address.is_ipv6() == (self == Self::V6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dead_runs_labs_are_abandoned() {
        assert!(is_abandoned("e2e-pods-4194305"));
        assert!(!is_abandoned(&format!("e2e-pods-{}", process::id())));
        for other in ["lab", "lab-4194305", "e2e", "e2e-pods", "e2e-pods-"] {
            assert!(!is_abandoned(other), "{other}");
        }
    }
}
