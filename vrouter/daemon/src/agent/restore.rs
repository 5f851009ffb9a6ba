//! Going on after a restart: the tables last applied, and everything that was attached.

use vrouter_forward::Epoch;
use vrouter_proto::convert::key_of;
use vrouter_proto::{Digest, object_digest};

use super::{Agent, Identity, State};
use crate::addressing::Addressing;
use crate::attachment::Attachment;
use crate::control::{Base, Update, WireKey};
use crate::state::{LoadedAttachments, StateError, StateFiles, StoredTables};

/// What was found on disk.
pub struct Restored {
    /// The tables as they were, without attachments.
    pub state: State,
    /// What was attached when the node stopped.
    pub attachments: Vec<Attachment>,
}

impl Restored {
    /// Reads everything that was kept. Tables that are corrupt are left out, for the controller has them too; what only
    /// this node knows must be readable.
    ///
    /// Epochs go on from the last one that was drawn before.
    pub fn load(identity: &Identity, files: &StateFiles, last: Epoch) -> Result<Self, StateError> {
        let mut state = State::new(identity, last, Addressing::new(files.leases.load()?));
        match files.tables.load() {
            Ok(Some(tables)) => state.take_up(tables, &identity.node),
            Ok(None) => tracing::info!("no tables were kept; waiting for the controller"),
            Err(error) => tracing::warn!("starting without tables: {error}"),
        }
        let LoadedAttachments { boot_id, attachments } = files.attachments.load()?;
        if boot_id != identity.boot_id && !attachments.is_empty() {
            tracing::info!("the machine was booted since; {} attachments are gone", attachments.len());
            return Ok(Self { state, attachments: Vec::new() });
        }
        Ok(Self { state, attachments })
    }
}

impl State {
    fn take_up(&mut self, tables: StoredTables, node: &str) {
        let mut digest = Digest::default();
        tables.objects.iter().for_each(|object| digest.add(object_digest(object)));
        let named = tables.objects.into_iter().filter_map(|object| Some((key_of(&object)?, Some(object))));
        let changes = named.map(|(key, object)| (WireKey::new(&key), object)).collect();
        let (version, base) = (tables.version, Base::Nothing);
        match self.held.plan(Update { version, base, changes, unknown: 0, digest }) {
            Ok(plan) => {
                let count = plan.put.len();
                self.carry_out(plan, node);
                tracing::info!("going on with version {version} of the tables, {count} objects");
            }
            Err(drift) => tracing::warn!("starting without tables: {drift}"),
        }
    }
}

impl Agent {
    /// Attaches again what was attached, each to its device that outlived us. What has no namespace any more is gone.
    ///
    /// Every pod is in the tables in force, with the policies that govern it, before the first packet is taken from a
    /// device or a tunnel.
    pub(super) fn reattach(&self, attachments: Vec<Attachment>) {
        let mut state = self.state();
        let before = attachments.len();
        let (there, gone): (Vec<_>, Vec<_>) =
            attachments.into_iter().partition(|attachment| attachment.netns.is_there());
        for attachment in gone {
            tracing::info!("pod {} is gone: its network namespace is", attachment.pod);
        }
        there.into_iter().for_each(|attachment| state.keep(attachment));
        self.settle_link_local(&mut state);
        let there: Vec<_> = state.attached().cloned().collect();
        there.iter().for_each(|attachment| state.try_to_enter_tables(attachment));
        let handed_over = state.hand_over();
        state.tell_faults();
        let vtep = self.coming_tunnel_end(&mut state);
        if self.identity.host.is_some()
            && let Err(error) = self.read_addresses(&mut state)
        {
            tracing::error!("{error}");
        }
        let host = self.coming_host(&mut state);
        self.publish(&mut state);
        for attachment in &there {
            if let Err(error) = self.open_device(&mut state, attachment) {
                tracing::error!("pod {} has no network until it is attached anew: {error}", attachment.pod);
            }
        }
        if let Some(vtep) = vtep {
            self.open_tunnel_end(&mut state, vtep);
        }
        self.open_host(&mut state, host);
        if (there.len() != before || !handed_over.is_empty())
            && let Err(error) = self.store_attachments(&state)
        {
            tracing::error!("the attachments could not be kept: {error}");
        }
    }
}
