//! Pods coming and going: what kubelet and the container runtime do on a real node.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::Signal;

use crate::cni;
use crate::controller;
use crate::kernel_node;
use crate::lab::Lab;
use crate::name::{MARKER, Part};
use crate::node;
use crate::object::{Name, ObjectKey};
use crate::pod::{Identity, Program};
use crate::pod_manifest;
use crate::ports;
use crate::process::{self, Process, log_tail, wait_until};
use crate::report::{Complaint, Report, done};
use crate::state::{DataPath, Node, Owner, Phase, Pod, Readiness};
use crate::timestamp;
use crate::workload::Template;

const PORTS_OPEN: Duration = Duration::from_secs(15);

/// A pod placed on a node, not yet started.
pub fn new_pod(lab: &Lab, name: Name, owner: Option<Owner>, node: &str, template: Template) -> Result<Pod> {
    let spec = template.pod_spec()?;
    let node = lab.state.node(node).ok_or_else(|| anyhow!("no node {node}"))?;
    let (container_id, uid) = random_ids()?;
    let netns = match spec.host_network {
        true => node.netns.clone(),
        false => lab.name.netns(&Part::Pod(container_id[..12].to_owned())),
    };
    Ok(Pod {
        name,
        uid,
        container_id,
        owner,
        node: node.name.clone(),
        netns,
        template,
        created: timestamp::now(),
        addresses: Vec::new(),
        processes: Vec::new(),
        phase: Phase::Pending,
        readiness: Readiness::Ready,
    })
}

/// A container id and a uid of the kinds that runtimes and API servers make.
fn random_ids() -> Result<(String, String)> {
    let mut bytes = [0; 48];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("/dev/urandom")?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (id, uid) = hex.split_at(64);
    let uid =
        [&uid[..8], &uid[8..12], &format!("4{}", &uid[13..16]), &format!("a{}", &uid[17..20]), &uid[20..32]];
    Ok((id.to_owned(), uid.join("-")))
}

/// Starts pods that were placed. Returns once the ports of all are open and every node knows them; what fails is
/// complained of and marked, and does not hold up the others.
pub fn start(lab: &mut Lab, pods: Vec<Pod>, report: &mut Report) -> Result<()> {
    if pods.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = pods.iter().map(|pod| pod.name.clone()).collect();
    lab.state.pods.extend(pods);
    lab.save()?;
    show(lab, &names)?;
    // The controller decides about a pod before its node attaches it.
    controller::settle(lab, &keys(&names), report);
    let mut programs = Vec::new();
    for name in &names {
        match launch(lab, name) {
            Ok(started) => programs.push((name, started)),
            Err(error) => fail(lab, name, &error, report)?,
        }
    }
    lab.save()?;
    let deadline = Instant::now() + PORTS_OPEN;
    for (name, started) in programs {
        match await_ports(lab, name, &started, deadline) {
            Ok(()) => set_phase(lab, name, Phase::Running),
            Err(error) => fail(lab, name, &error, report)?,
        }
    }
    lab.save()?;
    show(lab, &names)?;
    controller::settle(lab, &keys(&names), report);
    for name in &names {
        if let Some(Pod { phase: Phase::Running, node, addresses, .. }) = lab.state.pod(name) {
            let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            done(&format!("pod {name}"), &format!("runs on {node} with {}", addresses.join(", ")));
        }
    }
    Ok(())
}

/// Stops pods: their endpoints are terminating everywhere before they are told, and they are told before they are
/// cut off.
pub fn stop(lab: &mut Lab, names: &[Name], report: &mut Report) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    for name in names {
        set_phase(lab, name, Phase::Terminating(timestamp::now()));
    }
    lab.save()?;
    show(lab, names)?;
    controller::settle(lab, &BTreeSet::new(), report);
    let pods: Vec<_> = names.iter().filter_map(|name| lab.state.pod(name).cloned()).collect();
    end_processes(&pods)?;
    for pod in &pods {
        if let Err(error) = detach(lab, pod) {
            report.complain(complaint(lab, &pod.name, &error));
        }
        lab.state.pods.retain(|other| other.name != pod.name);
        lab.save()?;
        lab.remove_object(&key(&pod.name))?;
        done(&format!("pod {}", pod.name), "is gone");
    }
    controller::settle(lab, &BTreeSet::new(), report);
    Ok(())
}

/// Sets what a readiness probe would say.
pub fn set_readiness(lab: &mut Lab, name: &Name, readiness: Readiness, report: &mut Report) -> Result<()> {
    let pod = lab.state.pod_mut(name).ok_or_else(|| anyhow!("no pod {name}"))?;
    pod.readiness = readiness;
    lab.save()?;
    show(lab, std::slice::from_ref(name))?;
    controller::settle(lab, &BTreeSet::from([key(name)]), report);
    Ok(())
}

/// Writes the pods as the controller is to see them.
pub fn show(lab: &Lab, names: &[Name]) -> Result<()> {
    for name in names {
        let pod = lab.state.pod(name).ok_or_else(|| anyhow!("no pod {name}"))?;
        lab.write_object(&key(name), &pod_manifest::render(pod, node_of(lab, pod)?.address()))?;
    }
    Ok(())
}

/// The key of a pod's object.
pub fn key(name: &Name) -> ObjectKey {
    ObjectKey::new("Pod", Some(&name.namespace), &name.name)
}

fn keys(names: &[Name]) -> BTreeSet<ObjectKey> {
    names.iter().map(key).collect()
}

fn node_of<'a>(lab: &'a Lab, pod: &Pod) -> Result<&'a Node> {
    lab.state.node(&pod.node).ok_or_else(|| anyhow!("no node {}", pod.node))
}

fn set_phase(lab: &mut Lab, name: &Name, phase: Phase) {
    if let Some(pod) = lab.state.pod_mut(name) {
        pod.phase = phase;
    }
}

/// Attaches a pod and starts its programs.
fn launch(lab: &mut Lab, name: &Name) -> Result<Vec<(Program, Process)>> {
    let pod = lab.state.pod(name).ok_or_else(|| anyhow!("no pod {name}"))?.clone();
    let node = node_of(lab, &pod)?.clone();
    let addresses = attach(lab, &node, &pod)?;
    if let Some(pod) = lab.state.pod_mut(name) {
        pod.addresses.clone_from(&addresses);
    }
    let server = node::program("vrouter-pod")?;
    let identity = Identity {
        name,
        uid: &pod.uid,
        node: &node.name,
        node_address: node.address(),
        addresses: &addresses,
    };
    let marker = lab.name.to_string();
    let mut started = Vec::new();
    for program in pod.template.pod_spec()?.programs(&identity, &server.to_string_lossy()) {
        let mut command = pod.netns.command(&program.command[0]);
        command.args(&program.command[1..]).envs(program.environment.clone());
        let process = Process::spawn(&command, (MARKER, &marker), &log(lab, name, &program))?;
        if let Some(pod) = lab.state.pod_mut(name) {
            pod.processes.push(process);
        }
        started.push((program, process));
    }
    Ok(started)
}

fn attach(lab: &Lab, node: &Node, pod: &Pod) -> Result<Vec<IpAddr>> {
    if pod.netns == node.netns {
        return Ok(vec![node.ipv4.into(), node.ipv6.into()]);
    }
    pod.netns.create()?;
    match &node.data_path {
        DataPath::VRouter(_) => cni::add(&lab.name, node, pod),
        DataPath::Kernel(blocks) => {
            let taken = lab.state.pods.iter().flat_map(|pod| pod.addresses.iter().copied()).collect();
            kernel_node::attach(node, blocks, pod, &taken)
        }
    }
}

fn detach(lab: &Lab, pod: &Pod) -> Result<()> {
    let node = node_of(lab, pod)?;
    if pod.netns == node.netns {
        return Ok(());
    }
    process::kill_all(&pod.netns.processes()?)?;
    let outcome = match &node.data_path {
        DataPath::VRouter(_) => cni::del(&lab.name, node, pod),
        // The veth pair goes with the namespace.
        DataPath::Kernel(_) => Ok(()),
    };
    if pod.netns.exists() {
        pod.netns.delete()?;
    }
    outcome
}

/// Tells the pods' processes to end, and ends those that still run after their pod's grace period.
fn end_processes(pods: &[Pod]) -> Result<()> {
    let told = Instant::now();
    for process in pods.iter().flat_map(|pod| &pod.processes) {
        process.signal(Signal::SIGTERM)?;
    }
    for pod in pods {
        let grace = pod.template.pod_spec()?.grace_period();
        for process in &pod.processes {
            if !process.wait(grace.saturating_sub(told.elapsed())) {
                process.signal(Signal::SIGKILL)?;
            }
        }
    }
    Ok(())
}

fn await_ports(lab: &Lab, name: &Name, started: &[(Program, Process)], deadline: Instant) -> Result<()> {
    for (program, process) in started {
        let mut missing = program.awaited.clone();
        let open = || {
            missing.retain(|(transport, port)| !ports::open(process.pid(), *transport).contains(port));
            missing.is_empty() || !process.runs()
        };
        wait_until(deadline.saturating_duration_since(Instant::now()), open);
        if let Some((transport, port)) = missing.first() {
            let what = if process.runs() { "does not listen" } else { "ended before it listened" };
            let (container, log) = (&program.container, log_tail(&log(lab, name, program)));
            bail!("container {container} {what} on port {port}/{transport}; its log ends with:\n{log}");
        }
    }
    Ok(())
}

fn log(lab: &Lab, name: &Name, program: &Program) -> PathBuf {
    let directory = lab.name.directory().join("pods").join(&name.namespace).join(&name.name);
    directory.join(format!("{}.log", program.container))
}

/// Marks a pod as failed and takes away what there is of it.
fn fail(lab: &mut Lab, name: &Name, error: &anyhow::Error, report: &mut Report) -> Result<()> {
    report.complain(complaint(lab, name, error));
    set_phase(lab, name, Phase::Failed);
    let Some(pod) = lab.state.pod(name).cloned() else { return Ok(()) };
    for process in &pod.processes {
        process.signal(Signal::SIGKILL)?;
    }
    if let Err(error) = detach(lab, &pod) {
        report.complain(complaint(lab, name, &error));
    }
    if let Some(pod) = lab.state.pod_mut(name) {
        pod.processes.clear();
        pod.addresses.clear();
    }
    lab.save()
}

fn complaint(lab: &Lab, name: &Name, error: &anyhow::Error) -> Complaint {
    let key = key(name);
    let source = lab.state.sources.get(&key).map_or("", String::as_str);
    Complaint::new(source, &key, "", format!("{error:#}"))
}
