//! The controller's process, and what it is asked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tonic::transport::Channel;
use vrouter_proto::v1::inspect_client::InspectClient;
use vrouter_proto::v1::{ControllerStatus, ObjectsRequest, Problem, SettleRequest};

use crate::lab::{self, Lab};
use crate::line::Line;
use crate::name::{LabName, MARKER, Part};
use crate::node;
use crate::object::ObjectKey;
use crate::outside;
use crate::process::{Process, log_tail};
use crate::report::{Complaint, Report};
use crate::state::DataPath;
use crate::underlay;

const PORT: u16 = 7443;
const SETTLE: Duration = Duration::from_secs(20);

/// Where the nodes find it.
pub fn url() -> String {
    format!("http://{}:{PORT}", underlay::control_address())
}

/// Its unix socket.
pub fn socket(name: &LabName) -> PathBuf {
    directory(name).join("control.sock")
}

fn directory(name: &LabName) -> PathBuf {
    name.directory().join("controller")
}

/// Starts it and waits until it serves.
pub fn start(name: &LabName) -> Result<Process> {
    let directory = directory(name);
    let mut command = name.netns(&Part::Control).command(node::program("vrouter-control")?);
    command
        .arg("--manifests")
        .arg(lab::manifests(name))
        .args(["--insecure", "--listen", &format!("{}:{PORT}", underlay::control_address())])
        .args(["--load-balancer-pool", &outside::LOAD_BALANCERS.join(",")])
        .arg("--socket")
        .arg(socket(name))
        .arg("--state-dir")
        .arg(directory.join("state"));
    let marker = name.to_string();
    node::start_and_await(&command, (MARKER, &marker), &directory.join("log"), "vrouter-control ready")
}

/// Waits until every running node has acknowledged what the manifests say now, and passes on what the controller had to
/// say about the objects concerned. What goes wrong is complained of; the command goes on.
pub fn settle(lab: &Lab, concerned: &BTreeSet<ObjectKey>, report: &mut Report) {
    match settled(lab) {
        Ok(status) => pass_on(lab, concerned, &status, report),
        Err(error) => report.complain(Complaint::bare(format!("{error:#}"))),
    }
}

fn settled(lab: &Lab) -> Result<ControllerStatus> {
    match lab.state.controller {
        None => bail!("the controller is stopped: no node has acknowledged anything"),
        Some(process) => still_runs(process, "the controller", &directory(&lab.name).join("log"))?,
    }
    let mut nodes = Vec::new();
    for node in &lab.state.nodes {
        if let DataPath::VRouter(Some(process)) = node.data_path {
            let log = node::directory(&lab.name, &node.name).join("log");
            still_runs(process, &format!("the vRouter of {}", node.name), &log)?;
            nodes.push(node.name.clone());
        }
    }
    Inspector::connect(&socket(&lab.name))?.settle(nodes)
}

fn still_runs(process: Process, what: &str, log: &Path) -> Result<()> {
    if !process.runs() {
        bail!("{what} has ended by itself; its log ends with:\n{}", log_tail(log));
    }
    Ok(())
}

fn pass_on(lab: &Lab, concerned: &BTreeSet<ObjectKey>, status: &ControllerStatus, report: &mut Report) {
    for problem in &status.problems {
        if let Some(key) = concerned.iter().find(|key| is_about(problem, key)) {
            report.complain(complaint(lab, key, problem));
        }
    }
    for node in &status.nodes {
        for refusal in &node.refusals {
            let object = refusal.object.as_ref().map(|key| format!("{key:?}")).unwrap_or_default();
            report.complain(Complaint::bare(format!(
                "node {} refused {object}: {}",
                node.name, refusal.reason
            )));
        }
    }
    if !status.settled {
        let late =
            status.nodes.iter().filter(|node| !node.connected || node.applied_version < node.sent_version);
        let late: Vec<_> = late
            .map(|node| match node.connected {
                true => {
                    format!("{} has version {} of {}", node.name, node.applied_version, node.sent_version)
                }
                false => format!("{} is not connected", node.name),
            })
            .collect();
        report.complain(Complaint::bare(format!(
            "not every node acknowledged within {SETTLE:?}: {}",
            late.join(", ")
        )));
    }
}

/// Every object has a file of its own, so the file tells the object.
fn is_about(problem: &Problem, key: &ObjectKey) -> bool {
    Path::new(&problem.source).file_name().is_some_and(|file| file == key.file_name().as_str())
}

fn complaint(lab: &Lab, key: &ObjectKey, problem: &Problem) -> Complaint {
    let source = lab.state.sources.get(key).unwrap_or(&problem.source);
    if problem.object.is_empty() {
        Complaint::new(source, key, &problem.field, &problem.message)
    } else {
        Complaint::new(source, &problem.object, &problem.field, &problem.message)
    }
}

/// A caller of the controller's `Inspect` service.
pub struct Inspector {
    line: Line,
    client: InspectClient<Channel>,
}

impl Inspector {
    /// Connects over the unix socket.
    pub fn connect(socket: &Path) -> Result<Self> {
        let line = Line::open(socket)?;
        let client =
            InspectClient::new(line.channel()).max_decoding_message_size(vrouter_proto::MAX_MESSAGE_BYTES);
        Ok(Self { line, client })
    }

    fn settle(&mut self, nodes: Vec<String>) -> Result<ControllerStatus> {
        let timeout_ms = SETTLE.as_millis().try_into().unwrap_or(u32::MAX);
        self.line.call(self.client.settle(SettleRequest { timeout_ms, nodes }))
    }

    /// The controller's objects of one kind.
    pub fn objects(&mut self, kind: &str) -> Result<Vec<Value>> {
        let request = ObjectsRequest { kind: kind.to_owned(), name: String::new() };
        let reply = self.line.call(self.client.objects(request))?;
        let parse = |json: &str| serde_json::from_str(json).with_context(|| format!("controller: {kind}"));
        reply.objects.iter().map(|object| parse(&object.json)).collect()
    }
}
