//! Namespaces, a node and pods.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tonic::Status;
use tonic::transport::Channel;
use vrouter_daemon::state::StateFiles;
use vrouter_objects::MacAddress;
use vrouter_proto::v1;
use vrouter_proto::v1::node_client::NodeClient;

/// Nothing here takes long; what takes longer than this will never come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A network namespace, gone with the value.
pub struct Netns {
    name: String,
}

impl Netns {
    pub fn new(name: &str) -> Self {
        Self::named(format!("vrouter-daemon-{name}-{}", std::process::id()))
    }

    fn named(name: String) -> Self {
        shell(&format!("ip netns add {name}"));
        shell(&format!("ip -n {name} link set lo up"));
        Self { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Runs a command inside and returns what it printed.
    pub fn run(&self, command: &str) -> String {
        shell(&format!("ip netns exec {} {command}", self.name))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        shell(&format!("ip netns del {}", self.name));
    }
}

fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The node process, killed with the value.
pub struct Node {
    child: Child,
    netns: String,
    directory: Arc<TempDir>,
    flags: &'static [&'static str],
}

impl Node {
    pub async fn start(underlay: &Netns) -> Self {
        Self::start_with(underlay, &[]).await
    }

    /// With these flags besides the usual ones.
    pub async fn start_with(underlay: &Netns, flags: &'static [&'static str]) -> Self {
        let directory = tempfile::Builder::new().prefix(&underlay.name).tempdir().unwrap();
        Self::spawn(underlay.name.clone(), Arc::new(directory), flags).await
    }

    pub async fn start_again(before: Self) -> Self {
        Self::spawn(before.netns.clone(), Arc::clone(&before.directory), before.flags).await
    }

    /// A second process beside the one that runs in this namespace, with its state, and this run directory of it.
    pub fn command(underlay: &Netns, run_directory: &str) -> Command {
        let directories = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let mut own =
            directories.filter(|entry| entry.file_name().to_string_lossy().starts_with(&underlay.name));
        command(&underlay.name, &own.next().unwrap().path(), run_directory)
    }

    async fn spawn(netns: String, directory: Arc<TempDir>, flags: &'static [&'static str]) -> Self {
        let mut command = command(&netns, directory.path(), "run");
        let mut child = command.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(|| BufReader::new(stdout).lines().next().unwrap().unwrap());
        assert_eq!(tokio::time::timeout(PATIENCE, line).await.unwrap().unwrap(), "vrouter ready");
        Self { child, netns, directory, flags }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/node.sock")
    }

    pub async fn client(&self) -> NodeClient<Channel> {
        NodeClient::new(vrouter_proto::connect(&self.socket()).await.unwrap())
    }

    /// Waits until this version of the tables is in force.
    pub async fn tables(&self, version: u64) {
        self.until(|report| report.applied_version >= version).await;
    }

    /// Waits until it would go on with this version after a kill.
    pub async fn tables_on_disk(&self, version: u64) {
        let file = StateFiles::within(&self.directory.path().join("state")).tables;
        self.until(|_| file.load().unwrap().is_some_and(|tables| tables.version.0 >= version)).await;
    }

    /// How it is, once it has tried to reach the controller.
    pub async fn report(&self) -> v1::NodeReport {
        self.until(|report| report.controller_connected || !report.controller_error.is_empty()).await
    }

    /// Waits until its only pod's interface is out of the tables.
    pub async fn interface_down(&self) {
        let mut client = self.client().await;
        let wait = async {
            loop {
                let table = client.interfaces(v1::TableRequest {}).await.unwrap().into_inner();
                let is_pods = |interface: &&v1::Interface| interface.kind() == v1::InterfaceKind::Pod;
                let pods: Vec<_> = table.interfaces.iter().filter(is_pods).collect();
                if pods.iter().all(|interface| !interface.up) {
                    break assert_eq!(pods.len(), 1, "it is still attached");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap();
    }

    pub async fn until(&self, wanted: impl Fn(&v1::NodeReport) -> bool) -> v1::NodeReport {
        let mut client = self.client().await;
        let wait = async {
            loop {
                let report = client.status(v1::NodeStatusRequest {}).await.unwrap().into_inner();
                if wanted(&report) {
                    break report;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }

    pub async fn attach(&mut self, pod: &Pod) -> Result<v1::AttachReply, Status> {
        self.attach_as(pod, "web").await
    }

    /// Attaches it as the pod of this name.
    pub async fn attach_as(&mut self, pod: &Pod, name: &str) -> Result<v1::AttachReply, Status> {
        Ok(self.client().await.attach(pod.request(name)).await?.into_inner())
    }

    pub async fn check(&self, pod: &Pod) -> Result<v1::AttachReply, Status> {
        Ok(self.client().await.check_attachment(pod.interface()).await?.into_inner())
    }

    pub async fn detach(&mut self, pod: &Pod) {
        self.client().await.detach(pod.interface()).await.unwrap();
    }

    /// As by the out-of-memory killer.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As by the service manager.
    pub fn stop(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(netns: &str, directory: &Path, run_directory: &str) -> Command {
    // `ip netns exec` becomes the command, so the child is the node itself.
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns, env!("CARGO_BIN_EXE_vrouter")]);
    command.args(["--node", "n1", "--control", "http://127.0.0.1:7443", "--insecure", "--workers", "2"]);
    command.args(["--flow-capacity", "4096", "--log", "warn"]);
    command.arg("--state-dir").arg(directory.join("state"));
    command.arg("--run-dir").arg(directory.join(run_directory));
    command.arg("--flow-table").arg(directory.join("flows"));
    command
}

/// A pod's namespace.
pub struct Pod {
    pub netns: Netns,
}

impl Pod {
    pub fn new(name: &str) -> Self {
        Self { netns: Netns::new(name) }
    }

    /// A pod whose namespace has the very name of one that is gone.
    pub fn named(name: &str) -> Self {
        Self { netns: Netns::named(name.to_owned()) }
    }

    /// What the runtime calls its interface.
    pub fn interface(&self) -> v1::DetachRequest {
        v1::DetachRequest { container_id: self.netns.name.clone(), interface: "eth0".to_owned() }
    }

    /// To be attached as the pod of this name.
    pub fn request(&self, name: &str) -> v1::AttachRequest {
        v1::AttachRequest {
            pod: Some(v1::PodName { namespace: "default".to_owned(), name: name.to_owned() }),
            uid: String::new(),
            container_id: self.netns.name.clone(),
            interface: "eth0".to_owned(),
            netns: self.netns.path().display().to_string(),
            configuration: "pods".to_owned(),
        }
    }

    /// What the CNI plugin does.
    pub fn configure(&self, attached: &v1::AttachReply) {
        self.netns.run("ip link set eth0 up");
        let attachment = attached.attachment.as_ref().unwrap();
        for (own, gateway) in attachment.addresses.iter().zip(&attached.gateways) {
            let (own, gateway) = (IpAddr::try_from(own).unwrap(), IpAddr::try_from(gateway).unwrap());
            self.netns
                .run(&format!("ip address add {own} dev eth0{}", if own.is_ipv6() { " nodad" } else { "" }));
            self.netns.run(&format!("ip route add {gateway} dev eth0"));
            self.netns.run(&format!("ip route add default via {gateway} dev eth0 onlink"));
            let mac = MacAddress::GATEWAY;
            self.netns.run(&format!("ip neighbour replace {gateway} lladdr {mac} nud permanent dev eth0"));
        }
    }
}
