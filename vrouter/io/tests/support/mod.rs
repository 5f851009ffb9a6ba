//! Nodes and pods as network namespaces, for tests of the real thing. They need root; each test has its own
//! namespaces, and takes them down again.

// Each test program uses what it needs of this.
#![allow(dead_code)]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use vrouter_forward::flow::{FlowConfig, FlowTable};
use vrouter_forward::frame::PortId;
use vrouter_forward::tables::{Change, Tables};
use vrouter_forward::{ForwardConfig, PacketCounters, Shared};
use vrouter_io::{
    DataPath, DataPathConfig, FlowFile, Tap, TapSpec, TunnelDevice, TunnelEnd, VXLAN_PORT, boot_id,
    boot_time, within,
};
use vrouter_objects::{
    DropReason, IpNet, MacAddress, NextHop, Object, Route, RouteKey, RouterId, RoutingInstance, Subnet,
    VirtualRouter, Vmi, VmiId, VmiKind, Vni, VrfId,
};

pub const WORKERS: usize = 2;
pub const TUNNEL_MTU: u16 = 1430;

/// Whether these tests can run; says so if not.
pub fn are_we_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: network namespaces need root");
    }
    is_root
}

/// A network namespace of this test.
pub struct Namespace {
    name: String,
}

impl Namespace {
    pub fn new(role: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("vrio-{}-{number}-{role}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip("link set lo up");
        namespace
    }

    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments inside.
    pub fn ip(&self, arguments: &str) {
        let arguments: Vec<_> = ["-n", &self.name].into_iter().chain(arguments.split_whitespace()).collect();
        run("ip", &arguments);
    }

    /// Runs a command inside; whether it succeeded.
    pub fn succeeds(&self, command: &str) -> bool {
        self.run(command).status.success()
    }

    /// Runs a command inside; what it printed.
    pub fn output(&self, command: &str) -> String {
        String::from_utf8(self.run(command).stdout).unwrap()
    }

    fn run(&self, command: &str) -> Output {
        let arguments = ["netns", "exec", &self.name].into_iter().chain(command.split_whitespace());
        Command::new("ip").args(arguments).output().unwrap()
    }

    /// Does something inside.
    pub fn inside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        within(Some(&self.path()), || Ok(task())).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {error}", arguments.join(" "));
}

/// Two namespaces with a link between them, `under0` on either side.
pub fn link(one: &Namespace, one_address: &str, other: &Namespace, other_address: &str) {
    one.ip(&format!("link add under0 type veth peer name under0 netns {}", other.name()));
    for (namespace, address) in [(one, one_address), (other, other_address)] {
        namespace.ip(&format!("addr add {address} dev under0 nodad"));
        namespace.ip("link set under0 up");
    }
}

/// What both nodes of a test know of the cluster.
pub fn cluster(vteps: &[&str]) -> Vec<Object> {
    let vrf = VrfId::new(1).unwrap();
    let gateways = ["10.244.0.0/16 10.244.0.1", "fd00:10:244::/48 fd00:10:244::1"];
    let subnets = gateways.map(|subnet| {
        let (prefix, gateway) = subnet.split_once(' ').unwrap();
        Subnet { prefix: prefix.parse().unwrap(), gateway: gateway.parse().unwrap() }
    });
    let network =
        RoutingInstance::new(vrf, "default/default-podnetwork", Vni::new(1).unwrap(), subnets.to_vec());
    let mut objects = vec![Object::RoutingInstance(network)];
    for (number, address) in (1..).zip(vteps) {
        let id = RouterId::new(number).unwrap();
        let (name, address) = (format!("node{number}"), address.parse().unwrap());
        objects.push(Object::VirtualRouter(VirtualRouter::new(id, &name, address, vtep_mac(number))));
        for block in [format!("10.244.{number}.0/24"), format!("fd00:10:244:{number}::/64")] {
            let key = RouteKey { vrf, prefix: block.parse::<IpNet>().unwrap() };
            objects.push(Object::Route(Route { key, next_hop: NextHop::Tunnel(id) }));
        }
    }
    objects
}

/// The MAC address of a node's tunnel end.
pub fn vtep_mac(node: u32) -> MacAddress {
    MacAddress::local(0x56, node)
}

/// How a node's packets get into tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelKind {
    Sockets,
    Devices,
}

impl TunnelKind {
    pub const ALL: [Self; 2] = [Self::Sockets, Self::Devices];
}

/// A vRouter with its pods.
pub struct Node {
    pub namespace: Namespace,
    number: u32,
    cluster: Vec<Object>,
    vtep: IpAddr,
    tunnels: TunnelKind,
    flow_file: PathBuf,
    /// Holds the flow file; removed with the node.
    _folder: tempfile::TempDir,
    pods: Vec<(Vmi, PortId, TapSpec)>,
    running: Option<Running>,
}

struct Running {
    data_path: DataPath,
    shared: Arc<Shared>,
    tables: Tables,
    flow_file: FlowFile,
}

impl Node {
    /// Node `number`, from 1 on, of this cluster; it must be started.
    pub fn new(namespace: Namespace, number: u32, vteps: &[&str], tunnels: TunnelKind) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        Self {
            namespace,
            number,
            cluster: cluster(vteps),
            vtep: vteps[number as usize - 1].parse().unwrap(),
            tunnels,
            flow_file: folder.path().join("flows"),
            _folder: folder,
            pods: Vec::new(),
            running: None,
        }
    }

    /// Starts the vRouter, with the pods it had before.
    pub fn start(&mut self) {
        let flow_file = FlowFile::open(&self.flow_file, 1 << 12, boot_id().unwrap()).unwrap();
        let config = FlowConfig { hash_seed: flow_file.seed(), ..FlowConfig::default() };
        let (flows, _) = FlowTable::recover(flow_file.slots(), flow_file.high_water(), config, boot_time());
        let shared = Shared::new(flows, WORKERS, ForwardConfig::default());
        let mut tables = Tables::new(&format!("node{}", self.number), flow_file.last_epoch());
        tables.set_tunnel_mtu(TUNNEL_MTU);
        let refusals = tables.apply(self.cluster.iter().cloned().map(Change::Put).collect());
        assert!(refusals.is_empty(), "{refusals:?}");
        let first = tables.publish(flow_file.next_epoch());
        let data_path = DataPath::start(DataPathConfig::default(), shared.clone(), first).unwrap();
        let end = self.tunnel_end();
        self.namespace.inside(|| data_path.set_tunnel_end(&end).unwrap());
        self.running = Some(Running { data_path, shared, tables, flow_file });
        for pod in self.pods.clone() {
            self.attach(pod);
        }
    }

    /// The node's end of the tunnels, with the kernel's device where that is used.
    fn tunnel_end(&self) -> TunnelEnd {
        if self.tunnels == TunnelKind::Sockets {
            return TunnelEnd::Sockets(self.vtep);
        }
        let routers = || {
            self.cluster.iter().filter_map(|object| match object {
                Object::VirtualRouter(router) => Some(router),
                _ => None,
            })
        };
        let name = "vxlan-1";
        let vtep = self.vtep;
        if !self.namespace.succeeds(&format!("ip link show {name}")) {
            let kind = format!("type vxlan id 1 local {vtep} dstport {VXLAN_PORT} nolearning");
            self.namespace.ip(&format!("link add {name} mtu {TUNNEL_MTU} {kind}"));
            self.namespace.output(&format!("sysctl -w net.ipv6.conf.{name}.disable_ipv6=1"));
            self.namespace.ip(&format!("link set {name} arp off up"));
            for VirtualRouter { mac, address, .. } in routers().filter(|router| router.address != vtep) {
                let entry = format!("bridge fdb append {mac} dev {name} dst {address}");
                assert!(self.namespace.succeeds(&entry), "{entry}");
            }
        }
        let devices = vec![TunnelDevice { vni: Vni::new(1).unwrap(), name: name.to_owned() }];
        let peers = routers().map(|router| (router.mac, router.address)).collect();
        TunnelEnd::Devices { devices, peers: Arc::new(peers) }
    }

    /// Stops the vRouter; its pods keep their interfaces.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.data_path.stop();
        }
    }

    /// A new pod with these addresses.
    pub fn add_pod(&mut self, addresses: &[&str]) -> Namespace {
        let namespace = Namespace::new("pod");
        let number = self.pods.len() as u32 + 1;
        let id = VmiId::new(self.number * 100 + number).unwrap();
        let mac = MacAddress::local(0x50, id.get());
        let vmi = Vmi {
            id,
            name: format!("default/pod-{id}"),
            kind: VmiKind::Pod,
            vrf: VrfId::new(1).unwrap(),
            mac,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            link_local: None,
            uid: String::new(),
            mtu: TUNNEL_MTU,
        };
        let spec = TapSpec {
            netns: Some(namespace.path()),
            name: "eth0".to_owned(),
            queues: WORKERS as u16,
            mac,
            mtu: TUNNEL_MTU,
        };
        let pod = (vmi, PortId(number as u16), spec);
        self.attach(pod.clone());
        self.pods.push(pod);
        configure(&namespace, addresses);
        namespace
    }

    fn attach(&mut self, (vmi, port, spec): (Vmi, PortId, TapSpec)) {
        let running = self.running.as_mut().unwrap();
        running.data_path.add_port(port, Tap::open(&spec).unwrap()).unwrap();
        running.tables.attach(vmi, port).unwrap();
        let snapshot = running.tables.publish(running.flow_file.next_epoch());
        running.data_path.publish(snapshot);
        let boundary = running.shared.boundary();
        until("every worker has the new snapshot", || running.shared.passed(&boundary));
    }

    pub fn data_path(&self) -> &DataPath {
        &self.running.as_ref().unwrap().data_path
    }

    /// All counts, once no worker is inside a burst.
    pub fn totals(&self) -> PacketCounters {
        let shared = &self.running.as_ref().unwrap().shared;
        let boundary = shared.boundary();
        until("every worker is between two bursts", || shared.passed(&boundary));
        until("every frame has ended", || shared.totals().are_conserved());
        shared.totals()
    }

    /// How many frames were dropped, but for the multicast that every kernel sends as it comes up.
    pub fn dropped(&self) -> u64 {
        let totals = self.totals();
        totals.dropped - totals.dropped_for(DropReason::Multicast)
    }

    /// What was dropped, for the message of a failed test.
    pub fn drops(&self) -> String {
        let drops = self.data_path().recent_drops();
        drops.iter().map(|packet| format!("{} {:02x?}\n", packet.reason, packet.head)).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Gives a pod's interface its addresses and routes, as the CNI plugin does.
fn configure(namespace: &Namespace, addresses: &[&str]) {
    namespace.ip("link set eth0 up");
    for address in addresses {
        let is_v6 = address.contains(':');
        let (len, gateway) = if is_v6 { (128, "fd00:10:244::1") } else { (32, "10.244.0.1") };
        namespace.ip(&format!("addr add {address}/{len} dev eth0 nodad"));
        namespace
            .ip(&format!("neigh replace {gateway} lladdr {} dev eth0 nud permanent", MacAddress::GATEWAY));
        namespace.ip(&format!("route add {gateway} dev eth0"));
        namespace.ip(&format!("route add default via {gateway} dev eth0"));
    }
}

/// Waits for something that comes soon.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < patience, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
