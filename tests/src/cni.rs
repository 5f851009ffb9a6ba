//! Calls of the CNI plugin as a container runtime makes them, for sandboxes that the lab knows nothing of.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::{Finished, run};
use crate::lab::Lab;

const LIMIT: Duration = Duration::from_secs(30);
const INTERFACE: &str = "eth0";

/// The plugin's error document.
#[derive(Debug, Clone, Deserialize)]
pub struct Failure {
    /// The specification's number.
    pub code: u32,
    /// In short.
    pub msg: String,
    /// In detail.
    #[serde(default)]
    pub details: String,
}

/// A sandbox of a pod: a network namespace, and what the runtime calls it. It is removed when dropped.
#[derive(Debug)]
pub struct Sandbox<'a> {
    lab: &'a Lab,
    node: String,
    pod: String,
    /// The runtime's name for it.
    pub container_id: String,
    netns: String,
}

impl<'a> Sandbox<'a> {
    /// Makes a sandbox for a pod of namespace `default`, with no interface but `lo` in it.
    pub fn new(lab: &'a Lab, node: &str, pod: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // As the lab names its own, so that whatever happens it goes with the lab.
        let netns = format!("vrl-{}-pod-{number:012x}", lab.name());
        ip(&["netns", "add", &netns])?.success()?;
        let container_id = format!("{number:064x}");
        Ok(Self { lab, node: node.to_owned(), pod: pod.to_owned(), container_id, netns })
    }

    /// Attaches it and returns the plugin's answer.
    pub fn add(&self) -> Result<Value> {
        self.call("ADD", &[])?.success()?.json()
    }

    /// Detaches it.
    pub fn del(&self) -> Result<()> {
        self.call("DEL", &[])?.success().map(drop)
    }

    /// Calls the plugin, with more fields in its configuration.
    pub fn call(&self, verb: &str, more: &[(&str, Value)]) -> Result<Finished> {
        run(&mut self.command(verb), self.configuration(more).as_bytes(), LIMIT)
    }

    /// Begins an ADD and kills the plugin after this time, wherever it is.
    pub fn add_killed_after(&self, time: Duration) -> Result<()> {
        let file = self.lab.write("killed.json", &self.configuration(&[]))?;
        let mut command = self.command("ADD");
        command.stdin(fs::File::open(file)?).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("vrouter-cni")?;
        std::thread::sleep(time);
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    fn command(&self, verb: &str) -> Command {
        let plugin = self.lab.programs().path("vrouter-cni");
        let netns = format!("vrl-{}-{}", self.lab.name(), self.node);
        let arguments = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={}",
            self.pod, self.container_id
        );
        // Each program takes the place of the one before, so that killing hits the plugin.
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &netns])
            .arg(&plugin)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", &self.container_id)
            .env("CNI_NETNS", PathBuf::from("/run/netns").join(&self.netns))
            .env("CNI_IFNAME", INTERFACE)
            .env("CNI_ARGS", arguments)
            .env("CNI_PATH", plugin.parent().unwrap_or(&plugin));
        command
    }

    fn configuration(&self, more: &[(&str, Value)]) -> String {
        let mut configuration = json!({
            "cniVersion": "1.1.0",
            "name": "vrouter",
            "type": "vrouter-cni",
            "socket": self.lab.socket(&self.node),
        });
        for (field, value) in more {
            configuration[field] = value.clone();
        }
        configuration.to_string()
    }

    /// Runs a command in it.
    pub fn exec(&self, words: &[&str]) -> Result<Finished> {
        ip(&[&["netns", "exec", &self.netns], words].concat())
    }

    /// The names of its interfaces.
    pub fn links(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Link {
            ifname: String,
        }
        let links: Vec<Link> = ip(&["-n", &self.netns, "-j", "link", "show"])?.success()?.json()?;
        Ok(links.into_iter().map(|link| link.ifname).collect())
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        // A case that failed may have left it attached; the lab's end takes along what cannot be removed now.
        let _ = self.call("DEL", &[]);
        let _ = ip(&["netns", "delete", &self.netns]);
    }
}

fn ip(words: &[&str]) -> Result<Finished> {
    run(Command::new("ip").args(words), b"", LIMIT)
}
