//! The vRouter's side: the forwarding core of one node, with the tables that the controller makes of the objects.

use anyhow::{Context, Result, bail, ensure};
use vrouter_forward::frame::{Egress, Frame, Ingress, PortId, Time};
use vrouter_forward::sim::Node;
use vrouter_forward::tables::HostNetwork;
use vrouter_objects::{MacAddress, Vmi, VmiId, VmiKind, VrfId};
use vrouter_tests::frame::{ETHERNET, GATEWAY_MAC};
use vrouter_tests::lab::Family;

use crate::control::{self, Interface, Tables};
use crate::packet::{Probe, Seen, SeenKind};
use crate::place::{Machine, NodePortAddresses, OTHERS, OWN, PODS, Place, SOURCE_PORTS, family_of};
use crate::verdict::Verdict;
use crate::world::World;

const FLOW_SLOTS: usize = 4096;
/// So much time between two packets that no sender is told too much at once.
const PACE_MILLIS: u64 = 1000;
/// Packets between two rounds of ageing.
const AGEING: u64 = 200;
const HOST_PORT: PortId = PortId(1000);
const POD_MTU: u16 = 1450;
const HOST_MTU: u16 = 1500;

/// A node of the vRouter.
#[derive(Debug)]
pub struct Router {
    node: Node,
    now: Time,
    sent: u64,
}

impl Router {
    /// The own node with these tables.
    pub fn new(tables: Tables, node_ports: NodePortAddresses) -> Result<Self> {
        let mut node = Node::new(&OWN.name(), FLOW_SLOTS);
        let refusals = node.put(tables.into_values());
        ensure!(refusals.is_empty(), "the node refuses {refusals:#?}");
        node.tables.set_host(host_network(control::fabric()?, node_ports));
        node.attach(vhost0(control::fabric()?), HOST_PORT);
        for number in 0..=PODS {
            node.attach(pod(number)?, port(number));
        }
        Ok(Self { node, now: Time::from_millis(1_000_000), sent: 0 })
    }

    fn ask_one(&mut self, probe: &Probe) -> Result<Verdict> {
        self.sent += 1;
        self.now = self.now.plus_millis(PACE_MILLIS);
        if self.sent.is_multiple_of(AGEING) {
            self.node.age(self.now);
        }
        let (port, mac) = match probe.client.pod() {
            Some(number) => (port(number), Interface::of(number)?.mac),
            None => (HOST_PORT, host_mac()),
        };
        let ethertype: [u8; 2] = if probe.source.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        let packet = probe.packet(u32::try_from(self.sent)?)?;
        let frame = [&GATEWAY_MAC, &mac.0, &ethertype[..], &packet].concat();
        let frames = self.node.process(self.now, [Frame::from_bytes(&frame, Ingress::Port(port))]);
        match &frames[..] {
            [] => Ok(Verdict::Silent),
            [frame] => verdict(probe, frame),
            several => bail!("{probe:?} became {} packets", several.len()),
        }
    }
}

impl World for Router {
    fn ask(&mut self, probes: &[Probe]) -> Result<Vec<Verdict>> {
        probes.iter().map(|probe| self.ask_one(probe)).collect()
    }
}

fn verdict(probe: &Probe, frame: &Frame) -> Result<Verdict> {
    let packet = frame.bytes().get(ETHERNET..).context("no whole frame")?;
    let seen = Seen::read(packet).with_context(|| format!("{probe:?} became {packet:02x?}"))?;
    let place = match frame.egress.context("no egress")? {
        Egress::Port(HOST_PORT) => {
            // The node's own stack takes it from there.
            let family = family_of(seen.to);
            let is_of = |machine: &Machine| machine.addresses(family).contains(&seen.to);
            match OTHERS.iter().find(|machine| is_of(machine)) {
                Some(machine) => Place::Node(machine.number),
                None if is_of(&OWN) => Place::Host,
                None => Place::Outside,
            }
        }
        Egress::Port(PortId(number)) => Place::Pod(u8::try_from(number)? - 1),
        Egress::Tunnel { destination, .. } => {
            let node = OTHERS.into_iter().find(|machine| machine.address(Family::V4) == destination);
            Place::Node(node.with_context(|| format!("a tunnel to {destination}"))?.number)
        }
    };
    if let SeenKind::Reset | SeenKind::Error(..) = seen.kind {
        ensure!(seen.to == probe.source.ip(), "{probe:?}: {seen:?} is for somebody else");
    }
    Ok(Verdict::of(probe, seen.kind, place))
}

fn host_network(vrf: VrfId, node_ports: NodePortAddresses) -> HostNetwork {
    let addresses = Family::BOTH.into_iter().flat_map(|family| Machine::addresses(OWN, family));
    HostNetwork {
        vrf,
        addresses: addresses.collect(),
        node_port_addresses: node_ports.prefixes(),
        source_ports: SOURCE_PORTS,
    }
}

fn vhost0(vrf: VrfId) -> Vmi {
    Vmi {
        id: VmiId::HOST,
        name: "vhost0".to_owned(),
        kind: VmiKind::Host,
        vrf,
        mac: host_mac(),
        addresses: Vec::new(),
        link_local: None,
        uid: String::new(),
        mtu: HOST_MTU,
    }
}

fn pod(number: u8) -> Result<Vmi> {
    let Interface { vmi, name, mac, addresses } = Interface::of(number)?;
    let (kind, vrf) = (VmiKind::Pod, control::pods()?);
    let name = format!("default/{name}");
    let uid = String::new();
    Ok(Vmi { id: vmi, name, uid, kind, vrf, mac, addresses, link_local: None, mtu: POD_MTU })
}

fn port(pod: u8) -> PortId {
    PortId(u16::from(pod) + 1)
}

fn host_mac() -> MacAddress {
    MacAddress::local(0x48, 1)
}
