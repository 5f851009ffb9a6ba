//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use ipnet::IpNet;
use vrouter_control_model::{ModelConfig, ModelError, NetworkVnis, NodePortRange};
use vrouter_objects::{ObjectError, Vni};

use crate::ServerError;

/// The controller: mirrors Kubernetes objects and gives each node its tables.
#[derive(Debug, Clone, Parser)]
#[command(name = "vrouter-control", version)]
pub struct Args {
    /// Folder with Kubernetes YAML, watched.
    #[arg(long, value_name = "DIR")]
    pub manifests: PathBuf,
    /// Where nodes and tools connect.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7443")]
    pub listen: SocketAddr,
    /// Serve without TLS: anyone who reaches the port is believed.
    #[arg(long, conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"])]
    pub insecure: bool,
    /// Certificate of the authority that nodes' and tools' certificates must be signed by.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// The controller's own certificate.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_cert"])]
    pub tls_key: Option<PathBuf>,
    /// Unix socket for tools on this machine, for its owner only.
    #[arg(long, value_name = "PATH", default_value = "/run/vrouter-control/control.sock")]
    pub socket: PathBuf,
    /// Where allocations are kept.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/vrouter-control")]
    pub state_dir: PathBuf,
    /// Pod addresses, at most one prefix per family.
    #[arg(long, value_delimiter = ',', default_value = "10.244.0.0/16,fd00:10:244::/48")]
    pub pod_cidr: Vec<IpNet>,
    /// Cluster addresses of Services, at most one prefix per family; the first is the primary family.
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/12,fd00:10:96::/108")]
    pub service_cidr: Vec<IpNet>,
    /// Addresses by which each node reaches its own pods, whatever network they are in, at most one prefix per family.
    #[arg(long, value_delimiter = ',', default_value = "169.254.64.0/18,fd00:169:254::/112")]
    pub link_local_cidr: Vec<IpNet>,
    /// Length of a node's block of pod addresses: IPv4, IPv6.
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_value = "24,64")]
    pub node_block_length: Vec<u8>,
    /// VNI of the pod network.
    #[arg(long, default_value = "1", value_parser = vni)]
    pub pod_network_vni: Vni,
    /// VNI of the service network.
    #[arg(long, default_value = "2", value_parser = vni)]
    pub service_network_vni: Vni,
    /// VNI of the fabric: the nodes themselves, and who is beyond them.
    #[arg(long, default_value = "3", value_parser = vni)]
    pub fabric_network_vni: Vni,
    /// Ports that Services may have at the nodes' addresses.
    #[arg(long, value_name = "FIRST-LAST", default_value_t)]
    pub node_port_range: NodePortRange,
    /// Addresses for Services of type LoadBalancer; without it, only their status gives them any.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub load_balancer_pool: Vec<IpNet>,
    /// What to log, as in `info` or `vrouter_control=debug`.
    #[arg(long, value_name = "FILTER", env = "VROUTER_LOG", default_value = "info")]
    pub log: String,
}

/// How nodes and tools are served over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// In the clear.
    Plaintext,
    /// Both sides show a certificate.
    MutualTls {
        /// The authority.
        ca: PathBuf,
        /// The own certificate.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

impl Args {
    /// The transport, which must be chosen.
    pub fn transport(&self) -> Result<Transport, ServerError> {
        match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => {
                Ok(Transport::MutualTls { ca: ca.clone(), cert: cert.clone(), key: key.clone() })
            }
            _ if self.insecure => Ok(Transport::Plaintext),
            _ => Err(ServerError::NoTransport),
        }
    }

    /// The cluster's networks, and what Services may be given.
    pub fn model_config(&self) -> Result<ModelConfig, ModelError> {
        let v4 = self.node_block_length.first().copied().unwrap_or(24);
        let v6 = self.node_block_length.get(1).copied().unwrap_or(64);
        let vnis = NetworkVnis {
            pods: self.pod_network_vni,
            services: self.service_network_vni,
            fabric: self.fabric_network_vni,
        };
        ModelConfig::new(self.pod_cidr.clone(), self.service_cidr.clone(), [v4, v6], vnis)?
            .with_node_ports(self.node_port_range)
            .with_load_balancer_pool(self.load_balancer_pool.clone())?
            .with_link_local(self.link_local_cidr.clone())
    }
}

fn vni(text: &str) -> Result<Vni, String> {
    let number = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    Vni::new(number).map_err(|error: ObjectError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["vrouter-control", "--manifests", "m"].iter().chain(extra))
    }

    #[test]
    fn the_transport_must_be_chosen() {
        let error = parse(&[]).unwrap().transport().unwrap_err().to_string();
        assert!(error.contains("--insecure") && error.contains("--tls-ca"), "{error}");
        assert_eq!(parse(&["--insecure"]).unwrap().transport().unwrap(), Transport::Plaintext);
        assert!(parse(&["--tls-cert", "c"]).is_err());
        assert!(parse(&["--insecure", "--tls-ca", "a", "--tls-cert", "c", "--tls-key", "k"]).is_err());
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let args = parse(&["--pod-cidr", "10.1.0.0/16,fd01::/48", "--node-block-length", "26,72"]).unwrap();
        assert_eq!(args.pod_cidr.len(), 2);
        assert_eq!(args.node_block_length, [26, 72]);
        args.model_config().unwrap();
        let args = parse(&["--load-balancer-pool", "192.0.2.0/24,2001:db8::/64"]).unwrap();
        assert_eq!(args.model_config().unwrap().load_balancer_pool.len(), 2);
    }

    #[test]
    fn nodes_reach_pods_by_addresses_of_the_families_that_pods_have() {
        let prefixes = |extra: &[&str]| {
            let config = parse(extra).unwrap().model_config().unwrap();
            config.link_local.iter().map(|subnet| subnet.prefix.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(prefixes(&[]), ["169.254.64.0/18", "fd00:169:254::/112"]);
        assert_eq!(prefixes(&["--pod-cidr", "10.1.0.0/16"]), ["169.254.64.0/18"]);
        assert_eq!(prefixes(&["--link-local-cidr", "100.64.0.0/20"]), ["100.64.0.0/20"]);
    }

    #[test]
    fn node_ports_are_a_range() {
        let range =
            |extra: &[&str]| parse(extra).map(|args| args.model_config().unwrap().node_ports.to_string());
        assert_eq!(range(&[]).unwrap(), "30000-32767");
        assert_eq!(range(&["--node-port-range", "20000-20100"]).unwrap(), "20000-20100");
        let error = range(&["--node-port-range", "20100-20000"]).unwrap_err().to_string();
        assert!(error.contains("is no range of ports"), "{error}");
    }
}
