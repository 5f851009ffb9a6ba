//! A node for tests: the real agent and tables, over a data path that only remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use vrouter_forward::flow::{FlowConfig, FlowTable, Slot};
use vrouter_forward::frame::{PortId, Time};
use vrouter_forward::{DroppedPacket, Epoch, ForwardConfig, Shared, Snapshot};
use vrouter_objects::{
    AddressLease, LeaseId, MacAddress, Object, PodBinding, PodName, RouterId, RoutingInstance, Subnet,
    Version, VirtualRouter, Vni, VrfId,
};
use vrouter_proto::convert::key_of;
use vrouter_proto::{Digest, object_digest, v1};

use crate::agent::{
    Agent, Applied, Assignment, AttachError, AttachRequest, Drift, HostSettings, Identity, Restored,
    UnassignedPods,
};
use crate::attachment::{AssignedBy, Attachment, ContainerInterface};
use crate::control::{Base, Update, WireKey};
use crate::host_path::{HostPath, PortRange};
use crate::plane::{DataPlane, Device, PlaneError, Tunnels};
use crate::state::{StateFiles, make_private_directory};

/// A data path that remembers what it was told.
#[derive(Default)]
pub(crate) struct FakePlane {
    epoch: AtomicU32,
    pub(crate) ports: Mutex<BTreeMap<PortId, Device>>,
    pub(crate) published: Mutex<Option<Arc<Snapshot>>>,
    pub(crate) refuses_to_open: Mutex<Option<String>>,
    pub(crate) refuses_to_close: Mutex<Option<PortId>>,
    pub(crate) refuses_tunnels: Mutex<Option<String>>,
    /// What it cannot do of the tunnels, while it does the rest.
    pub(crate) tunnel_problem: Mutex<Option<String>>,
    pub(crate) are_tunnels_broken: AtomicBool,
    pub(crate) tunnels: Mutex<Option<Tunnels>>,
    pub(crate) unplugged: Mutex<Vec<PortId>>,
    pub(crate) own_addresses: Mutex<BTreeSet<IpAddr>>,
    pub(crate) refuses_addresses: Mutex<Option<String>>,
    pub(crate) refuses_underlay: Mutex<Option<String>>,
    pub(crate) host_path: Mutex<Option<HostPath>>,
    pub(crate) host_path_problem: Mutex<Option<String>>,
    /// What it was told, in this order.
    pub(crate) told: Mutex<Vec<Told>>,
}

/// Something that a data path is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Publish,
    OpenPort(PortId),
    SetTunnels(IpAddr),
    SetHostPath,
}

impl DataPlane for FakePlane {
    fn next_epoch(&self) -> Epoch {
        Epoch(self.epoch.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn publish(&self, snapshot: Arc<Snapshot>) {
        *self.published.lock().unwrap() = Some(snapshot);
        self.told.lock().unwrap().push(Told::Publish);
    }

    fn open_port(&self, port: PortId, device: &Device) -> Result<(), PlaneError> {
        if let Some(reason) = &*self.refuses_to_open.lock().unwrap() {
            return Err(PlaneError(reason.clone()));
        }
        let other = self.ports.lock().unwrap().insert(port, device.clone());
        assert!(other.is_none(), "port {port:?} was open already");
        self.told.lock().unwrap().push(Told::OpenPort(port));
        Ok(())
    }

    fn close_port(&self, port: PortId, _: &Device) -> Result<(), PlaneError> {
        if *self.refuses_to_close.lock().unwrap() == Some(port) {
            return Err(PlaneError("it is in use".to_owned()));
        }
        self.ports.lock().unwrap().remove(&port);
        Ok(())
    }

    fn unplugged_ports(&self) -> Vec<PortId> {
        std::mem::take(&mut *self.unplugged.lock().unwrap())
    }

    fn set_tunnels(&self, tunnels: &Tunnels) -> Result<Vec<PlaneError>, PlaneError> {
        self.told.lock().unwrap().push(Told::SetTunnels(tunnels.vtep.address));
        if let Some(reason) = &*self.refuses_tunnels.lock().unwrap() {
            return Err(PlaneError(reason.clone()));
        }
        *self.tunnels.lock().unwrap() = Some(tunnels.clone());
        self.are_tunnels_broken.store(false, Ordering::Relaxed);
        Ok(self.tunnel_problem.lock().unwrap().clone().map(PlaneError).into_iter().collect())
    }

    fn are_tunnels_whole(&self) -> bool {
        !self.are_tunnels_broken.load(Ordering::Relaxed)
    }

    fn underlay_mtu(&self, _: IpAddr) -> Result<u32, PlaneError> {
        match &*self.refuses_underlay.lock().unwrap() {
            Some(reason) => Err(PlaneError(reason.clone())),
            None => Ok(1500),
        }
    }

    fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, PlaneError> {
        match &*self.refuses_addresses.lock().unwrap() {
            Some(reason) => Err(PlaneError(reason.clone())),
            None => Ok(self.own_addresses.lock().unwrap().clone()),
        }
    }

    fn device_index(&self, name: &str) -> Option<u32> {
        let ports = self.ports.lock().unwrap();
        ports.values().any(|device| device.name == name).then_some(7)
    }

    fn set_host_path(&self, path: &HostPath) -> Vec<PlaneError> {
        *self.host_path.lock().unwrap() = Some(path.clone());
        self.told.lock().unwrap().push(Told::SetHostPath);
        self.host_path_problem.lock().unwrap().clone().map(PlaneError).into_iter().collect()
    }

    fn remove_host_path(&self) -> Vec<PlaneError> {
        *self.host_path.lock().unwrap() = None;
        Vec::new()
    }

    fn now(&self) -> Time {
        Time(0)
    }

    fn recent_drops(&self) -> Vec<DroppedPacket> {
        Vec::new()
    }
}

/// Node `n1` with a state directory of its own.
pub(crate) struct TestNode {
    directory: Arc<TempDir>,
    pub(crate) plane: Arc<FakePlane>,
    pub(crate) agent: Arc<Agent>,
}

impl TestNode {
    /// A node that has just been installed.
    pub(crate) fn new() -> Self {
        Self::start(Arc::new(tempfile::tempdir().unwrap()), "boot 1")
    }

    /// A node that has just been installed, and whose own stack takes no part.
    pub(crate) fn without_host_path() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        Self::start_as(FakePlane::default(), directory, Identity { host: None, ..identity("boot 1") })
    }

    /// A node that holds the pod network and a lease of it, with this prefix.
    pub(crate) fn with_lease(prefix: &str) -> Self {
        let node = Self::new();
        let mut objects = basics();
        objects.push(lease(1, prefix));
        node.apply(1, &objects).unwrap();
        node
    }

    /// The same node after it was killed and started again.
    pub(crate) fn restarted(&self) -> Self {
        Self::start(Arc::clone(&self.directory), "boot 1")
    }

    /// The same node after it was killed and started again, without what its journal noted.
    pub(crate) fn restarted_without_journal(&self) -> Self {
        std::fs::remove_file(self.directory.path().join("state/tables.journal")).unwrap();
        self.restarted()
    }

    /// The same node, restarted with another rule for pods that nobody says anything about.
    pub(crate) fn restarted_with(&self, unassigned_pods: UnassignedPods) -> Self {
        let directory = Arc::clone(&self.directory);
        Self::start_as(FakePlane::default(), directory, Identity { unassigned_pods, ..identity("boot 1") })
    }

    /// The same node after the machine was booted.
    pub(crate) fn rebooted(&self) -> Self {
        Self::start(Arc::clone(&self.directory), "boot 2")
    }

    /// The same node after it was killed and started again, and could open no device.
    pub(crate) fn restarted_without_devices(&self, reason: &str) -> Self {
        let plane = FakePlane::default();
        *plane.refuses_to_open.lock().unwrap() = Some(reason.to_owned());
        Self::start_on(plane, Arc::clone(&self.directory), "boot 1")
    }

    fn start(directory: Arc<TempDir>, boot_id: &str) -> Self {
        Self::start_on(FakePlane::default(), directory, boot_id)
    }

    fn start_on(plane: FakePlane, directory: Arc<TempDir>, boot_id: &str) -> Self {
        Self::start_as(plane, directory, identity(boot_id))
    }

    fn start_as(plane: FakePlane, directory: Arc<TempDir>, identity: Identity) -> Self {
        make_private_directory(&directory.path().join("state")).unwrap();
        let files = StateFiles::within(&directory.path().join("state"));
        let restored = Restored::load(&identity, &files, Epoch(0)).unwrap();
        let plane = Arc::new(plane);
        let agent = Agent::new(identity, files, plane.clone(), shared(), restored);
        Self { directory, plane, agent }
    }

    /// A file in the node's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Applies these objects as everything there is.
    pub(crate) fn apply(&self, version: u64, objects: &[Object]) -> Result<Applied, Drift> {
        let messages: Vec<_> = objects.iter().map(v1::Object::from).collect();
        let changes =
            messages.iter().map(|message| (WireKey::new(&key_of(message).unwrap()), Some(message.clone())));
        self.agent.apply(Update {
            version: Version(version),
            base: Base::Nothing,
            changes: changes.collect(),
            unknown: 0,
            digest: digest(&messages),
        })
    }

    /// Attaches by a call of its own.
    pub(crate) fn attach(
        &self,
        request: AttachRequest,
        assignment: &Assignment,
    ) -> Result<Attachment, AttachError> {
        self.agent.attach(&self.agent.begin(request), assignment)
    }

    /// How many devices are open.
    pub(crate) fn open_ports(&self) -> usize {
        self.plane.ports.lock().unwrap().len()
    }
}

/// Node `n1` since this boot.
fn identity(boot_id: &str) -> Identity {
    let host = HostSettings { node_port_addresses: Vec::new(), source_ports: PortRange::SOURCE_PORTS };
    Identity {
        node: "n1".to_owned(),
        boot_id: boot_id.to_owned(),
        vtep: None,
        host: Some(host),
        unassigned_pods: UnassignedPods::default(),
    }
}

fn shared() -> Arc<Shared> {
    let slots: Vec<_> = (0..16).map(|_| Slot::new()).collect();
    let (flows, _) =
        FlowTable::recover(slots.leak(), Box::leak(Box::default()), FlowConfig::default(), Time(0));
    Shared::new(flows, 2, ForwardConfig::default())
}

/// The digest of these objects.
pub(crate) fn digest(objects: &[v1::Object]) -> Digest {
    let mut digest = Digest::default();
    objects.iter().for_each(|object| digest.add(object_digest(object)));
    digest
}

/// VRF 1.
pub(crate) fn vrf() -> VrfId {
    VrfId::new(1).unwrap()
}

/// What a pod gets where the node itself decides: any address of the default network.
pub(crate) fn anywhere() -> Assignment {
    Assignment { vrf: vrf(), addresses: Vec::new(), by: AssignedBy::Node }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The node itself and the pod network.
pub(crate) fn basics() -> Vec<Object> {
    let subnet = |prefix: &str, gateway| Subnet { prefix: prefix.parse().unwrap(), gateway: ip(gateway) };
    vec![
        router(1, "172.30.0.1"),
        Object::RoutingInstance(RoutingInstance {
            known_in: vec![VrfId::new(3).unwrap()],
            ..RoutingInstance::new(
                vrf(),
                "default/default-podnetwork",
                Vni::new(1).unwrap(),
                vec![subnet("10.244.0.0/16", "10.244.0.1"), subnet("fd00:10:244::/48", "fd00:10:244::1")],
            )
        }),
    ]
}

/// Node `n{id}`.
pub(crate) fn router(id: u32, address: &str) -> Object {
    let mac = MacAddress::local(0x56, id);
    let id = RouterId::new(id).unwrap();
    Object::VirtualRouter(VirtualRouter::new(id, &format!("n{id}"), ip(address), mac))
}

/// A lease of the pod network.
pub(crate) fn lease(id: u32, prefix: &str) -> Object {
    Object::AddressLease(AddressLease {
        id: LeaseId::new(id).unwrap(),
        vrf: vrf(),
        prefix: prefix.parse().unwrap(),
        first_vmi: id * 1000,
        vmi_count: 1000,
    })
}

/// What the controller decided about pod `default/NAME`, whose UID is its name.
pub(crate) fn binding(name: &str, addresses: &[&str], refusal: Option<&str>) -> Object {
    Object::PodBinding(PodBinding {
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        refusal: refusal.map(str::to_owned),
        ..PodBinding::new(pod(name), name, vrf())
    })
}

/// What the controller decided about pod `default/NAME`, whose UID is its name, in any network.
pub(crate) fn binding_in(vrf: u32, name: &str, addresses: &[&str]) -> Object {
    Object::PodBinding(PodBinding {
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        ..PodBinding::new(pod(name), name, VrfId::new(vrf).unwrap())
    })
}

pub(crate) fn pod(name: &str) -> PodName {
    PodName { namespace: "default".to_owned(), name: name.to_owned() }
}

/// A request for pod `default/NAME`, whose UID is its name, in this sandbox.
pub(crate) fn request(name: &str, container_id: &str) -> AttachRequest {
    AttachRequest {
        pod: pod(name),
        uid: name.to_owned(),
        interface: interface(container_id),
        netns: Path::new("/proc/self/ns/net").to_owned(),
        configuration: "pods".to_owned(),
    }
}

/// `eth0` of this sandbox.
pub(crate) fn interface(container_id: &str) -> ContainerInterface {
    ContainerInterface { container_id: container_id.to_owned(), name: "eth0".to_owned() }
}
