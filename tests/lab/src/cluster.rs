//! What the lab does not decide but the cluster: the addresses of services, and what each node forwards for.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, anyhow, bail};
use ipnet::IpNet;
use serde_json::Value;
use vrouter_proto::v1::next_hop::Kind;
use vrouter_proto::v1::node_client::NodeClient;
use vrouter_proto::v1::{Address, ExternalKind, FloatingIp, Route, ServiceProtocol, TableRequest};

use crate::controller::{self, Inspector};
use crate::kernel_node::Peer;
use crate::lab;
use crate::line::Line;
use crate::name::LabName;
use crate::node;
use crate::object::Name;
use crate::ports::Transport;
use crate::state::{DataPath, Node};

/// The routing instance of the pod network.
const POD_VRF: u32 = 1;

/// The Services among the manifests.
pub fn services(name: &LabName) -> Result<Vec<Value>> {
    let directory = lab::manifests(name);
    let mut files: Vec<_> = fs::read_dir(&directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("Service_")));
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            serde_yaml_ng::from_str(&text).with_context(|| path.display().to_string())
        })
        .collect()
}

/// The cluster addresses of each Service, IPv4 first.
pub fn addresses(name: &LabName) -> Result<BTreeMap<Name, Vec<IpAddr>>> {
    let load_balancers = Inspector::connect(&controller::socket(name))?.objects("load-balancer")?;
    Ok(load_balancers.iter().filter_map(virtual_addresses).collect())
}

/// The Service a load balancer stands for, and its addresses.
fn virtual_addresses(load_balancer: &Value) -> Option<(Name, Vec<IpAddr>)> {
    let metadata = load_balancer.get("metadata")?;
    let name = Name::new(metadata.get("namespace")?.as_str()?, metadata.get("name")?.as_str()?);
    let addresses = load_balancer.pointer("/spec/vipAddresses")?.as_array()?;
    let mut addresses: Vec<IpAddr> = addresses.iter().filter_map(|it| it.as_str()?.parse().ok()).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    Some((name, addresses))
}

/// How many service addresses a node translates.
pub fn floating_ips(lab: &LabName, node: &str) -> Result<usize> {
    translated(lab, node).map(|all| all.len())
}

fn translated(lab: &LabName, node: &str) -> Result<Vec<FloatingIp>> {
    let line = Line::open(&node::socket(lab, node))?;
    let mut client = NodeClient::new(line.channel());
    let pieces = line.all(client.floating_ips(TableRequest {}))?;
    Ok(pieces.into_iter().flat_map(|piece| piece.floating_ips).collect())
}

/// The network of each pod on a node.
pub fn networks(lab: &LabName, node: &str) -> Result<BTreeMap<Name, String>> {
    let line = Line::open(&node::socket(lab, node))?;
    let mut client = NodeClient::new(line.channel());
    let interfaces = line.call(client.interfaces(TableRequest {}))?.interfaces;
    Ok(interfaces.into_iter().filter_map(|it| Some((it.name.parse().ok()?, it.network))).collect())
}

/// What a Service has outside the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontends {
    /// Its load balancer's addresses, IPv4 first.
    pub ingress: Vec<IpAddr>,
    /// Its port at every node, by port and protocol.
    pub node_ports: BTreeMap<(u64, String), u64>,
    /// Where each node tells whether it has members of its own.
    pub health_check_port: Option<u32>,
}

/// What each Service has outside, as a node knows it.
pub fn frontends(lab: &LabName, node: &str) -> Result<BTreeMap<Name, Frontends>> {
    let mut all = BTreeMap::<Name, Frontends>::new();
    for floating_ip in translated(lab, node)? {
        let Ok(name) = floating_ip.name.parse::<Name>() else { continue };
        add_frontends(all.entry(name).or_default(), &floating_ip);
    }
    Ok(all)
}

fn add_frontends(frontends: &mut Frontends, floating_ip: &FloatingIp) {
    let balanced = floating_ip.external.iter().filter(|it| it.kind() == ExternalKind::LoadBalancer);
    frontends.ingress.extend(balanced.filter_map(|external| ip(external.address.as_ref()?)));
    frontends.ingress.sort_by_key(IpAddr::is_ipv6);
    for listener in floating_ip.listeners.iter().filter(|listener| listener.node_port > 0) {
        let protocol = match listener.protocol() {
            ServiceProtocol::Unspecified => continue,
            ServiceProtocol::Tcp => Transport::Tcp,
            ServiceProtocol::Udp => Transport::Udp,
            ServiceProtocol::Sctp => Transport::Sctp,
        };
        let port = (listener.port.into(), protocol.to_string());
        frontends.node_ports.insert(port, listener.node_port.into());
    }
    if floating_ip.health_check_port > 0 {
        frontends.health_check_port = Some(floating_ip.health_check_port);
    }
}

/// A node as the end of other nodes' tunnels: of a kernel node the lab itself knows, one of ours is asked.
pub fn peer(lab: &LabName, node: &Node) -> Result<Peer> {
    match &node.data_path {
        DataPath::Kernel(blocks) => Ok(Peer {
            address: node.address(),
            mac: blocks.mac.clone(),
            blocks: vec![blocks.ipv4.into(), blocks.ipv6.into()],
        }),
        DataPath::VRouter(_) => our_peer(lab, &node.name).with_context(|| format!("node {}", node.name)),
    }
}

fn our_peer(lab: &LabName, node: &str) -> Result<Peer> {
    let line = Line::open(&node::socket(lab, node))?;
    let mut client = NodeClient::new(line.channel());
    let routers = line.call(client.virtual_routers(TableRequest {}))?.virtual_routers;
    let own = routers.into_iter().find(|router| router.name == node);
    let own = own.ok_or_else(|| anyhow!("it does not know itself"))?;
    let pieces = line.all(client.routes(TableRequest {}))?;
    let routes: Vec<_> = pieces.into_iter().flat_map(|piece| piece.routes).collect();
    let address = own.address.as_ref().and_then(ip).ok_or_else(|| anyhow!("it has no underlay address"))?;
    let mac: Vec<_> = own.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Peer { address, mac: mac.join(":"), blocks: own_blocks(&routes)? })
}

/// A node rejects what is in its own blocks and belongs to no pod; that tells the blocks. It also rejects what is in the
/// pod network around them and in no node's block.
fn own_blocks(routes: &[Route]) -> Result<Vec<IpNet>> {
    let block = |route: &Route| {
        let key = route.key.as_ref().filter(|key| key.vrf == POD_VRF)?;
        let prefix = key.prefix.as_ref()?;
        let rejects = matches!(route.next_hop.as_ref()?.kind, Some(Kind::Reject(_)));
        let address = ip(prefix.address.as_ref()?)?;
        rejects.then(|| IpNet::new(address, prefix.length.try_into().ok()?).ok()).flatten()
    };
    let rejected: Vec<_> = routes.iter().filter_map(block).collect();
    let is_innermost = |one: &&IpNet| !rejected.iter().any(|other| other != *one && one.contains(other));
    let blocks: Vec<_> = rejected.iter().filter(is_innermost).copied().collect();
    if blocks.is_empty() {
        bail!("it has no block of pod addresses");
    }
    Ok(blocks)
}

fn ip(address: &Address) -> Option<IpAddr> {
    let octets = address.octets.as_slice();
    let ipv4 = || Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into());
    let ipv6 = || Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into());
    ipv4().or_else(ipv6)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vrouter_proto::v1::{Empty, ExternalAddress, Listener, NextHop, Prefix, RouteKey};

    use super::*;

    #[test]
    fn addresses_are_read_from_load_balancers() {
        let load_balancer = json!({
            "metadata": {"namespace": "web", "name": "nginx"},
            "spec": {"vipAddresses": ["fd00:10:96::1", "10.96.0.1"]},
        });
        let (name, addresses) = virtual_addresses(&load_balancer).unwrap();
        let wanted: [IpAddr; 2] = ["10.96.0.1".parse().unwrap(), "fd00:10:96::1".parse().unwrap()];
        assert_eq!((name, addresses.as_slice()), (Name::new("web", "nginx"), wanted.as_slice()));
    }

    #[test]
    fn frontends_of_both_families_are_put_together() {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let floating_ip = |external: &str| FloatingIp {
            external: vec![ExternalAddress {
                address: Some(Address { octets: octets(external.parse().unwrap()) }),
                kind: ExternalKind::LoadBalancer.into(),
            }],
            listeners: vec![Listener {
                port: 80,
                protocol: ServiceProtocol::Tcp.into(),
                node_port: 30080,
                ..Listener::default()
            }],
            ..FloatingIp::default()
        };
        let mut frontends = Frontends::default();
        for external in ["fd00:30:255::1", "172.30.255.1"] {
            add_frontends(&mut frontends, &floating_ip(external));
        }
        let wanted: [IpAddr; 2] = ["172.30.255.1".parse().unwrap(), "fd00:30:255::1".parse().unwrap()];
        assert_eq!(frontends.ingress, wanted);
        assert_eq!(frontends.node_ports, BTreeMap::from([((80, "TCP".to_owned()), 30080)]));
        assert_eq!(frontends.health_check_port, None);
    }

    #[test]
    fn own_blocks_are_those_that_end_here() {
        let route = |vrf, octets: &[u8], length, kind| Route {
            key: Some(RouteKey {
                vrf,
                prefix: Some(Prefix { address: Some(Address { octets: octets.to_vec() }), length }),
            }),
            next_hop: Some(NextHop { kind: Some(kind) }),
        };
        let routes = [
            route(1, &[10, 244, 1, 0], 24, Kind::Reject(Empty {})),
            route(1, &[10, 244, 0, 0], 16, Kind::Reject(Empty {})),
            route(1, &[10, 244, 2, 0], 24, Kind::Tunnel(2)),
            route(2, &[10, 96, 0, 0], 12, Kind::Reject(Empty {})),
        ];
        assert_eq!(own_blocks(&routes).unwrap(), ["10.244.1.0/24".parse::<IpNet>().unwrap()]);
        assert!(own_blocks(&routes[2..]).is_err());
    }
}
