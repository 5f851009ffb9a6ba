//! Configuration, by flags and from a file. Flags win.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;

use clap::Parser;
use ipnet::IpNet;
use serde::Deserialize;
use thiserror::Error;

use crate::agent::{HostSettings, UnassignedPods};
use crate::control::{Security, Target, TargetError};
use crate::host_path::{Marks, PortRange};
use crate::io_plane::{HostPathKind, TunnelKind};

/// The vRouter of one node: attaches pods, forwards their packets, translates Services.
#[derive(Debug, Parser)]
#[command(name = "vrouter", version)]
pub struct Args {
    /// A YAML file with any of the settings below, named as the flags are. Flags win.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// Everything that can be set, as flags and in the file alike.
#[derive(Debug, Default, clap::Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Settings {
    /// The Node object's name.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node: Option<String>,
    /// The controller: https://ADDRESS:PORT, or http://ADDRESS:PORT with --insecure.
    #[arg(long, value_name = "URL")]
    control: Option<String>,
    /// Speak to the controller without encryption.
    #[arg(long, num_args = 0, default_missing_value = "true")]
    insecure: Option<bool>,
    /// Who signs the controller's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// This node's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// The address that tunnels to this node end at. Default: as the controller says of this node.
    #[arg(long, value_name = "IP")]
    vtep_address: Option<IpAddr>,
    /// What becomes of a new pod while no controller says where it belongs: it gets into the default network, with no
    /// policy in force before the controller says which are; or it is refused. Default: attach.
    #[arg(long, value_name = "HOW")]
    unassigned_pods: Option<UnassignedPods>,
    /// How packets get into tunnels: by UDP sockets of the router's own, or through the kernel's vxlan devices.
    /// Default: sockets.
    #[arg(long, value_name = "KIND")]
    vxlan: Option<TunnelKind>,
    /// Who sees to the node's own part in the networks, vhost0 with its routes and its steering: the router, or nobody.
    /// Default: managed.
    #[arg(long, value_name = "KIND")]
    host_path: Option<HostPathKind>,
    /// The nodes' addresses that node ports are served at, by prefixes. Default: all.
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',')]
    node_port_addresses: Option<Vec<IpNet>>,
    /// The ports of this node's addresses that source translation takes. Default: 61000-65535.
    #[arg(long, value_name = "FIRST-LAST")]
    snat_ports: Option<String>,
    /// The bit of a packet's mark that steers it to vhost0; the next higher one is taken as well. Default: 0x10000000.
    #[arg(long, value_name = "BIT")]
    fwmark: Option<String>,
    /// Where the node says over HTTP, at /healthz, whether it forwards; empty: nowhere. Default: 0.0.0.0:10256.
    #[arg(long, value_name = "ADDRESS:PORT")]
    healthz_bind_address: Option<String>,
    /// Forwarding threads. Default: one for every two cores, at least 1 and at most 4.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// What is to outlive a restart. Default: /var/lib/vrouter.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Where the local API's socket is made. Default: /run/vrouter.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// The flow table, on a file system in memory. Default: /dev/shm/vrouter.flows.
    #[arg(long, value_name = "FILE")]
    flow_table: Option<PathBuf>,
    /// How many directions of connections it holds. Default: 1048576.
    #[arg(long, value_name = "N")]
    flow_capacity: Option<usize>,
    /// What is logged, such as `info` or `vrouter_daemon=debug`. Default: info.
    #[arg(long, env = "VROUTER_LOG", value_name = "FILTER")]
    log: Option<String>,
}

/// The settings of a node, complete and checked.
#[derive(Debug)]
pub struct Config {
    /// The Node object's name.
    pub node: String,
    /// The controller.
    pub control: Target,
    /// The VTEP address, where it is not the controller that says it.
    pub vtep_address: Option<IpAddr>,
    /// What becomes of pods that no controller says anything about.
    pub unassigned_pods: UnassignedPods,
    /// How packets get into tunnels.
    pub vxlan: TunnelKind,
    /// How the node's own network stack takes part; `None`: not at all.
    pub host: Option<HostSettings>,
    /// The ports that packets sent in the node's name come from.
    pub snat_ports: PortRange,
    /// What steers packets to `vhost0`.
    pub fwmark: Marks,
    /// Where the node says whether it forwards.
    pub healthz: Option<SocketAddr>,
    /// Forwarding threads.
    pub workers: usize,
    /// What is to outlive a restart.
    pub state_dir: PathBuf,
    /// Where the local API's socket is made.
    pub run_dir: PathBuf,
    /// The flow table.
    pub flow_table: PathBuf,
    /// How many directions of connections it holds.
    pub flow_capacity: usize,
    /// What is logged.
    pub log: String,
}

/// Why settings are not complete or not right. Each says which.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("--config {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The file is not understood.
    #[error("--config {}: {field}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The setting.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that has no default.
    #[error("--{0} is missing")]
    Missing(&'static str),
    /// A value that cannot be.
    #[error("--{flag}: {problem}")]
    Value {
        /// The setting.
        flag: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificates that would not be looked at.
    #[error("--insecure and --{0} contradict each other")]
    InsecureTls(&'static str),
    /// A controller that cannot be spoken to.
    #[error("--control: {0}")]
    Control(#[from] TargetError),
}

/// The most workers that are started unasked: more cores are better left to pods. A small machine has one for every two
/// cores, as a worker shares them with the senders and receivers that it serves.
const DEFAULT_WORKERS: usize = 4;
/// Queues of a TAP device that the kernel allows.
const MAX_WORKERS: usize = 256;
/// A million directions, half a million connections.
const DEFAULT_FLOW_CAPACITY: usize = 1 << 20;
/// Where kube-proxy says it.
const DEFAULT_HEALTHZ: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 10_256);
/// Slot numbers are 32 bits wide.
const FLOW_CAPACITY: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

impl Args {
    /// The settings with the file's and the defaults filled in.
    pub fn resolve(self) -> Result<Config, ConfigError> {
        let file = match &self.config {
            Some(path) => read_file(path)?,
            None => Settings::default(),
        };
        self.settings.or(file).complete()
    }
}

fn read_file(path: &Path) -> Result<Settings, ConfigError> {
    let text =
        fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    if text.trim().is_empty() {
        return Ok(Settings::default());
    }
    let document = serde_yaml_ng::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(document).map_err(|error| ConfigError::File {
        path: path.to_owned(),
        field: error.path().to_string(),
        problem: error.into_inner().to_string(),
    })
}

impl Settings {
    fn or(self, other: Self) -> Self {
        Self {
            node: self.node.or(other.node),
            control: self.control.or(other.control),
            insecure: self.insecure.or(other.insecure),
            tls_ca: self.tls_ca.or(other.tls_ca),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            vtep_address: self.vtep_address.or(other.vtep_address),
            unassigned_pods: self.unassigned_pods.or(other.unassigned_pods),
            vxlan: self.vxlan.or(other.vxlan),
            host_path: self.host_path.or(other.host_path),
            node_port_addresses: self.node_port_addresses.or(other.node_port_addresses),
            snat_ports: self.snat_ports.or(other.snat_ports),
            fwmark: self.fwmark.or(other.fwmark),
            healthz_bind_address: self.healthz_bind_address.or(other.healthz_bind_address),
            workers: self.workers.or(other.workers),
            state_dir: self.state_dir.or(other.state_dir),
            run_dir: self.run_dir.or(other.run_dir),
            flow_table: self.flow_table.or(other.flow_table),
            flow_capacity: self.flow_capacity.or(other.flow_capacity),
            log: self.log.or(other.log),
        }
    }

    fn complete(self) -> Result<Config, ConfigError> {
        let control = self.control.clone().ok_or(ConfigError::Missing("control"))?;
        let security = self.security(&control)?;
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let workers = self.workers.unwrap_or((cores / 2).clamp(1, DEFAULT_WORKERS));
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(ConfigError::Value {
                flag: "workers",
                problem: format!("{workers} is not in 1-256"),
            });
        }
        let flow_capacity = self.flow_capacity.unwrap_or(DEFAULT_FLOW_CAPACITY);
        if !FLOW_CAPACITY.contains(&flow_capacity) {
            let problem = format!("{flow_capacity} is not in 1024-1073741824");
            return Err(ConfigError::Value { flag: "flow-capacity", problem });
        }
        let snat_ports = read("snat-ports", self.snat_ports.as_deref(), PortRange::SOURCE_PORTS)?;
        let host = match self.host_path.unwrap_or(HostPathKind::Managed) {
            HostPathKind::Managed => {
                let node_port_addresses = self.node_port_addresses.unwrap_or_default();
                Some(HostSettings { node_port_addresses, source_ports: snat_ports })
            }
            HostPathKind::None => None,
        };
        let healthz = match self.healthz_bind_address.as_deref() {
            Some("") => None,
            address => Some(read("healthz-bind-address", address, DEFAULT_HEALTHZ)?),
        };
        Ok(Config {
            node: self.node.filter(|name| !name.is_empty()).ok_or(ConfigError::Missing("node"))?,
            control: Target::new(&control, security)?,
            vtep_address: self.vtep_address,
            unassigned_pods: self.unassigned_pods.unwrap_or_default(),
            vxlan: self.vxlan.unwrap_or(TunnelKind::Sockets),
            host,
            snat_ports,
            fwmark: read("fwmark", self.fwmark.as_deref(), Marks::DEFAULT)?,
            healthz,
            workers,
            state_dir: self.state_dir.unwrap_or_else(|| "/var/lib/vrouter".into()),
            run_dir: self.run_dir.unwrap_or_else(|| "/run/vrouter".into()),
            flow_table: self.flow_table.unwrap_or_else(|| "/dev/shm/vrouter.flows".into()),
            flow_capacity,
            log: self.log.unwrap_or_else(|| "info".to_owned()),
        })
    }

    /// Plaintext only where that is said, certificates otherwise.
    fn security(&self, control: &str) -> Result<Security, ConfigError> {
        if self.insecure == Some(true) {
            let certificates =
                [("tls-ca", &self.tls_ca), ("tls-cert", &self.tls_cert), ("tls-key", &self.tls_key)];
            return match certificates.into_iter().find(|(_, path)| path.is_some()) {
                Some((flag, _)) => Err(ConfigError::InsecureTls(flag)),
                None => Ok(Security::Insecure),
            };
        }
        if control.starts_with("http://") {
            return Err(TargetError::Plaintext.into());
        }
        let read = |flag, path: &Option<PathBuf>| {
            let path = path.as_ref().ok_or(ConfigError::Missing(flag))?;
            let value = |error| ConfigError::Value { flag, problem: format!("{}: {error}", path.display()) };
            fs::read(path).map_err(value)
        };
        Ok(Security::MutualTls {
            ca: read("tls-ca", &self.tls_ca)?,
            certificate: read("tls-cert", &self.tls_cert)?,
            key: read("tls-key", &self.tls_key)?,
        })
    }
}

/// What a setting says, or else what it is by default.
fn read<T: FromStr<Err: ToString>>(
    flag: &'static str,
    text: Option<&str>,
    default: T,
) -> Result<T, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    text.parse().map_err(|error: T::Err| ConfigError::Value { flag, problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: &str) -> Result<Config, String> {
        let args = std::iter::once("vrouter").chain(flags.split_whitespace());
        Args::try_parse_from(args).map_err(|e| e.to_string())?.resolve().map_err(|e| e.to_string())
    }

    const LAB: &str = "--node n1 --control http://127.0.0.1:7443 --insecure";

    #[test]
    fn defaults() {
        let config = resolve(LAB).unwrap();
        assert_eq!((config.node.as_str(), config.vtep_address), ("n1", None));
        assert!((1..=DEFAULT_WORKERS).contains(&config.workers));
        assert_eq!(config.state_dir, Path::new("/var/lib/vrouter"));
        assert_eq!(config.run_dir, Path::new("/run/vrouter"));
        assert_eq!((config.flow_capacity, config.log.as_str()), (1 << 20, "info"));
        assert_eq!((config.snat_ports.to_string().as_str(), config.fwmark), ("61000-65535", Marks::DEFAULT));
        assert_eq!(config.healthz.unwrap().to_string(), "0.0.0.0:10256");
        assert!(config.host.unwrap().node_port_addresses.is_empty());
    }

    #[test]
    fn the_hosts_part_can_be_chosen_and_left_out() {
        let config = resolve(&format!(
            "{LAB} --node-port-addresses 10.0.0.0/8,fd00::/8 --snat-ports 50000-50999 --healthz-bind-address="
        ));
        let config = config.unwrap();
        let host = config.host.unwrap();
        assert_eq!(
            host.node_port_addresses,
            ["10.0.0.0/8", "fd00::/8"].map(|prefix| prefix.parse().unwrap())
        );
        assert_eq!((host.source_ports.range(), config.healthz), (50_000..=50_999, None));
        assert!(resolve(&format!("{LAB} --host-path none")).unwrap().host.is_none());
    }

    #[test]
    fn pods_that_nobody_assigns_are_attached_unless_it_says_otherwise() {
        assert_eq!(resolve(LAB).unwrap().unassigned_pods, UnassignedPods::Attach);
        let refusing = resolve(&format!("{LAB} --unassigned-pods refuse")).unwrap();
        assert_eq!(refusing.unassigned_pods, UnassignedPods::Refuse);
    }

    #[test]
    fn the_file_fills_in_what_the_flags_do_not_say() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vrouter.yaml");
        fs::write(
            &path,
            "node: from-file\nworkers: 3\nvxlan: device\nunassigned-pods: refuse\ninsecure: true\ncontrol: http://127.0.0.1:1\n",
        )
        .unwrap();
        let config = resolve(&format!("--config {} --node from-flag", path.display())).unwrap();
        assert_eq!(
            (config.node.as_str(), config.workers, config.vxlan),
            ("from-flag", 3, TunnelKind::Device)
        );
        assert_eq!(config.unassigned_pods, UnassignedPods::Refuse);
        fs::write(&path, "").unwrap();
        assert_eq!(resolve(&format!("{LAB} --config {}", path.display())).unwrap().node, "n1");
    }

    #[test]
    fn every_fault_is_told_with_its_flag_or_field() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vrouter.yaml");
        fs::write(&path, "workers: many\n").unwrap();
        let file = path.display();
        for (flags, expected) in [
            ("--control http://127.0.0.1:1 --insecure", "--node is missing"),
            ("--node n1", "--control is missing"),
            ("--node n1 --control http://127.0.0.1:1", "--control: http:// is not encrypted"),
            ("--node n1 --control https://127.0.0.1:1", "--tls-ca is missing"),
            ("--node n1 --control https://127.0.0.1:1 --tls-ca /nowhere", "--tls-ca: /nowhere: No such file"),
            (&format!("{LAB} --tls-cert /x"), "--insecure and --tls-cert contradict each other"),
            (&format!("{LAB} --workers 0"), "--workers: 0 is not in 1-256"),
            (&format!("{LAB} --snat-ports 7-6"), "--snat-ports: \"7-6\" is no range of ports"),
            (&format!("{LAB} --fwmark 3"), "--fwmark: \"3\" is not one of the bits"),
            (&format!("{LAB} --healthz-bind-address here"), "--healthz-bind-address: invalid socket address"),
            (&format!("{LAB} --node-port-addresses 10.0.0.0/33"), "--node-port-addresses <CIDR"),
            (&format!("{LAB} --flow-capacity 7"), "--flow-capacity: 7 is not in 1024"),
            (&format!("{LAB} --vtep-address here"), "--vtep-address <IP>"),
            (&format!("{LAB} --config /nowhere"), "--config /nowhere: No such file"),
            (&format!("{LAB} --config {file}"), "workers: invalid type: string \"many\""),
        ] {
            let error = resolve(flags).unwrap_err();
            assert!(error.contains(expected), "{flags}: {error}");
        }
        fs::write(&path, "tls-ca: /x\n").unwrap();
        let error = resolve(&format!("{LAB} --config {file}")).unwrap_err();
        assert_eq!(error, "--insecure and --tls-ca contradict each other");
        fs::write(&path, "wokers: 2\n").unwrap();
        let error = resolve(&format!("{LAB} --config {file}")).unwrap_err();
        assert!(error.contains("unknown field `wokers`"), "{error}");
    }
}
