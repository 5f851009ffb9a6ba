//! Services as a node holds them, with everything that decides where their packets go there.

mod networks;
mod own_node;
mod scope;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use networks::ServiceNetworks;
pub use own_node::OwnNode;
pub use scope::Scopes;
pub(crate) use scope::is_external;

use std::collections::HashMap;

use vrouter_objects::{FloatingIp, MemberId, VirtualRouter, VrfId};
use vrouter_proto::convert::ConvertError;
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;
use crate::near::near_names;

/// What a node knows of services, and of the nodes that their members are on.
#[derive(Debug)]
pub(crate) struct ServiceView {
    /// In order of name.
    pub(crate) services: Vec<HeldService>,
    /// The node itself.
    pub(crate) node: OwnNode,
    /// All nodes.
    pub(crate) routers: Vec<VirtualRouter>,
}

impl ServiceView {
    /// Asks for it.
    pub(crate) async fn ask(client: &mut Client) -> Result<Self, CliError> {
        let services = client.services().await?.into_iter().map(HeldService::try_from);
        let mut services = services.collect::<Result<Vec<_>, _>>()?;
        services.sort_by(|one, other| one.order().cmp(&other.order()));
        let routers = client.virtual_routers().await?.into_iter().map(VirtualRouter::try_from);
        let routers = routers.collect::<Result<Vec<_>, _>>()?;
        let node = OwnNode::ask(client, &routers).await?;
        Ok(Self { services, node, routers })
    }

    /// The same with only this Service.
    pub(crate) fn only(mut self, name: &str) -> Result<Self, CliError> {
        self.services = select(self.services, name)?;
        Ok(self)
    }

    /// The same as the pods that reach services by this network see it.
    pub(crate) fn in_network(mut self, network: VrfId, networks: &ServiceNetworks) -> Self {
        self.services.retain(|held| held.floating_ip.vrf == network);
        self.node.pod_prefixes = networks.pod_prefixes(network);
        self
    }
}

/// A service of one family, as the node holds it.
#[derive(Debug, Clone)]
pub(crate) struct HeldService {
    /// What it is.
    pub(crate) floating_ip: FloatingIp,
    uses: HashMap<MemberId, MemberUse>,
}

/// What a member was given on this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MemberUse {
    /// New flows, so far.
    pub(crate) hits: u64,
    /// Connections that the flow table holds.
    pub(crate) flows: u32,
}

impl HeldService {
    /// By name, IPv4 first.
    fn order(&self) -> impl Ord {
        (&self.floating_ip.name, self.floating_ip.address)
    }

    /// What this member was given.
    pub(crate) fn use_of(&self, member: MemberId) -> MemberUse {
        self.uses.get(&member).copied().unwrap_or_default()
    }
}

impl TryFrom<v1::HeldService> for HeldService {
    type Error = ConvertError;

    fn try_from(message: v1::HeldService) -> Result<Self, ConvertError> {
        let uses = message.members.into_iter().filter_map(|of| {
            let member = MemberId::new(of.member).ok()?;
            Some((member, MemberUse { hits: of.hits, flows: of.flows }))
        });
        let uses = uses.collect();
        Ok(Self { floating_ip: message.floating_ip.unwrap_or_default().try_into()?, uses })
    }
}

/// Those of the services that are of this Service, one per family.
fn select(services: Vec<HeldService>, name: &str) -> Result<Vec<HeldService>, CliError> {
    let (of_name, others): (Vec<_>, Vec<_>) =
        services.into_iter().partition(|service| service.floating_ip.name == name);
    if of_name.is_empty() {
        let names = others.iter().map(|service| service.floating_ip.name.as_str());
        return Err(CliError::UnknownService { name: name.to_owned(), near: near_names(name, names) });
    }
    Ok(of_name)
}
