//! Everything the agent knows, behind its one lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::mpsc;
use vrouter_forward::frame::{MAX_PORTS, PortId};
use vrouter_forward::tables::Tables;
use vrouter_forward::{Epoch, Snapshot};
use vrouter_objects::{
    PodBinding, PodName, RouteKey, RouterId, RoutingInstance, Subnet, VirtualRouter, VmiId, VrfId,
};
use vrouter_proto::v1;

use super::frontends::Frontends;
use super::health::HealthChecks;
use super::host::OwnHost;
use super::link_local::LinkLocalUse;
use super::tunnel_end::OwnEnd;
use super::{Held, Identity};
use crate::addressing::Addressing;
use crate::attachment::{AssignedBy, Attachment, ContainerInterface};

/// What the agent knows.
pub struct State {
    /// The forwarding tables.
    pub tables: Tables,
    /// What the controller sent, as the channel counts it.
    pub held: Held,
    /// The last epoch that was published.
    pub epoch: Epoch,
    /// What was published with it; `None`: nothing yet.
    pub snapshot: Option<Arc<Snapshot>>,
    pub(super) addressing: Addressing,
    pub(super) bindings: HashMap<PodName, PodBinding>,
    /// The networks among the tables, to be found without a search.
    pub(super) networks: BTreeMap<VrfId, RoutingInstance>,
    /// The nodes among the tables, likewise.
    pub(super) routers: BTreeMap<RouterId, VirtualRouter>,
    /// This node among the tables.
    pub(super) own_router: Option<VirtualRouter>,
    pub(super) attachments: BTreeMap<ContainerInterface, Kept>,
    /// What was said of attachments that are not as they should be.
    pub(super) told_faults: BTreeSet<String>,
    pub(super) own_end: OwnEnd,
    pub(super) own_host: OwnHost,
    pub(super) link_local_use: LinkLocalUse,
    /// The routes among the tables that lead from one network into another, likewise.
    pub(super) leaks: BTreeMap<RouteKey, VrfId>,
    pub(super) frontends: Frontends,
    pub(super) health_checks: HealthChecks,
    pub(super) reports: Option<mpsc::Sender<v1::NodeMessage>>,
}

/// An attachment, with how its device is.
pub(super) struct Kept {
    attachment: Attachment,
    device: DeviceState,
}

/// How an attachment's device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceState {
    /// The workers serve it.
    Open,
    /// They do not, for this reason, and the interface is not in the tables.
    Closed(String),
}

impl State {
    pub(super) fn new(identity: &Identity, last: Epoch, addressing: Addressing) -> Self {
        Self {
            tables: Tables::new(&identity.node, last),
            held: Held::default(),
            epoch: last,
            snapshot: None,
            addressing,
            bindings: HashMap::new(),
            networks: BTreeMap::new(),
            routers: BTreeMap::new(),
            own_router: None,
            attachments: BTreeMap::new(),
            told_faults: BTreeSet::new(),
            own_end: OwnEnd::default(),
            own_host: OwnHost::default(),
            link_local_use: LinkLocalUse::by(identity),
            leaks: BTreeMap::new(),
            frontends: Frontends::default(),
            health_checks: HealthChecks::default(),
            reports: None,
        }
    }

    /// Everything that is attached.
    pub fn attached(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.values().map(|kept| &kept.attachment)
    }

    /// Everything that is attached and whose device is served.
    pub fn working(&self) -> impl Iterator<Item = &Attachment> {
        let open = self.attachments.values().filter(|kept| kept.device == DeviceState::Open);
        open.map(|kept| &kept.attachment)
    }

    /// The attachment of this interface.
    pub fn attachment(&self, interface: &ContainerInterface) -> Option<&Attachment> {
        self.attachments.get(interface).map(|kept| &kept.attachment)
    }

    /// How the device of this interface's attachment is.
    pub fn device(&self, interface: &ContainerInterface) -> Option<&DeviceState> {
        self.attachments.get(interface).map(|kept| &kept.device)
    }

    /// Keeps an attachment whose device is still to be opened.
    pub(super) fn keep(&mut self, attachment: Attachment) {
        let device = DeviceState::Closed("its device was not opened yet".to_owned());
        self.attachments.insert(attachment.interface.clone(), Kept { attachment, device });
    }

    /// Gives to the controller what the node attached by itself, as soon as the controller has said which policies govern it:
    /// from then on it is not free without a word of the controller's. Says what that was.
    pub(super) fn hand_over(&mut self) -> Vec<PodName> {
        let own = self.attachments.values_mut().map(|kept| &mut kept.attachment).filter(|attachment| {
            attachment.assigned_by == AssignedBy::Node
                && self.bindings.get(&attachment.pod).is_some_and(|binding| binding.is_of(&attachment.uid))
        });
        own.map(|attachment| {
            attachment.assigned_by = AssignedBy::Controller;
            attachment.pod.clone()
        })
        .collect()
    }

    /// An attachment that is kept has these link-local addresses now.
    pub(super) fn set_link_local(&mut self, settled: &Attachment) {
        if let Some(kept) = self.attachments.get_mut(&settled.interface) {
            kept.attachment.link_local.clone_from(&settled.link_local);
        }
    }

    /// The device of an attachment that is kept has changed; returns how it was.
    pub(super) fn set_device(
        &mut self,
        interface: &ContainerInterface,
        device: DeviceState,
    ) -> Option<DeviceState> {
        self.attachments.get_mut(interface).map(|kept| std::mem::replace(&mut kept.device, device))
    }

    /// A network of this node.
    pub fn network(&self, vrf: VrfId) -> Option<&RoutingInstance> {
        self.networks.get(&vrf)
    }

    /// The gateway that an interface with this address has.
    pub fn gateway(&self, vrf: VrfId, address: IpAddr) -> Option<IpAddr> {
        let subnets = &self.network(vrf)?.subnets;
        let own = subnets.iter().find(|subnet| subnet.prefix.contains(&address));
        let same_family = || subnets.iter().find(|subnet| subnet.gateway.is_ipv4() == address.is_ipv4());
        own.or_else(same_family).map(|subnet| subnet.gateway)
    }

    /// Whether no new interface of this network may be given this address, out of a lease.
    pub(super) fn is_taken(&self, network: &RoutingInstance, address: IpAddr) -> bool {
        let space = network.address_space;
        self.holder(space, address).is_some()
            || network.subnets.iter().any(|subnet| is_special(subnet, address))
            || self.is_bound(space, address)
            || self.is_elsewhere(space, address)
    }

    /// The attachment that has this address of an address space.
    pub(super) fn holder(&self, space: VrfId, address: IpAddr) -> Option<&Attachment> {
        let is_its = |attachment: &&Attachment| {
            attachment.address_space == space && attachment.addresses.contains(&address)
        };
        self.attached().find(is_its)
    }

    /// Addresses that the controller set aside for one pod. Of what space those of an unknown network are, nobody knows.
    fn is_bound(&self, space: VrfId, address: IpAddr) -> bool {
        self.bindings.values().any(|binding| {
            binding.addresses.contains(&address)
                && self.network(binding.vrf).is_none_or(|network| network.address_space == space)
        })
    }

    /// A pod of another node may have an address of this node's block: a static one, or one it moved with. It has a route
    /// of its own in its network, or, where that is not held here, in those that know it.
    fn is_elsewhere(&self, space: VrfId, address: IpAddr) -> bool {
        let sharing = self.networks.values().filter(|network| network.address_space == space);
        let mut vrfs = sharing.flat_map(|network| std::iter::once(&network.id).chain(&network.known_in));
        vrfs.any(|vrf| self.tables.has_host_route(*vrf, address))
    }

    pub(super) fn free_port(&self) -> Option<PortId> {
        let pods = self.attached().map(|attachment| attachment.port);
        let mut taken: Vec<_> = pods.chain(self.own_host.port()).collect();
        taken.sort_unstable();
        let free =
            (0..MAX_PORTS as u16).map(PortId).zip(taken.iter().map(Some).chain(std::iter::repeat(None)));
        free.into_iter().find(|(port, taken)| Some(port) != *taken).map(|(port, _)| port)
    }

    /// Whether the forwarding tables hold this interface.
    pub fn is_in_tables(&self, vmi: VmiId) -> bool {
        self.tables.interfaces().any(|(held, _)| held.id == vmi)
    }

    /// What of this node is not as it should be, for people.
    pub fn problems(&self) -> Vec<String> {
        let own = self.own_end.problem().into_iter().chain(self.own_host.problem());
        own.map(str::to_owned).chain(self.health_checks.problems()).chain(self.faults()).collect()
    }

    /// Tells the controller, while a session is open. One that begins later says everything in its Hello.
    pub(super) fn report(&mut self, kind: v1::node_message::Kind) {
        let Some(reports) = &self.reports else { return };
        // Closed or full: that session is over.
        if reports.try_send(v1::NodeMessage { kind: Some(kind) }).is_err() {
            self.reports = None;
        }
    }
}

/// A subnet's gateway, and its first and last address.
pub(super) fn is_special(subnet: &Subnet, address: IpAddr) -> bool {
    let broadcast = address.is_ipv4() && address == subnet.prefix.broadcast();
    address == subnet.gateway || address == subnet.prefix.network() || broadcast
}
