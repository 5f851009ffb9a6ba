//! What nodes report of their interfaces.

use std::collections::BTreeSet;

use vrouter_objects::VmiId;

use super::{Model, reference};
use crate::Problem;
use crate::allocate::LeaseChange;
use crate::family;
use crate::index::Attachment;
use crate::kube::Kind;
use crate::network::Tenancy;

impl Model {
    /// A node reports an interface that is up. One that cannot be right is a problem, and not believed.
    pub fn attach(&mut self, node: &str, attachment: Attachment) {
        let vmi = attachment.vmi;
        if let Err(message) = self.check_attachment(&attachment) {
            self.index.detach(node, vmi);
            let object = reference(Kind::Pod, &attachment.pod).to_string();
            let (source, field) = (format!("node {node}"), format!("attachment of vmi {vmi}"));
            self.refused.insert((node.to_owned(), vmi), Problem { source, object, field, message });
            return;
        }
        self.refused.remove(&(node.to_owned(), vmi));
        self.index.attach(node, attachment);
        match self.nodes.note_vmi(node, vmi) {
            LeaseChange::None => {}
            LeaseChange::FirstUse => self.nodes_changed = true,
            LeaseChange::Renewed => self.renewed(node),
        }
    }

    /// A node reports that an interface is gone.
    pub fn detach(&mut self, node: &str, vmi: VmiId) {
        self.refused.remove(&(node.to_owned(), vmi));
        self.index.detach(node, vmi);
    }

    /// A node reports everything that is attached: what else was known of it is gone.
    pub fn attached(&mut self, node: &str, attachments: Vec<Attachment>) {
        let present: BTreeSet<VmiId> = attachments.iter().map(|attachment| attachment.vmi).collect();
        let known: Vec<VmiId> =
            self.index.attachments.on_node(node).map(|attached| attached.attachment.vmi).collect();
        for vmi in known.into_iter().filter(|vmi| !present.contains(vmi)) {
            self.detach(node, vmi);
        }
        self.refused.retain(|(of, vmi), _| of != node || present.contains(vmi));
        for attachment in attachments {
            self.attach(node, attachment);
        }
    }

    /// A node has lost what it knew, and with it which interface ids it has used.
    pub fn forgot(&mut self, node: &str) {
        if self.nodes.renew_vmis(node) {
            self.renewed(node);
        }
    }

    /// Drops what was attached on nodes that are gone for good: without an object, without a stream, and for pods that
    /// are not to run there any more.
    pub fn drop_orphans(&mut self, is_connected: impl Fn(&str) -> bool) {
        let is_gone = |node: &str| !self.index.nodes.contains_key(node) && !is_connected(node);
        let gone = self.index.attachments.nodes().filter(|node| is_gone(node));
        let orphans: Vec<(String, VmiId)> = gone
            .flat_map(|node| self.index.attachments.on_node(node))
            .filter(|attached| !self.index.expects(attached))
            .map(|attached| (attached.node.clone(), attached.attachment.vmi))
            .collect();
        for (node, vmi) in orphans {
            self.detach(&node, vmi);
        }
        self.refused.retain(|(node, _), _| self.index.nodes.contains_key(node) || is_connected(node));
    }

    fn check_attachment(&self, attachment: &Attachment) -> Result<(), String> {
        // The node may not have heard of the newest prefixes yet.
        if let Some(address) = attachment.link_local.iter().find(|address| !family::is_routed(**address)) {
            return Err(format!("link_local: {address} cannot be an interface's"));
        }
        let networks = &self.index.networks;
        let refusal = || format!("vrf: there are no interfaces in VRF {}", attachment.vrf);
        let Some(network) = networks.get(attachment.vrf) else {
            // A network that is gone may still have interfaces.
            return if networks.is_known(attachment.vrf) { Ok(()) } else { Err(refusal()) };
        };
        // A custom network's subnets may have been others when the interface was made.
        if network.pods().ok_or_else(refusal)?.tenancy == Tenancy::Custom {
            return Ok(());
        }
        for &address in &attachment.addresses {
            network.check(address).map_err(|fault| format!("addresses: {address} {fault}"))?;
        }
        Ok(())
    }

    /// A node's leases changed.
    fn renewed(&mut self, node: &str) {
        self.nodes_changed = true;
        self.index.dirty.nodes.insert(node.to_owned());
    }
}
