//! The nodes in memory, with the tables that the controller gives them.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};
use vrouter_control_model::Attachment;
use vrouter_forward::frame::{Frame, Ingress, PortId};
use vrouter_forward::sim::{Cluster, Delivery, HOST_PORT};
use vrouter_forward::tables::Change;
use vrouter_objects::{DropReason, MacAddress, Vmi, VmiId, VmiKind};

use crate::controller::{Controller, Tables, namespaced};
use crate::objects::objects;
use crate::world::{Name, Pod, World};

/// How many nodes there are in every world.
pub const NODES: usize = 3;

const FLOW_SLOTS: usize = 2048;
/// So much time between two packets.
const PACE_MILLIS: u64 = 100;
/// Packets between two rounds of ageing.
const AGEING: u64 = 100;

/// All nodes.
#[derive(Debug)]
pub struct Fleet {
    cluster: Cluster,
    /// Where Kubernetes objects become tables.
    pub controller: Controller,
    interfaces: BTreeMap<Name, Interface>,
    held: [Tables; NODES],
    given: u32,
    sent: u64,
}

/// A pod's interface.
#[derive(Debug, Clone, PartialEq)]
struct Interface {
    node: usize,
    port: PortId,
    vmi: VmiId,
    mac: MacAddress,
}

/// Where packets come from and arrive at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A pod.
    Pod(Name),
    /// The own stack of the node with this number: its processes, and whoever is beyond it.
    Host(usize),
}

/// What became of a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The frames that came out, and where.
    pub arrived: Vec<(Place, Vec<u8>)>,
    /// What was dropped, by which node.
    pub dropped: Vec<(usize, DropReason)>,
}

impl Fleet {
    /// Nodes that hold nothing yet.
    pub fn new() -> Result<Self> {
        let cluster = Cluster::with_slots(NODES, FLOW_SLOTS);
        // What a simulated cluster brings with it gives way to what the controller says.
        let held = |node: usize| -> Tables {
            let objects = cluster.nodes[node].tables.objects();
            objects.map(|object| (object.key(), object.clone())).collect()
        };
        let held = std::array::from_fn(held);
        let controller = Controller::new()?;
        Ok(Self { cluster, controller, interfaces: BTreeMap::new(), held, given: 0, sent: 0 })
    }

    /// Makes the nodes, and what the controller knows, as the world is.
    pub fn become_like(&mut self, world: &World) -> Result<()> {
        let mut owners = BTreeMap::new();
        for (name, address) in
            world.attached().flat_map(|(name, pod)| pod.addresses.iter().map(move |it| (name, it)))
        {
            let other = owners.insert(address, name);
            ensure!(other.is_none(), "{address} is {name}'s and {other:?}'s");
        }
        let gone: Vec<Name> =
            self.interfaces.keys().filter(|name| !self.is_right(world, name)).cloned().collect();
        gone.iter().for_each(|name| self.detach(name));
        self.controller.put(objects(world)?);
        self.push()?;
        let new: Vec<_> = world.attached().filter(|(name, _)| !self.interfaces.contains_key(name)).collect();
        for (name, pod) in &new {
            self.attach(name, pod)?;
        }
        if !new.is_empty() {
            self.push()?;
        }
        Ok(())
    }

    fn is_right(&self, world: &World, name: &Name) -> bool {
        let interface = &self.interfaces[name];
        let interfaces = self.cluster.nodes[interface.node - 1].tables.interfaces();
        let mut mine = interfaces.filter(|(vmi, _)| vmi.id == interface.vmi);
        let pod = world.pods.get(name).filter(|pod| pod.is_attached());
        let addresses = mine.next().map(|(vmi, _)| vmi.addresses.clone());
        pod.is_some_and(|pod| pod.node == interface.node && Some(&pod.addresses) == addresses.as_ref())
    }

    fn attach(&mut self, name: &Name, pod: &Pod) -> Result<()> {
        self.given += 1;
        let port = PortId(u16::try_from(self.given)?);
        let vmi = VmiId::new(self.given)?;
        let mac = MacAddress::local(0x50, self.given);
        let vrf = self.controller.network(pod.node, name)?;
        let interface = Vmi {
            id: vmi,
            name: name.to_string(),
            kind: VmiKind::Pod,
            vrf,
            mac,
            addresses: pod.addresses.clone(),
            link_local: None,
            uid: String::new(),
            mtu: 1450,
        };
        self.cluster.nodes[pod.node - 1].attach(interface, port);
        let attachment = Attachment {
            vmi,
            pod: namespaced(name),
            uid: String::new(),
            container_id: format!("container-{}", self.given),
            interface: "eth0".to_owned(),
            vrf,
            mac,
            addresses: pod.addresses.clone(),
            link_local: Vec::new(),
        };
        self.controller.attach(pod.node, attachment);
        self.interfaces.insert(name.clone(), Interface { node: pod.node, port, vmi, mac });
        Ok(())
    }

    fn detach(&mut self, name: &Name) {
        let Some(interface) = self.interfaces.remove(name) else { return };
        let node = &mut self.cluster.nodes[interface.node - 1];
        node.tables.detach(interface.vmi);
        node.publish();
        self.controller.detach(interface.node, interface.vmi);
    }

    /// Gives every node the difference between what it holds and what it is to hold, as one version.
    fn push(&mut self) -> Result<()> {
        for (index, held) in self.held.iter_mut().enumerate() {
            let wanted = self.controller.tables(index + 1);
            let gone = held.keys().filter(|key| !wanted.contains_key(key)).cloned().map(Change::Remove);
            let new = wanted.iter().filter(|(key, object)| held.get(key) != Some(object));
            let new = new.map(|(_, object)| Change::Put(object.clone()));
            let changes: Vec<Change> = gone.chain(new).collect();
            if changes.is_empty() {
                continue;
            }
            let node = &mut self.cluster.nodes[index];
            let refusals = node.tables.apply(changes);
            ensure!(refusals.is_empty(), "node {} refuses {refusals:#?}", index + 1);
            node.publish();
            *held = wanted;
        }
        Ok(())
    }

    /// Sends frames from a place, one after the other, and follows all that comes of them.
    pub fn send(&mut self, from: &Place, frames: &[Vec<u8>]) -> Result<Seen> {
        self.tick();
        let before = self.drops();
        let mut arrived = Vec::new();
        for frame in frames {
            let deliveries = match from {
                Place::Host(node) => self.cluster.send_from_host(node - 1, frame),
                Place::Pod(name) => {
                    let interface =
                        self.interfaces.get(name).with_context(|| format!("{name} has no interface"))?;
                    let mut bytes = frame.clone();
                    bytes[6..12].copy_from_slice(&interface.mac.0);
                    let frame = Frame::from_bytes(&bytes, Ingress::Port(interface.port));
                    self.cluster.follow(interface.node - 1, frame)
                }
            };
            for Delivery { node, port, frame, .. } in deliveries {
                arrived.push((self.place(node + 1, port)?, frame));
            }
        }
        Ok(Seen { arrived, dropped: difference(&before, &self.drops()) })
    }

    fn tick(&mut self) {
        self.sent += 1;
        self.cluster.wire.clear();
        self.cluster.now = self.cluster.now.plus_millis(PACE_MILLIS);
        if self.sent.is_multiple_of(AGEING) {
            let now = self.cluster.now;
            self.cluster.nodes.iter_mut().for_each(|node| node.age(now));
        }
    }

    fn place(&self, node: usize, port: PortId) -> Result<Place> {
        if port == HOST_PORT {
            return Ok(Place::Host(node));
        }
        let mut interfaces = self.interfaces.iter();
        let found = interfaces.find(|(_, interface)| interface.node == node && interface.port == port);
        let (name, _) = found.with_context(|| format!("nobody is at port {port:?} of node {node}"))?;
        Ok(Place::Pod(name.clone()))
    }

    fn drops(&self) -> Vec<Vec<u64>> {
        self.cluster.nodes.iter().map(|node| node.shared.totals().drops).collect()
    }

    /// What the nodes hold, for messages.
    pub fn tables_text(&self) -> String {
        let mut text = String::new();
        for (index, tables) in self.held.iter().enumerate() {
            text += &format!("  node {}:\n", index + 1);
            for object in tables.values() {
                text += &format!("    {object:?}\n");
            }
        }
        text
    }
}

fn difference(before: &[Vec<u64>], after: &[Vec<u64>]) -> Vec<(usize, DropReason)> {
    let mut drops = Vec::new();
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        for (reason, (before, after)) in DropReason::ALL.iter().zip(before.iter().zip(after)) {
            drops.extend((*before..*after).map(|_| (index + 1, *reason)));
        }
    }
    drops
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod {name}"),
            Self::Host(node) => write!(f, "node {node}"),
        }
    }
}
