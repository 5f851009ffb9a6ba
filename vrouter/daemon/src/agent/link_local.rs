//! The addresses by which the node's own stack reaches its interfaces, whatever networks these are in. They are of the
//! link-local network, and this node's alone: others give the same to their own interfaces. One that an interface has stays
//! its for as long as it fits that network.

use std::collections::HashSet;
use std::net::IpAddr;

use vrouter_objects::{LinkLocal, NetworkKind, RoutingInstance, Subnet, Version, VmiId};
use vrouter_proto::v1::AttachmentReport;
use vrouter_proto::v1::node_message::Kind;

use super::state::is_special;
use super::{Agent, DeviceState, Identity, State};
use crate::addressing::Hosts;
use crate::attachment::Attachment;

/// Who could use link-local addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkLocalUse {
    /// The node's own stack.
    Host,
    /// Nobody: that takes no part.
    Nobody,
}

impl LinkLocalUse {
    /// On this node.
    pub(super) fn by(identity: &Identity) -> Self {
        match identity.host {
            Some(_) => Self::Host,
            None => Self::Nobody,
        }
    }
}

impl Agent {
    /// Gives every attached interface the addresses that it is to have now, and tells the controller of those that got
    /// others. What is to be in force is on disk before.
    pub(super) fn settle_link_local(&self, state: &mut State) {
        let changed = state.settle_link_local();
        if changed.is_empty() {
            return;
        }
        if let Err(error) = self.store_attachments(state) {
            tracing::error!(
                "other link-local addresses of {} pods could not be kept: {error}",
                changed.len()
            );
        }
        for attachment in &changed {
            let Attachment { pod, vmi, interface, .. } = attachment;
            let addresses: Vec<_> = attachment.link_local_addresses().collect();
            tracing::info!("pod {pod}: interface {vmi} has the link-local addresses {addresses:?} now");
            // Of the others it is told when their devices are served.
            if state.device(interface) == Some(&DeviceState::Open) {
                state.report(Kind::Attachment(AttachmentReport { attachment: Some(attachment.into()) }));
            }
        }
    }
}

impl State {
    /// The addresses that an interface is to have: those it has, where they fit, or others.
    pub(super) fn choose_link_local(&self, attachment: &Attachment) -> Option<LinkLocal> {
        self.link_local_pool()?.give(attachment)
    }

    /// Gives every attached interface the addresses that it is to have, and says which have others than before.
    fn settle_link_local(&mut self) -> Vec<Attachment> {
        if self.held.version() == Version(0) {
            // Nobody has said yet that there are none.
            return Vec::new();
        }
        let mut pool = self.link_local_pool();
        let changed = self.attached().filter_map(|attachment| {
            let link_local = pool.as_mut().and_then(|pool| pool.give(attachment));
            let is_news = link_local != attachment.link_local;
            is_news.then(|| Attachment { link_local, ..attachment.clone() })
        });
        let changed: Vec<_> = changed.collect();
        changed.iter().for_each(|attachment| self.set_link_local(attachment));
        changed
    }

    /// What is to be said of interfaces that no address was left for.
    pub(super) fn link_local_faults(&self) -> impl Iterator<Item = String> {
        let network = self.link_local_network();
        self.attached().flat_map(move |attachment| {
            let subnets = network.into_iter().flat_map(|network| subnets(network, attachment));
            let lacking = subnets.filter(|subnet| kept(subnet, attachment).is_none());
            lacking.map(|subnet| {
                let (pod, prefix) = (&attachment.pod, subnet.prefix);
                format!("pod {pod} has no link-local address: all of {prefix} were in use")
            })
        })
    }

    fn link_local_network(&self) -> Option<&RoutingInstance> {
        match self.link_local_use {
            LinkLocalUse::Host => {
                self.networks.values().find(|network| network.kind == NetworkKind::LinkLocal)
            }
            LinkLocalUse::Nobody => None,
        }
    }

    fn link_local_pool(&self) -> Option<Pool<'_>> {
        let network = self.link_local_network()?;
        Some(Pool { network, attached: self.attached().collect(), taken: None })
    }
}

/// What addresses are given out of.
struct Pool<'a> {
    network: &'a RoutingInstance,
    attached: Vec<&'a Attachment>,
    /// What those have, and what was given out of this; `None`: nobody had to know yet.
    taken: Option<HashSet<IpAddr>>,
}

impl Pool<'_> {
    /// The addresses that an interface is to have; `None` where it is to have none.
    fn give(&mut self, attachment: &Attachment) -> Option<LinkLocal> {
        let addresses = subnets(self.network, attachment)
            .filter_map(|subnet| kept(subnet, attachment).or_else(|| self.take(subnet, attachment.vmi)));
        let addresses: Vec<_> = addresses.collect();
        (!addresses.is_empty()).then_some(LinkLocal { vrf: self.network.id, addresses })
    }

    fn take(&mut self, subnet: &Subnet, vmi: VmiId) -> Option<IpAddr> {
        let held = || self.attached.iter().flat_map(|other| other.link_local_addresses()).collect();
        let taken = self.taken.get_or_insert_with(held);
        let address = first_free(subnet, vmi, taken)?;
        taken.insert(address);
        Some(address)
    }
}

/// The subnets that an interface is to have an address of: one for each family that it has an address of.
fn subnets<'a>(
    network: &'a RoutingInstance,
    attachment: &'a Attachment,
) -> impl Iterator<Item = &'a Subnet> + use<'a> {
    attachment
        .addresses
        .iter()
        .filter_map(|own| network.subnets.iter().find(|subnet| subnet.gateway.is_ipv4() == own.is_ipv4()))
}

/// The address that an interface has of a subnet already.
fn kept(subnet: &Subnet, attachment: &Attachment) -> Option<IpAddr> {
    attachment
        .link_local_addresses()
        .find(|address| subnet.prefix.contains(address) && !is_special(subnet, *address))
}

/// The first free address of a subnet, from the interface's own number on. As that is never given again, neither is the
/// address soon.
fn first_free(subnet: &Subnet, vmi: VmiId, taken: &HashSet<IpAddr>) -> Option<IpAddr> {
    // Interfaces count from 1, and the first host is the gateway: none pushes the next one on.
    let own = u128::from(vmi.get());
    let hosts = Hosts::of(&subnet.prefix);
    hosts.round(own).find(|address| !is_special(subnet, *address) && !taken.contains(address))
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Vni, VrfId};

    use super::*;
    use crate::attachment::tests::attachment;
    use crate::testing::ip;

    #[test]
    fn the_search_begins_at_the_interfaces_own_number_and_goes_round() {
        let (v4, v6) = (("169.254.64.0/29", "169.254.64.1"), ("fd00::/125", "fd00::1"));
        for ((prefix, gateway), vmi, taken, expected) in [
            (v4, 5, &[][..], Some("169.254.64.6")),
            // 0 is the network, 1 the gateway, 7 the broadcast address.
            (v4, 5, &["169.254.64.6"], Some("169.254.64.2")),
            (v4, 1, &[], Some("169.254.64.2")),
            (v4, 6, &[], Some("169.254.64.2")),
            (v4, 7, &[], Some("169.254.64.2")),
            (v4, 9, &[], Some("169.254.64.4")),
            (v4, 5, &["169.254.64.6", "169.254.64.2", "169.254.64.3", "169.254.64.4"], Some("169.254.64.5")),
            (("169.254.64.0/29", "169.254.64.5"), 4, &[], Some("169.254.64.6")),
            (("169.254.64.0/29", "169.254.64.5"), 6, &[], Some("169.254.64.1")),
            (("169.254.64.0/30", "169.254.64.1"), 3, &[], Some("169.254.64.2")),
            (("169.254.64.0/30", "169.254.64.1"), 3, &["169.254.64.2"], None),
            (("169.254.64.0/31", "169.254.64.1"), 3, &[], None),
            (("169.254.64.0/32", "169.254.64.0"), 3, &[], None),
            (("169.254.64.0/18", "169.254.64.1"), 300, &[], Some("169.254.65.45")),
            (v6, 6, &[], Some("fd00::7")),
            (v6, 7, &[], Some("fd00::2")),
            (("fd00::/64", "fd00::1"), u32::MAX - 1, &[], Some("fd00::ffff:ffff")),
            (("fd00::/128", "fd00::"), 7, &[], None),
        ] {
            let subnet = Subnet { prefix: prefix.parse().unwrap(), gateway: ip(gateway) };
            let others = taken.iter().map(|address| ip(address)).collect();
            let chosen = first_free(&subnet, VmiId::new(vmi).unwrap(), &others);
            assert_eq!(chosen, expected.map(ip), "{vmi} of {prefix}, where others have {taken:?}");
        }
    }

    #[test]
    fn an_interface_has_an_address_of_each_family_that_it_speaks_and_keeps_what_fits() {
        let network = RoutingInstance::new(
            VrfId::new(6).unwrap(),
            "default/link-local",
            Vni::new(6).unwrap(),
            vec![
                Subnet { prefix: "169.254.64.0/18".parse().unwrap(), gateway: ip("169.254.64.1") },
                Subnet { prefix: "fd00:254::/112".parse().unwrap(), gateway: ip("fd00:254::1") },
            ],
        );
        let (v4, v6) = ("10.0.0.5", "fd00::5");
        for (own, before, expected) in [
            (&[v4][..], &[][..], &["169.254.64.6"][..]),
            (&[v6], &[], &["fd00:254::6"]),
            (&[v4, v6], &[], &["169.254.64.6", "fd00:254::6"]),
            (&[v4, v6], &["169.254.99.9"], &["169.254.99.9", "fd00:254::6"]),
            (&[v4], &["169.254.99.9", "fd00:254::7"], &["169.254.99.9"]),
            (&[v4], &["169.254.63.9"], &["169.254.64.6"]),
            (&[v4, v6], &["169.254.64.1", "fd00:254::1"], &["169.254.64.6", "fd00:254::6"]),
            (&[], &["169.254.64.6"], &[]),
        ] {
            let addresses = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<_>>();
            let link_local = |texts| Some(LinkLocal { vrf: network.id, addresses: addresses(texts) });
            let pod =
                Attachment { addresses: addresses(own), link_local: link_local(before), ..attachment(5) };
            let given = Pool { network: &network, attached: vec![], taken: None }.give(&pod);
            assert_eq!(
                given,
                link_local(expected).filter(|own| !own.addresses.is_empty()),
                "{own:?} {before:?}"
            );
        }
    }
}
