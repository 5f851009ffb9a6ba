//! The node's own network stack as a port of the fabric network: `vhost0`, and what the stack must know to use it. It is
//! there once the fabric network and this node itself are among the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use vrouter_forward::frame::PortId;
use vrouter_forward::tables::HostNetwork;
use vrouter_objects::{MacAddress, NetworkKind, RoutingInstance, Version, Vmi, VmiId, VmiKind};

use super::{Agent, State};
use crate::attachment::NetworkNamespace;
use crate::host_path::{DEVICE, Family, HostDevice, HostPath, MAX_MTU, PortRange, Steered, in_order};
use crate::plane::{Device, PlaneError};

/// Marks `vhost0`'s MAC address, before the node's id.
const HOST_MAC: u8 = 0x48;

/// How the node's own stack takes part.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// The nodes' addresses that node ports are served at; empty: all.
    pub node_port_addresses: Vec<IpNet>,
    /// The ports that packets sent in the node's name come from.
    pub source_ports: PortRange,
}

/// How far the node's own stack has got.
#[derive(Debug, Default)]
pub(super) struct OwnHost {
    /// The node's addresses, as the kernel last said.
    addresses: BTreeSet<IpAddr>,
    /// The port that `vhost0` has, once it was given one.
    port: Option<PortId>,
    /// The device that the workers serve.
    served: Option<Served>,
    /// What the stack was told last, where nothing of it has failed.
    in_force: Option<HostPath>,
    /// Why it is not, or not in everything, as it should be. It is tried again.
    problem: Option<String>,
    steered: Option<WorkedOut>,
    /// Families that are among the tables, and in which the node has no address.
    silent: BTreeSet<Family>,
}

/// The device as it was opened, and its index then.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    device: Device,
    index: u32,
}

/// What is steered, and what that depends on.
#[derive(Debug)]
struct WorkedOut {
    revision: u64,
    own: Vec<IpAddr>,
    nodes: BTreeSet<IpAddr>,
    steered: Arc<Steered>,
}

/// The node's own stack as it is to be; in the tables it is already.
#[derive(Debug)]
pub(super) struct ComingHost {
    port: PortId,
    path: HostPath,
}

impl Agent {
    /// Brings the node's own stack to what the tables say, also where somebody else undid it, or its addresses have
    /// changed.
    pub(super) fn tend_host(&self, state: &mut State) {
        if self.identity.host.is_none() {
            return;
        }
        if let Err(error) = self.read_addresses(state) {
            // Where the kernel does not even say that, it would take nothing either.
            return state.own_host.fail(error);
        }
        state.own_host.in_force = None;
        let before = state.host_in_tables();
        let host = self.coming_host(state);
        if state.host_in_tables() != before {
            self.publish(state);
        }
        self.open_host(state, host);
    }

    /// Asks the kernel for this node's addresses. Where it does not say, they are as they were.
    pub(super) fn read_addresses(&self, state: &mut State) -> Result<(), String> {
        let addresses = self.plane.own_addresses();
        state.own_host.addresses = addresses.map_err(|error| format!("this node's addresses: {error}"))?;
        Ok(())
    }

    /// The node's own stack as it is to be, and what the tables must hold of it is in them; `None` where it cannot take
    /// part.
    pub(super) fn coming_host(&self, state: &mut State) -> Option<ComingHost> {
        let settings = self.identity.host.as_ref()?;
        let Some(vmi) = state.host_vmi() else {
            state.tables.detach(VmiId::HOST);
            return None;
        };
        let known = state.own_router.iter().flat_map(|own| own.addresses.iter().copied());
        let addresses = in_order(&state.own_host.addresses, state.tunnel_address().into_iter().chain(known));
        let network = HostNetwork {
            vrf: vmi.vrf,
            addresses,
            node_port_addresses: settings.node_port_addresses.clone(),
            source_ports: settings.source_ports.range(),
        };
        let device = HostDevice { mac: vmi.mac, mtu: vmi.mtu };
        let path = HostPath { device, routes: state.host_routes(&network), steered: state.steered(&network) };
        if state.tables.host() != Some(&network) {
            state.tables.set_host(network);
        }
        let Some(port) = state.own_host.port.or_else(|| state.free_port()) else {
            state.own_host.fail("vhost0: all ports of this node are in use".to_owned());
            return None;
        };
        state.own_host.port = Some(port);
        if !state.tables.interfaces().any(|held| held == (&vmi, port))
            && let Err(error) = state.tables.attach(vmi, port)
        {
            state.own_host.fail(format!("vhost0: {error}"));
            return None;
        }
        Some(ComingHost { port, path })
    }

    /// Opens the device where that is not served, and tells the stack what it does not know. Without a host to come,
    /// nothing is left of it.
    pub(super) fn open_host(&self, state: &mut State, host: Option<ComingHost>) {
        let Some(ComingHost { port, path }) = host else { return self.close_host(state) };
        if let Err(error) = self.serve_device(state, port, path.device) {
            return state.own_host.fail(format!("vhost0: {error}"));
        }
        if state.own_host.in_force.as_ref() == Some(&path) {
            return;
        }
        state.own_host.in_force = None;
        match summary(&self.plane.set_host_path(&path)) {
            None => state.own_host.succeed(path),
            Some(summary) => state.own_host.fail(format!("the host path: {summary}")),
        }
    }

    fn serve_device(&self, state: &mut State, port: PortId, host: HostDevice) -> Result<(), PlaneError> {
        let device = own_device(host)?;
        let is_same = |served: &Served| {
            served.device == device && self.plane.device_index(DEVICE) == Some(served.index)
        };
        if state.own_host.served.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        state.own_host.served = None;
        self.plane.open_port(port, &device)?;
        tracing::info!("vhost0 is served");
        let index = self.plane.device_index(DEVICE);
        state.own_host.served = index.map(|index| Served { device, index });
        Ok(())
    }

    /// Takes away what there is of it, of this process or one before it.
    fn close_host(&self, state: &mut State) {
        if state.held.version() == Version(0) || state.wants_host() {
            // Nobody has said yet that it is to go: connections that it had may go on.
            return;
        }
        let mut problems = self.plane.remove_host_path();
        if let Some(port) = state.own_host.port {
            state.own_host.served = None;
            // It is known by its name; how it is does not matter.
            let device = own_device(HostDevice { mac: MacAddress::BROADCAST, mtu: MAX_MTU });
            problems.extend(device.and_then(|device| self.plane.close_port(port, &device)).err());
        }
        state.own_host.in_force = None;
        match summary(&problems) {
            None => (state.own_host.port, state.own_host.problem) = (None, None),
            Some(summary) => state.own_host.fail(format!("the host path: {summary}")),
        }
    }
}

/// `vhost0` as a device in the node's own namespace.
fn own_device(host: HostDevice) -> Result<Device, PlaneError> {
    let netns = NetworkNamespace::own().map_err(|error| PlaneError::new(&error))?;
    Ok(Device { netns, name: DEVICE.to_owned(), mac: host.mac, mtu: host.mtu })
}

impl OwnHost {
    fn succeed(&mut self, path: HostPath) {
        if self.problem.take().is_some() {
            tracing::info!("the host path is as it should be");
        }
        self.in_force = Some(path);
    }

    /// It is tried again and again; what is no news is not told again.
    fn fail(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::error!("{problem}");
        }
        self.problem = Some(problem);
    }

    /// The port of `vhost0`.
    pub(super) fn port(&self) -> Option<PortId> {
        self.port
    }

    /// Why it is not as it should be.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Its device has vanished.
    pub(super) fn unplugged(&mut self) {
        self.served = None;
    }
}

impl State {
    /// What the tables hold of the node's own stack.
    fn host_in_tables(&self) -> (Option<HostNetwork>, Option<Vmi>) {
        let vmi = self.tables.interfaces().find(|(vmi, _)| vmi.id == VmiId::HOST);
        (self.tables.host().cloned(), vmi.map(|(vmi, _)| vmi.clone()))
    }

    fn fabric(&self) -> Option<&RoutingInstance> {
        self.networks.values().find(|network| network.kind == NetworkKind::Fabric)
    }

    /// Whether the node's own stack is to take part, be it that it cannot yet.
    fn wants_host(&self) -> bool {
        self.fabric().is_some() && self.own_router.is_some()
    }

    /// `vhost0`, where everything is known that it needs.
    fn host_vmi(&self) -> Option<Vmi> {
        let mtu = self.own_end.underlay_mtu()?;
        Some(Vmi {
            id: VmiId::HOST,
            name: DEVICE.to_owned(),
            kind: VmiKind::Host,
            vrf: self.fabric()?.id,
            mac: MacAddress::local(HOST_MAC, self.own_router.as_ref()?.id.get()),
            addresses: Vec::new(),
            link_local: None,
            uid: String::new(),
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX).min(MAX_MTU),
        })
    }

    /// The prefixes of pods and services: what the fabric network looks up in others. To the node it is all one where in
    /// the router it leads to, so what lies within another prefix, as pods of isolated namespaces do, needs no route.
    fn host_routes(&mut self, network: &HostNetwork) -> BTreeMap<IpNet, IpAddr> {
        let own = self.leaks.iter().filter(|(key, to)| key.vrf == network.vrf && **to != network.vrf);
        let mut prefixes: Vec<IpNet> = Vec::new();
        // In their order, a prefix comes before those within it.
        for prefix in own.map(|(key, _)| key.prefix).filter(|prefix| prefix.prefix_len() > 0) {
            if !prefixes.last().is_some_and(|outer| outer.contains(&prefix)) {
                prefixes.push(prefix);
            }
        }
        let mut silent = BTreeSet::new();
        let mut routes = BTreeMap::new();
        for prefix in prefixes {
            let family = Family::of(prefix.addr());
            match network.addresses.iter().find(|address| Family::of(**address) == family) {
                Some(source) => drop(routes.insert(prefix, *source)),
                None => drop(silent.insert(family)),
            }
        }
        for family in silent.difference(&self.own_host.silent) {
            tracing::warn!(
                "this node has no {family} address, so it cannot speak {family} with pods and services"
            );
        }
        self.own_host.silent = silent;
        routes
    }

    /// What is to be steered. It is worked out anew only where something of it has changed.
    fn steered(&mut self, network: &HostNetwork) -> Arc<Steered> {
        let revision = self.frontends.revision();
        let own = network.addresses.clone();
        let nodes = self.routers.values().flat_map(|router| router.addresses.iter().copied()).collect();
        if let Some(known) = &self.own_host.steered
            && (known.revision, &known.own, &known.nodes) == (revision, &own, &nodes)
        {
            return Arc::clone(&known.steered);
        }
        let serves_node_ports = |own| network.serves_node_ports_at(own);
        let steered = Arc::new(self.frontends.steered(&own, serves_node_ports, &nodes));
        self.own_host.steered = Some(WorkedOut { revision, own, nodes, steered: Arc::clone(&steered) });
        steered
    }

    /// Whether the node's own stack reaches the router.
    pub fn is_host_served(&self) -> bool {
        self.own_host.served.is_some()
    }
}

/// The first of the problems, and how many more there are.
pub(super) fn summary(problems: &[PlaneError]) -> Option<String> {
    match problems {
        [] => None,
        [only] => Some(only.to_string()),
        [first, others @ ..] => Some(format!("{first}; and {} more", others.len())),
    }
}
