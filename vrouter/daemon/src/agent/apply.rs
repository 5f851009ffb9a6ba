//! Applying an update from the controller.

use std::collections::{BTreeMap, HashMap};

use vrouter_forward::flow::Boundary;
use vrouter_forward::tables::Change;
use vrouter_objects::{NextHop, Object, ObjectKey, Version};
use vrouter_proto::{Digest, v1};

use super::{Agent, AttachError, Drift, Plan, State};
use crate::attachment::Attachment;
use crate::control::{Update, WireKey};

/// What became of an update.
#[derive(Debug)]
pub struct Applied {
    /// The version that is in force.
    pub version: Version,
    /// Over what is held, refused objects left out.
    pub digest: Digest,
    /// What is refused, and why.
    pub refusals: Vec<v1::Refusal>,
    /// When every worker has passed this, all forward by it.
    pub boundary: Boundary,
}

impl Agent {
    /// Applies an update as a whole and publishes it. Nothing has changed where it does not lead to its digest.
    ///
    /// Blocks for as long as an attachment is being made.
    pub fn apply(&self, update: Update) -> Result<Applied, Drift> {
        let unknown = update.unknown;
        let mut state = self.state();
        let plan = state.held.plan(update)?;
        if unknown > 0 {
            tracing::warn!("{unknown} objects are of no kind known here; a newer controller?");
        }
        if !plan.meets_digest {
            tracing::error!(
                "version {} is complete, but has another digest than the controller says",
                plan.version
            );
        }
        let changes = plan.changes();
        state.carry_out(plan, &self.identity.node);
        self.note_on_disk(&state, &changes);
        self.hand_over(&mut state);
        self.settle_link_local(&mut state);
        state.attach_pending();
        state.tell_faults();
        let vtep = self.coming_tunnel_end(&mut state);
        let host = self.coming_host(&mut state);
        self.publish(&mut state);
        if let Some(vtep) = vtep {
            self.open_tunnel_end(&mut state, vtep);
        }
        self.open_host(&mut state, host);
        let applied = Applied {
            version: state.held.version(),
            digest: state.held.digest(),
            refusals: state.held.refusals(),
            boundary: self.shared.boundary(),
        };
        drop(state);
        self.changed.send_replace(applied.version);
        self.unsaved.notify_one();
        Ok(applied)
    }
}

impl Agent {
    /// Before it is in force: a policy that was acknowledged outlives the process.
    fn note_on_disk(&self, state: &State, changes: &v1::Changes) {
        let (version, digest) = (state.held.version(), state.held.offered());
        if let Err(error) = self.files.tables.append(version, digest, changes) {
            tracing::error!("version {version} is not kept before it is in force: {error}");
        }
    }

    /// Likewise with the pods that the node attached by itself.
    fn hand_over(&self, state: &mut State) {
        if !state.hand_over().is_empty()
            && let Err(error) = self.store_attachments(state)
        {
            tracing::error!("that the controller has spoken of pods could not be kept: {error}");
        }
    }
}

impl State {
    /// Carries out a plan in every table of this node.
    pub(super) fn carry_out(&mut self, plan: Plan, node: &str) {
        let mut refusals = BTreeMap::new();
        let removed = plan.remove.iter().filter_map(|key| ObjectKey::try_from(key.message()).ok());
        let mut changes: Vec<_> = removed.map(Change::Remove).collect();
        for put in &plan.put {
            match Object::try_from(put.object.clone()) {
                Ok(object) => changes.push(Change::Put(object)),
                Err(error) => {
                    refusals.insert(put.key.clone(), error.to_string());
                    // What it was to replace is held no longer.
                    changes.extend(ObjectKey::try_from(put.key.message()).ok().map(Change::Remove));
                }
            }
        }
        changes.iter().for_each(|change| self.note(change, node));
        for refusal in self.tables.apply(changes) {
            refusals.insert(WireKey::new(&(&refusal.key).into()), refusal.reason.to_string());
            self.note(&Change::Remove(refusal.key), node);
        }
        for (key, reason) in &refusals {
            let name = ObjectKey::try_from(key.message()).map(|key| key.to_string()).unwrap_or_default();
            tracing::warn!("refused {name}: {reason}");
        }
        self.held.carry_out(plan, refusals);
    }

    /// Keeps what is the agent's own business: leases and pods, networks, this node itself, and what its own stack must
    /// know of services.
    fn note(&mut self, change: &Change, node: &str) {
        match change {
            Change::Put(Object::VirtualRouter(router)) => {
                if router.name == node {
                    self.own_router = Some(router.clone());
                }
                self.routers.insert(router.id, router.clone());
            }
            Change::Put(Object::RoutingInstance(network)) => {
                self.networks.insert(network.id, network.clone());
            }
            Change::Put(Object::Route(route)) => {
                match route.next_hop {
                    NextHop::VrfTranslate(to) => self.leaks.insert(route.key, to),
                    _ => self.leaks.remove(&route.key),
                };
            }
            Change::Put(Object::FloatingIp(fip)) => {
                self.frontends.put(fip);
                self.health_checks.put(fip);
            }
            Change::Put(Object::AddressLease(lease)) => self.addressing.put(lease.clone()),
            Change::Put(Object::PodBinding(binding)) => {
                self.bindings.insert(binding.pod.clone(), binding.clone());
            }
            // These are the tables' alone.
            Change::Put(Object::Policy(_) | Object::PeerSet(_) | Object::PeerAddress(_))
            | Change::Remove(ObjectKey::Policy(_) | ObjectKey::PeerSet(_) | ObjectKey::PeerAddress(_)) => {}
            Change::Remove(ObjectKey::VirtualRouter(router)) => {
                self.own_router.take_if(|own| own.id == *router);
                self.routers.remove(router);
            }
            Change::Remove(ObjectKey::RoutingInstance(vrf)) => {
                self.networks.remove(vrf);
            }
            Change::Remove(ObjectKey::AddressLease(lease)) => self.addressing.remove(*lease),
            Change::Remove(ObjectKey::PodBinding(pod)) => {
                self.bindings.remove(pod);
            }
            Change::Remove(ObjectKey::Route(key)) => {
                self.leaks.remove(key);
            }
            Change::Remove(ObjectKey::FloatingIp(fip)) => {
                self.frontends.remove(*fip);
                self.health_checks.remove(*fip);
            }
        }
    }

    /// Interfaces whose network or binding was not known when they were attached again may find it now; others have
    /// other link-local addresses since.
    fn attach_pending(&mut self) {
        let held: HashMap<_, _> =
            self.tables.interfaces().map(|(vmi, _)| (vmi.id, &vmi.link_local)).collect();
        let is_as_held = |attachment: &&Attachment| {
            held.get(&attachment.vmi).is_some_and(|link_local| **link_local == attachment.link_local)
        };
        let pending = self.working().filter(|attachment| !is_as_held(attachment));
        let pending: Vec<_> = pending.cloned().collect();
        pending.iter().for_each(|attachment| self.try_to_enter_tables(attachment));
    }

    /// Puts an interface into the tables, with what governs it: without its binding, it would be free of all policies. One that
    /// is in them already keeps what governed it.
    pub(super) fn enter_tables(&mut self, attachment: &Attachment) -> Result<(), AttachError> {
        if self.is_unbound(attachment) && !self.is_in_tables(attachment.vmi) {
            return Err(AttachError::Unassigned { pod: attachment.pod.clone() });
        }
        let failed = |error| AttachError::Table { interface: attachment.interface.clone(), error };
        self.tables.attach(attachment.vmi(), attachment.port).map_err(failed)
    }

    /// The same, where it may come to that later.
    pub(super) fn try_to_enter_tables(&mut self, attachment: &Attachment) {
        if let Err(error) = self.enter_tables(attachment) {
            tracing::warn!("pod {} has no network: {error}", attachment.pod);
        }
    }
}
