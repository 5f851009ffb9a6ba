//! Whose addresses are whose, as far as this node knows.

use std::net::IpAddr;

use vrouter_objects::{
    FloatingIp, Listener, Member, NetworkKind, NextHop, PodName, RoutingInstance, VirtualRouter, VrfId,
};
use vrouter_proto::v1;

use crate::client::{Client, Report};
use crate::error::CliError;
use crate::names::Names;
use crate::near::near_names;

/// What this node knows of ends.
pub(super) struct Places {
    /// This node.
    pub(super) node: String,
    pub(super) names: Names,
    interfaces: Vec<Interface>,
    networks: Vec<RoutingInstance>,
    routers: Vec<VirtualRouter>,
    services: Vec<FloatingIp>,
}

/// A pod's interface on this node.
struct Interface {
    name: String,
    vrf: VrfId,
    addresses: Vec<IpAddr>,
    /// By which its node reaches it.
    link_local: Vec<IpAddr>,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// The pod's name, or the address.
    pub(super) name: String,
    pub(super) network: Network,
    pub(super) addresses: Vec<IpAddr>,
    /// Where the pod runs, as far as that is known.
    pub(super) node: Option<String>,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) name: String,
    /// `None`: this node holds nothing of it.
    pub(super) vrf: Option<VrfId>,
}

impl Places {
    /// Asks for it.
    pub(super) async fn ask(client: &mut Client) -> Result<Self, CliError> {
        let node = match client.status().await? {
            Report::Node(report) => report.node,
            Report::Controller(_) => return Err(client.is_controllers()),
        };
        let interfaces = client.interfaces().await?;
        let networks = client.routing_instances().await?;
        let routers = client.virtual_routers().await?;
        let services = client.floating_ips().await?;
        Self::of(node, interfaces, networks, routers, services)
    }

    /// Of these.
    pub(super) fn of(
        node: String,
        interfaces: Vec<v1::Interface>,
        networks: Vec<v1::RoutingInstance>,
        routers: Vec<v1::VirtualRouter>,
        services: Vec<v1::FloatingIp>,
    ) -> Result<Self, CliError> {
        let pods = interfaces.iter().filter(|interface| interface.kind() == v1::InterfaceKind::Pod);
        Ok(Self {
            node,
            interfaces: pods.map(Interface::read).collect::<Result<_, _>>()?,
            names: Names::of(interfaces, networks.clone(), routers.clone()),
            networks: networks.into_iter().map(RoutingInstance::try_from).collect::<Result<_, _>>()?,
            routers: routers.into_iter().map(VirtualRouter::try_from).collect::<Result<_, _>>()?,
            services: services.into_iter().map(FloatingIp::try_from).collect::<Result<_, _>>()?,
        })
    }

    /// A pod of this node.
    pub(super) fn pod(&self, name: &PodName) -> Option<End> {
        let name = name.to_string();
        let interface = self.interfaces.iter().find(|interface| interface.name == name)?;
        Some(self.end(interface))
    }

    /// A Service's floating IPs.
    pub(super) fn service(&self, name: &str) -> Result<Vec<FloatingIp>, CliError> {
        let found: Vec<_> = self.services.iter().filter(|service| service.name == name).cloned().collect();
        if found.is_empty() {
            let names = self.services.iter().map(|service| service.name.as_str());
            return Err(CliError::UnknownService { name: name.to_owned(), near: near_names(name, names) });
        }
        Ok(found)
    }

    /// A network, by name or number.
    pub(super) fn find(&self, text: &str) -> Result<VrfId, CliError> {
        let is_it = |network: &&RoutingInstance| network.name == text || network.id.to_string() == text;
        let found = self.networks.iter().find(is_it).map(|network| network.id);
        found.ok_or_else(|| CliError::Unknown { kind: "network", name: text.to_owned() })
    }

    /// A network by its name, held here or not.
    pub(super) fn network(&self, name: &str) -> Network {
        Network { name: name.to_owned(), vrf: self.find(name).ok() }
    }

    /// Whoever has an address in this network.
    pub(super) fn in_network(&self, address: IpAddr, vrf: VrfId) -> End {
        let has_it = |interface: &&Interface| interface.vrf == vrf && interface.addresses.contains(&address);
        match self.interfaces.iter().find(has_it) {
            Some(interface) => End { addresses: vec![address], ..self.end(interface) },
            None => End {
                name: address.to_string(),
                network: Network { name: self.names.network(vrf.get()), vrf: Some(vrf) },
                addresses: vec![address],
                node: None,
            },
        }
    }

    /// Whoever has an address: a pod here; or whoever has it in the network that it is to; or a pod that only this node reaches
    /// by it; or whoever has it in the network whose own address it is; or else somebody beyond the nodes.
    pub(super) fn whose(&self, address: IpAddr, peer: Option<VrfId>) -> Result<End, CliError> {
        let here: Vec<_> =
            self.interfaces.iter().filter(|interface| interface.addresses.contains(&address)).collect();
        match here.as_slice() {
            [interface] => return Ok(End { addresses: vec![address], ..self.end(interface) }),
            [] => {}
            several => {
                let owners = several.iter().map(|interface| format!("pod {}", interface.name)).collect();
                return Err(CliError::Ambiguous { address, owners });
            }
        }
        let is_in = |network: &&RoutingInstance| {
            network.subnets.iter().any(|subnet| subnet.prefix.contains(&address))
        };
        if let Some(vrf) = peer.filter(|vrf| self.held(*vrf).is_some_and(|network| is_in(&network))) {
            return Ok(self.in_network(address, vrf));
        }
        if let Some(end) = self.by_link_local(address) {
            return Ok(end);
        }
        let own = |network: &&RoutingInstance| network.id == network.address_space && is_in(network);
        let owners: Vec<_> = self.networks.iter().filter(own).collect();
        match owners.as_slice() {
            [network] => Ok(self.in_network(address, network.id)),
            [] => self.beyond(address),
            several => {
                let owners = several.iter().map(|network| format!("network {}", network.name)).collect();
                Err(CliError::Ambiguous { address, owners })
            }
        }
    }

    /// The pod that this node reaches by an address. It bears another itself.
    fn by_link_local(&self, address: IpAddr) -> Option<End> {
        let interface = self.interfaces.iter().find(|interface| interface.link_local.contains(&address))?;
        let mut end = self.end(interface);
        end.addresses.retain(|own| own.is_ipv4() == address.is_ipv4());
        Some(end)
    }

    /// Somebody beyond the nodes, or a node.
    fn beyond(&self, address: IpAddr) -> Result<End, CliError> {
        let fabric = self.networks.iter().find(|network| network.kind == NetworkKind::Fabric);
        let unknown = || CliError::Unknown { kind: "network with the address", name: address.to_string() };
        Ok(self.in_network(address, fabric.ok_or_else(unknown)?.id))
    }

    /// Whether what leaves by a network can be to a pod of another: its addresses are that one's, or it leaves by the nodes'
    /// own.
    pub(super) fn is_within(&self, egress: VrfId, network: Option<VrfId>) -> bool {
        let Some(leaves_by) = self.held(egress) else { return false };
        let space = network.and_then(|vrf| self.held(vrf)).map(|network| network.address_space);
        space.is_some_and(|space| leaves_by.kind == NetworkKind::Fabric || leaves_by.address_space == space)
    }

    /// The node that chooses a service's member for this source, where it is not this one.
    pub(super) fn chooser(&self, reply: &v1::TraceReply, source: IpAddr) -> Option<&VirtualRouter> {
        match next_hop(reply.way_back.as_ref())? {
            NextHop::Tunnel(id) if !self.is_node(source) => {
                self.routers.iter().find(|router| router.id == id)
            }
            _ => None,
        }
    }

    /// The service whose members a connection might get here.
    pub(super) fn frontend(&self, reply: &v1::TraceReply) -> Option<(&FloatingIp, &Listener)> {
        reply.leads.iter().find_map(|lead| {
            let (service, listener, _) = self.find_member(lead.member)?;
            Some((service, listener))
        })
    }

    /// A service's member.
    pub(super) fn member(&self, id: u32) -> Option<(&FloatingIp, &Member)> {
        self.find_member(id).map(|(service, _, member)| (service, member))
    }

    fn find_member(&self, id: u32) -> Option<(&FloatingIp, &Listener, &Member)> {
        self.services.iter().find_map(|service| {
            service.listeners.iter().find_map(|listener| {
                let member = listener.members.iter().find(|member| member.id.get() == id)?;
                Some((service, listener, member))
            })
        })
    }

    /// Whether the address is a node's own.
    pub(super) fn is_node(&self, address: IpAddr) -> bool {
        self.routers.iter().any(|router| router.addresses.contains(&address))
    }

    fn held(&self, vrf: VrfId) -> Option<&RoutingInstance> {
        self.networks.iter().find(|network| network.id == vrf)
    }

    fn end(&self, interface: &Interface) -> End {
        End {
            name: interface.name.clone(),
            network: Network { name: self.names.network(interface.vrf.get()), vrf: Some(interface.vrf) },
            addresses: interface.addresses.clone(),
            node: Some(self.node.clone()),
        }
    }
}

impl Interface {
    fn read(message: &v1::Interface) -> Result<Self, CliError> {
        let vrf = VrfId::new(message.vrf).map_err(vrouter_proto::convert::ConvertError::from)?;
        let addresses = message.addresses.iter().map(IpAddr::try_from).collect::<Result<_, _>>()?;
        let link_local = message.link_local.iter().map(IpAddr::try_from).collect::<Result<_, _>>()?;
        Ok(Self { name: message.name.clone(), vrf, addresses, link_local })
    }
}

/// A next hop that makes sense.
pub(super) fn next_hop(message: Option<&v1::NextHop>) -> Option<NextHop> {
    message.cloned().and_then(|message| NextHop::try_from(message).ok())
}
