//! Attaching pods' interfaces and detaching them. Every step can be done again after a crash at any point: what is to be
//! is written down before it is made, and forgotten only after it is gone.

use std::collections::HashSet;
use std::path::PathBuf;

use vrouter_objects::{MacAddress, PodName, VmiId};
use vrouter_proto::v1;
use vrouter_proto::v1::node_message::Kind;

use super::{Agent, Assignment, AttachError, State};
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
}

impl Agent {
    /// The attachment that this request made before, if it did.
    pub fn attached(&self, request: &AttachRequest) -> Option<Attachment> {
        let attachment = self.state().attachment(&request.interface)?.clone();
        (attachment.pod == request.pod && attachment.netns == NetworkNamespace::at(&request.netns).ok()?)
            .then_some(attachment)
    }

    /// Makes the interface and attaches it. Asked again, it returns what is there. Blocks.
    ///
    /// A pod has one sandbox at a time, so an earlier one's attachment goes, and its addresses are free for this one.
    pub fn attach(
        &self,
        request: &AttachRequest,
        assignment: &Assignment,
    ) -> Result<Attachment, AttachError> {
        let netns = NetworkNamespace::at(&request.netns)
            .map_err(|error| AttachError::Request { field: "netns", problem: error.to_string() })?;
        let mut state = self.state();
        if let Some(attachment) = state.attachment(&request.interface)
            && attachment.pod == request.pod
            && attachment.netns == netns
        {
            return Ok(attachment.clone());
        }
        for old in state.superseded_by(request) {
            tracing::info!("pod {}: {} takes the place of {old}", request.pod, request.interface);
            self.detach_from(&mut state, &old)?;
        }
        let attachment = self.compose(&mut state, request, netns, assignment)?;
        state.attachments.insert(attachment.interface.clone(), attachment.clone());
        match self.bring_up(&mut state, &attachment) {
            Ok(()) => {
                tracing::info!(
                    "pod {}: interface {} attached with {:?}",
                    attachment.pod,
                    attachment.vmi,
                    attachment.addresses
                );
                let report = v1::AttachmentReport { attachment: Some((&attachment).into()) };
                state.report(Kind::Attachment(report));
                Ok(attachment)
            }
            Err(error) => {
                self.undo(&mut state, &attachment);
                Err(error)
            }
        }
    }

    /// Undoes an attachment; of an unknown one it is done already. Blocks.
    pub fn detach(&self, interface: &ContainerInterface) -> Result<(), AttachError> {
        self.detach_from(&mut self.state(), interface)
    }

    /// Detaches everything that the runtime no longer knows, and says how much that was. Blocks.
    pub fn collect_garbage(&self, valid: &HashSet<ContainerInterface>) -> Result<u32, AttachError> {
        let mut state = self.state();
        let garbage: Vec<_> = state.attachments.keys().filter(|key| !valid.contains(key)).cloned().collect();
        let mut removed = 0;
        for interface in garbage {
            self.detach_from(&mut state, &interface)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Whether an attachment is as it was made.
    pub fn check(&self, interface: &ContainerInterface) -> Result<Attachment, AttachError> {
        let state = self.state();
        let attachment =
            state.attachment(interface).ok_or_else(|| AttachError::NotAttached(interface.clone()))?;
        let damaged = |problem| AttachError::Damaged { interface: interface.clone(), problem };
        if !attachment.netns.is_there() {
            return Err(damaged("its network namespace is gone"));
        }
        if !state.is_in_tables(attachment.vmi) {
            return Err(damaged("its network is not known here"));
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
        let vrf = assignment.vrf;
        let network = state.network(vrf).ok_or(AttachError::UnknownNetwork(vrf))?.name.clone();
        // It may have been too early for its link when the controller said it.
        self.follow_vtep(state);
        let mtu = state.vtep().ok_or(AttachError::NoVtep)?.pod_mtu;
        let port = state.free_port().ok_or(AttachError::NoPort)?;
        let (vmi, addresses) = state.choose(assignment)?;
        if let Some(address) = addresses.iter().find(|address| state.gateway(vrf, **address).is_none()) {
            return Err(AttachError::NoGateway { network, address: *address });
        }
        self.files.leases.store(state.addressing.uses())?;
        Ok(Attachment {
            vmi,
            pod: request.pod.clone(),
            uid: request.uid.clone(),
            interface: request.interface.clone(),
            netns,
            vrf,
            mac: MacAddress::local(POD_MAC, vmi.get()),
            addresses,
            port,
            mtu,
        })
    }

    fn bring_up(&self, state: &mut State, attachment: &Attachment) -> Result<(), AttachError> {
        self.store_attachments(state)?;
        self.open_device(attachment)?;
        state
            .tables
            .attach(attachment.vmi(), attachment.port)
            .map_err(|error| AttachError::Table { interface: attachment.interface.clone(), error })?;
        self.publish(state);
        Ok(())
    }

    pub(super) fn open_device(&self, attachment: &Attachment) -> Result<(), AttachError> {
        self.plane
            .open_port(attachment.port, &device(attachment))
            .map_err(|error| AttachError::Plane { interface: attachment.interface.clone(), error })
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
        state.tables.detach(attachment.vmi);
        self.publish(state);
        self.plane
            .close_port(attachment.port, &device(&attachment))
            .map_err(|error| AttachError::Plane { interface: interface.clone(), error })?;
        state.attachments.remove(interface);
        if let Err(error) = self.store_attachments(state) {
            // Whoever asks again finds it still there.
            state.attachments.insert(interface.clone(), attachment);
            return Err(error.into());
        }
        tracing::info!("pod {}: interface {} detached", attachment.pod, attachment.vmi);
        state.report(Kind::Detached(v1::Detached { vmi: attachment.vmi.get() }));
        Ok(())
    }

    pub(super) fn store_attachments(&self, state: &State) -> Result<(), StateError> {
        self.files.attachments.store(&self.identity.boot_id, state.attached())
    }
}

impl State {
    /// Attachments that cannot be beside the one that is asked for.
    fn superseded_by(&self, request: &AttachRequest) -> Vec<ContainerInterface> {
        let in_the_way = self.attached().filter(|other| {
            let same_place = other.interface == request.interface;
            same_place || (other.pod == request.pod && other.interface.name == request.interface.name)
        });
        in_the_way.map(|other| other.interface.clone()).collect()
    }

    fn choose(&mut self, assignment: &Assignment) -> Result<(VmiId, Vec<std::net::IpAddr>), AttachError> {
        let vrf = assignment.vrf;
        if !assignment.addresses.is_empty() {
            let held =
                assignment.addresses.iter().find_map(|a| Some((*a, self.holder(vrf, *a)?.pod.clone())));
            if let Some((address, holder)) = held {
                return Err(AttachError::AddressInUse { address, holder });
            }
            return Ok((self.addressing.take_vmi(vrf)?, assignment.addresses.clone()));
        }
        let mut addressing = std::mem::take(&mut self.addressing);
        let grant = addressing.grant(vrf, |address| self.is_taken(vrf, address));
        self.addressing = addressing;
        let grant = grant?;
        Ok((grant.vmi, grant.addresses))
    }
}

/// The device that an attachment has inside its pod.
pub(super) fn device(attachment: &Attachment) -> Device {
    Device {
        netns: attachment.netns.clone(),
        name: attachment.interface.name.clone(),
        mac: attachment.mac,
        mtu: attachment.mtu,
    }
}
