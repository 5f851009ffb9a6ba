//! A node, as a network namespace with `vhost0`, and an outside host beside it. What is sent to `vhost0` is read from its
//! descriptor: nothing answers there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use vrouter_daemon::host_path::{HostPath, HostPathError, Keeper, Marks, PortRange};
use vrouter_daemon::state::{StateFiles, SysctlFile};
use vrouter_io::within;

use crate::router::Router;

/// This boot of the machine.
pub const BOOT: &str = "boot";

pub struct Stage {
    node: String,
    outside: String,
    state: TempDir,
}

impl Stage {
    /// `None`, and the test is skipped, where we may not make one.
    pub fn new(role: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return None;
        }
        let name = |what| format!("vrh-{}-{role}-{what}", std::process::id());
        let stage = Self { node: name("node"), outside: name("out"), state: tempfile::tempdir().unwrap() };
        shell(&format!("ip netns add {}", stage.node));
        shell(&format!("ip netns add {}", stage.outside));
        shell(&format!(
            "ip -n {} link add eth0 type veth peer name eth0 netns {}",
            stage.node, stage.outside
        ));
        for (netns, number) in [(&stage.node, 1), (&stage.outside, 9)] {
            shell(&format!("ip -n {netns} link set lo up"));
            shell(&format!("ip -n {netns} link set eth0 addrgenmode none up"));
            shell(&format!("ip -n {netns} address add 172.30.0.{number}/24 dev eth0"));
            shell(&format!("ip -n {netns} address add fd00::{number}/64 dev eth0 nodad"));
        }
        stage.outside("ip route add 203.0.113.0/24 via 172.30.0.1");
        Some(stage)
    }

    /// `vhost0`, which stays when it is closed. It has one queue and no headers, and so is easily read.
    pub fn router(&self) -> Router {
        self.node("ip tuntap add vhost0 mode tap");
        self.inside(Router::open)
    }

    /// As a new process would have it.
    pub fn keeper(&self) -> Keeper {
        Keeper::new(Marks::DEFAULT, PortRange::SOURCE_PORTS, self.sysctl_file(), BOOT.to_owned())
    }

    /// Where it is kept what the kernel's settings were.
    pub fn sysctl_file(&self) -> SysctlFile {
        StateFiles::within(self.state.path()).sysctls
    }

    /// Follows, where that must succeed.
    pub fn follow(&self, keeper: &mut Keeper, path: &HostPath) {
        let problems = self.inside(|| keeper.follow(path));
        assert!(problems.is_empty(), "{problems:?}");
    }

    pub fn withdraw(&self, keeper: &mut Keeper) {
        let problems = self.inside(|| keeper.withdraw());
        assert!(problems.is_empty(), "{problems:?}");
    }

    pub fn check_source_ports(&self) -> Result<(), HostPathError> {
        self.inside(|| vrouter_daemon::host_path::check_source_ports(PortRange::SOURCE_PORTS))
    }

    /// What a command prints in the node; it must succeed.
    pub fn node(&self, command: &str) -> String {
        shell(&format!("ip netns exec {} {command}", self.node))
    }

    /// The node's namespace.
    pub fn name(&self) -> &str {
        &self.node
    }

    pub fn outside(&self, command: &str) -> String {
        shell(&format!("ip netns exec {} {command}", self.outside))
    }

    pub fn sysctl(&self, key: &str) -> String {
        self.node(&format!("cat /proc/sys/{key}")).trim().to_owned()
    }

    /// Everything of the node's that the host path touches.
    pub fn snapshot(&self) -> BTreeMap<&'static str, String> {
        let commands = [
            "ip rule",
            "ip -6 rule",
            "ip route show table all | grep -v 'table local'",
            "ip -6 route show table all | grep -v 'table local'",
            "nft list ruleset",
            "ip -o link",
            "sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding net.ipv4.conf.all.rp_filter \
             net.ipv4.conf.all.accept_redirects net.ipv4.conf.eth0.rp_filter net.ipv6.conf.eth0.accept_ra \
             net.ipv4.ip_local_reserved_ports",
        ];
        commands.into_iter().map(|command| (command, self.node(command))).collect()
    }

    pub fn inside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        within(Some(&PathBuf::from("/run/netns").join(&self.node)), || Ok(task())).unwrap()
    }

    pub fn inside_outside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        within(Some(&PathBuf::from("/run/netns").join(&self.outside)), || Ok(task())).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for netns in [&self.node, &self.outside] {
            let _ = Command::new("ip").args(["netns", "del", netns]).stderr(Stdio::null()).status();
        }
    }
}

pub fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
