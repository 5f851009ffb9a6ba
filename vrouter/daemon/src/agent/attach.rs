//! Attaching pods' interfaces and detaching them. Every step can be done again after a crash at any point: what is to
//! be is written down before it is made, and forgotten only after it is gone.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use vrouter_objects::{MacAddress, PodName, RoutingInstance};
use vrouter_proto::v1;
use vrouter_proto::v1::node_message::Kind;

use super::{Agent, Assignment, AttachCall, AttachError, DeviceState, PlaceFault, State};
use crate::addressing::Grant;
use crate::attachment::{Attachment, ContainerInterface, NetworkNamespace};
use crate::plane::Device;
use crate::state::StateError;

/// Marks a pod interface's MAC address, before its id.
const POD_MAC: u8 = 0x50;

/// What the container runtime asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// The pod.
    pub pod: PodName,
    /// Its UID, empty where the runtime says none.
    pub uid: String,
    /// What the runtime calls the interface.
    pub interface: ContainerInterface,
    /// Where the pod's network namespace is bound.
    pub netns: PathBuf,
    /// The name of the CNI network configuration that asks.
    pub configuration: String,
}

impl Agent {
    /// A call to attach has come. A DEL of its interface that comes later calls it off, however far it has got.
    pub fn begin(&self, request: AttachRequest) -> Arc<AttachCall> {
        self.calls.begin(request)
    }

    /// The attachment that this request made before, if it did and its device is served. May block.
    pub fn attached(&self, request: &AttachRequest) -> Option<Attachment> {
        let state = self.state();
        let is_open = state.device(&request.interface) == Some(&DeviceState::Open);
        let netns = NetworkNamespace::at(&request.netns).ok()?;
        // One that is misplaced is to be made anew.
        state.made_by(request, &netns).filter(|made| is_open && !state.is_misplaced(made)).cloned()
    }

    /// Makes the interface and attaches it. Asked again, it returns what is there. Blocks.
    ///
    /// A pod has one sandbox at a time, so an earlier one's attachment goes, and its addresses are free for this one.
    pub fn attach(&self, call: &AttachCall, assignment: &Assignment) -> Result<Attachment, AttachError> {
        let request = &call.request;
        let netns = NetworkNamespace::at(&request.netns)
            .map_err(|error| AttachError::Request { field: "netns", problem: error.to_string() })?;
        let mut state = self.state();
        call.is_wanted()?;
        let assignment = state.confirm(request, assignment)?;
        let made = state.made_by(request, &netns).filter(|made| made.vrf == assignment.vrf);
        if let Some(attachment) = made.cloned() {
            if state.device(&attachment.interface) != Some(&DeviceState::Open) {
                self.bring_up(&mut state, &attachment)?;
            }
            return Ok(attachment);
        }
        for old in state.superseded_by(request) {
            tracing::info!("pod {}: {} takes the place of {old}", request.pod, request.interface);
            self.detach_from(&mut state, &old)?;
        }
        let attachment = self.compose(&mut state, request, netns, &assignment)?;
        state.keep(attachment.clone());
        let stored = self.store_attachments(&state).map_err(AttachError::from);
        let made = stored.and_then(|()| self.bring_up(&mut state, &attachment));
        match made.and_then(|()| call.is_wanted()) {
            Ok(()) => Ok(attachment),
            Err(error) => {
                self.undo(&mut state, &attachment);
                Err(error)
            }
        }
    }

    /// Undoes an attachment, and calls off what is under way; of an unknown one it is done already. Blocks.
    pub fn detach(&self, interface: &ContainerInterface) -> Result<(), AttachError> {
        self.calls.call_off(interface);
        self.detach_from(&mut self.state(), interface)
    }

    /// Detaches everything of one CNI network configuration that the runtime no longer knows, and says how much that
    /// was. One that cannot be detached is in nobody else's way. Blocks.
    pub fn collect_garbage(
        &self,
        configuration: &str,
        valid: &HashSet<ContainerInterface>,
    ) -> Result<u32, AttachError> {
        let mut state = self.state();
        let own = state.attached().filter(|attachment| attachment.configuration == configuration);
        let garbage = own.map(|attachment| &attachment.interface).filter(|own| !valid.contains(own));
        let garbage: Vec<_> = garbage.cloned().collect();
        let mut removed = 0;
        let mut failures = Vec::new();
        for interface in garbage {
            match self.detach_from(&mut state, &interface) {
                Ok(()) => removed += 1,
                Err(error) => failures.push(error),
            }
        }
        if failures.is_empty() { Ok(removed) } else { Err(AttachError::Garbage { removed, failures }) }
    }

    /// Whether an attachment is as it was made.
    pub fn check(&self, interface: &ContainerInterface) -> Result<Attachment, AttachError> {
        let state = self.state();
        let attachment =
            state.attachment(interface).ok_or_else(|| AttachError::NotAttached(interface.clone()))?;
        let damaged = |problem: &str| AttachError::Damaged {
            interface: interface.clone(),
            problem: problem.to_owned(),
        };
        if !attachment.netns.is_there() {
            return Err(damaged("its network namespace is gone"));
        }
        if let Some(DeviceState::Closed(reason)) = state.device(interface) {
            return Err(damaged(reason));
        }
        if !state.is_in_tables(attachment.vmi) {
            let is_unbound = state.is_unbound(attachment);
            let missing = if is_unbound { "which policies govern it is" } else { "its network is" };
            return Err(damaged(&format!("{missing} not known here")));
        }
        Ok(attachment.clone())
    }

    /// Chooses everything that the interface gets, and writes down what that uses up before it is used.
    fn compose(
        &self,
        state: &mut State,
        request: &AttachRequest,
        netns: NetworkNamespace,
        assignment: &Assignment,
    ) -> Result<Attachment, AttachError> {
        let (pod, vrf) = (&request.pod, assignment.vrf);
        let unknown = || AttachError::UnknownNetwork { pod: pod.clone(), vrf };
        let network = state.network(vrf).ok_or_else(unknown)?.clone();
        // It may have been too early for its link when the controller said it.
        self.follow_tunnel_end(state);
        let mtu = state.open_vtep()?.pod_mtu;
        let port = state.free_port().ok_or(AttachError::NoPort)?;
        let Grant { vmi, addresses } = state.choose(&network, &assignment.addresses).map_err(|fault| {
            AttachError::NoPlace { pod: pod.clone(), network: network.name.clone(), fault: Box::new(fault) }
        })?;
        self.files.leases.store(state.addressing.used())?;
        let attachment = Attachment {
            vmi,
            pod: pod.clone(),
            uid: request.uid.clone(),
            interface: request.interface.clone(),
            netns,
            configuration: request.configuration.clone(),
            vrf,
            address_space: network.address_space,
            assigned_by: assignment.by,
            mac: MacAddress::local(POD_MAC, vmi.get()),
            addresses,
            link_local: None,
            port,
            mtu,
        };
        let link_local = state.choose_link_local(&attachment);
        Ok(Attachment { link_local, ..attachment })
    }

    /// Puts an interface into the tables in force, opens its device and tells the controller.
    fn bring_up(&self, state: &mut State, attachment: &Attachment) -> Result<(), AttachError> {
        state.enter_tables(attachment)?;
        self.publish(state);
        self.open_device(state, attachment)?;
        let Attachment { pod, vmi, addresses, .. } = attachment;
        tracing::info!("pod {pod}: interface {vmi} attached with {addresses:?}");
        let report = v1::AttachmentReport { attachment: Some(attachment.into()) };
        state.report(Kind::Attachment(report));
        state.tell_faults();
        Ok(())
    }

    /// Gives an interface's device to the workers. One that cannot be opened is taken out of the tables.
    pub(super) fn open_device(&self, state: &mut State, attachment: &Attachment) -> Result<(), AttachError> {
        let interface = &attachment.interface;
        match self.plane.open_port(attachment.port, &device(attachment)) {
            Ok(()) => {
                state.set_device(interface, DeviceState::Open);
                Ok(())
            }
            Err(error) => {
                self.take_out(state, attachment, &error.to_string());
                Err(AttachError::Plane { interface: interface.clone(), error })
            }
        }
    }

    pub(super) fn close_device(&self, attachment: &Attachment) -> Result<(), AttachError> {
        self.plane
            .close_port(attachment.port, &device(attachment))
            .map_err(|error| AttachError::Plane { interface: attachment.interface.clone(), error })
    }

    /// Takes an interface out of the tables in force, for this reason, and tells the controller where it was told that
    /// it is there. The attachment stays.
    pub(super) fn take_out(&self, state: &mut State, attachment: &Attachment, reason: &str) {
        state.tables.detach(attachment.vmi);
        self.publish(state);
        let closed = DeviceState::Closed(reason.to_owned());
        if state.set_device(&attachment.interface, closed) == Some(DeviceState::Open) {
            state.report(Kind::Detached(v1::Detached { vmi: attachment.vmi.get() }));
        }
    }

    /// Leaves nothing behind of an attachment that could not be made. What cannot be undone now is undone by the
    /// runtime's DEL or at the next start.
    fn undo(&self, state: &mut State, attachment: &Attachment) {
        if let Err(error) = self.detach_from(state, &attachment.interface) {
            tracing::error!("{} is left half-made: {error}", attachment.interface);
        }
    }

    fn detach_from(&self, state: &mut State, interface: &ContainerInterface) -> Result<(), AttachError> {
        let Some(attachment) = state.attachment(interface).cloned() else { return Ok(()) };
        self.take_out(state, &attachment, "it is being detached");
        self.close_device(&attachment)?;
        state.attachments.remove(interface);
        if let Err(error) = self.store_attachments(state) {
            // Whoever asks again finds it still there.
            state.keep(attachment);
            return Err(error.into());
        }
        tracing::info!("pod {}: interface {} detached", attachment.pod, attachment.vmi);
        Ok(())
    }

    pub(super) fn store_attachments(&self, state: &State) -> Result<(), StateError> {
        self.files.attachments.store(&self.identity.boot_id, state.attached())
    }
}

impl State {
    /// The attachment that this very request made before, if it did.
    fn made_by(&self, request: &AttachRequest, netns: &NetworkNamespace) -> Option<&Attachment> {
        let attachment = self.attachment(&request.interface)?;
        (attachment.pod == request.pod && attachment.netns == *netns).then_some(attachment)
    }

    /// Attachments that cannot be beside the one that is asked for.
    fn superseded_by(&self, request: &AttachRequest) -> Vec<ContainerInterface> {
        let in_the_way = self.attached().filter(|other| {
            let same_place = other.interface == request.interface;
            same_place || (other.pod == request.pod && other.interface.name == request.interface.name)
        });
        in_the_way.map(|other| other.interface.clone()).collect()
    }

    /// The interface id and the addresses of a new interface: the wanted ones, or else some of the network's leases.
    fn choose(&mut self, network: &RoutingInstance, wanted: &[IpAddr]) -> Result<Grant, PlaceFault> {
        let space = network.address_space;
        let held = wanted.iter().find_map(|address| Some((*address, self.holder(space, *address)?)));
        if let Some((address, holder)) = held {
            return Err(PlaceFault::AddressInUse { address, holder: holder.pod.clone() });
        }
        let mut addressing = std::mem::take(&mut self.addressing);
        let granted = match wanted {
            [] => addressing.grant(space, |address| self.is_taken(network, address)),
            _ => addressing.take_vmi().map(|vmi| Grant { vmi, addresses: wanted.to_vec() }),
        };
        self.addressing = addressing;
        let grant = granted?;
        match grant.addresses.iter().find(|address| self.gateway(network.id, **address).is_none()) {
            Some(address) => Err(PlaceFault::NoGateway(*address)),
            None => Ok(grant),
        }
    }
}

/// The device that an attachment has inside its pod.
fn device(attachment: &Attachment) -> Device {
    Device {
        netns: attachment.netns.clone(),
        name: attachment.interface.name.clone(),
        mac: attachment.mac,
        mtu: attachment.mtu,
    }
}
