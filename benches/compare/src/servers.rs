//! The servers behind a subject: iperf3 in the first namespace, sockperf and nginx in each.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use vrouter_lab::name::{LabName, MARKER};
use vrouter_lab::netns::Netns;
use vrouter_lab::ports::{self, Transport};
use vrouter_lab::process::{Process, log_tail, wait_until};

use crate::cores;
use crate::subject::{ServerPort, Site};

/// How long a server may take to start and to end.
const LIMIT: Duration = Duration::from_secs(10);

/// They run until they are stopped.
#[derive(Debug)]
pub struct Servers(Vec<Server>);

#[derive(Debug)]
struct Server {
    netns: Netns,
    process: Process,
    port: u16,
    log: PathBuf,
}

impl Servers {
    /// Starts them all and waits until each listens.
    pub fn start(lab: &LabName, site: &Site) -> Result<Self> {
        let first = site.servers.first().context("a site without a server")?;
        let core = cores::server()?;
        let mut servers = vec![start(lab, first, iperf_server(first), ServerPort::Iperf)?];
        for netns in &site.servers {
            servers.push(start(lab, netns, sockperf_server(netns, core), ServerPort::PingPong)?);
            servers.push(start(lab, netns, nginx_server(lab, netns)?, ServerPort::Http)?);
        }
        servers.iter().try_for_each(Server::wait_until_it_listens)?;
        Ok(Self(servers))
    }

    /// Ends them all.
    pub fn stop(self) -> Result<()> {
        for server in &self.0 {
            server.process.signal(Signal::SIGTERM)?;
        }
        self.0.iter().try_for_each(Server::wait_until_it_ended)
    }
}

impl Server {
    fn wait_until_it_listens(&self) -> Result<()> {
        // Before it has entered its namespace, it would be seen beside another's open ports.
        let listens = || {
            ports::open(self.process.pid(), Transport::Tcp).contains(&self.port)
                && self.netns.processes().is_ok_and(|inside| inside.contains(&self.process.pid()))
        };
        wait_until(LIMIT, || !self.process.runs() || listens());
        if !self.process.runs() || !listens() {
            bail!("{}: nothing listens on port {}: {}", self.netns.name(), self.port, log_tail(&self.log));
        }
        Ok(())
    }

    fn wait_until_it_ended(&self) -> Result<()> {
        if !self.process.wait(LIMIT) {
            bail!("{}: the server on port {} does not end", self.netns.name(), self.port);
        }
        // Hundreds are started in one run; none stays behind as a zombie.
        waitpid(self.process.pid(), None).context("waitpid").map(drop)
    }
}

fn start(lab: &LabName, netns: &Netns, command: Command, port: ServerPort) -> Result<Server> {
    let port = port.number();
    let log = directory(lab).join(format!("{}-{port}.log", netns.name()));
    let process = Process::spawn(&command, (MARKER, &lab.to_string()), &log)?;
    Ok(Server { netns: netns.clone(), process, port, log })
}

fn iperf_server(netns: &Netns) -> Command {
    let mut command = netns.command("iperf3");
    command.args(["--server", "--port", &ServerPort::Iperf.number().to_string()]);
    command
}

fn sockperf_server(netns: &Netns, core: usize) -> Command {
    let mut command = cores::pin(netns.command("taskset"), core, "sockperf");
    command.args(["server", "--tcp", "--port", &ServerPort::PingPong.number().to_string()]);
    command
}

fn nginx_server(lab: &LabName, netns: &Netns) -> Result<Command> {
    let directory = directory(lab);
    let own = |kind: &str| directory.join(format!("{}-nginx.{kind}", netns.name()));
    let (configuration, pid) = (own("conf"), own("pid"));
    let text = format!(
        "daemon off;\n\
         worker_processes 1;\n\
         pid {};\n\
         events {{ worker_connections 4096; multi_accept on; }}\n\
         http {{\n\
             access_log off;\n\
             keepalive_requests 1000000000;\n\
             server {{\n\
                 listen {} backlog=4096;\n\
                 location / {{ return 200 \"ok\\n\"; }}\n\
             }}\n\
         }}\n",
        pid.display(),
        ServerPort::Http.number()
    );
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
    let mut command = netns.command("nginx");
    command.arg("-e").arg("stderr").arg("-p").arg(&directory).arg("-c").arg(&configuration);
    Ok(command)
}

/// Where the servers' files are; goes with the lab's other files.
fn directory(lab: &LabName) -> PathBuf {
    lab.directory().join("servers")
}
