//! The node whose view of services is shown.

use std::net::IpAddr;

use ipnet::IpNet;
use vrouter_objects::{Member, RouterId, Vantage, VirtualRouter};

use crate::client::{Client, Report};
use crate::error::CliError;

/// The node whose view of services is shown, as far as it decides anything there.
#[derive(Debug, Clone, Default)]
pub struct OwnNode {
    /// Its id; `None` while the controller does not know it.
    pub router: Option<RouterId>,
    /// Its zone, empty where it has none.
    pub zone: String,
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
    /// Node ports are served at node addresses in these prefixes; none: at all.
    pub node_port_addresses: Vec<IpNet>,
    /// Where the pods that services are shown for have their addresses from: one prefix per family counts, the first.
    pub pod_prefixes: Vec<IpNet>,
}

impl OwnNode {
    /// Puts together what the node says of itself and what it holds. Whose services are to be shown, it cannot know.
    pub(crate) async fn ask(client: &mut Client, routers: &[VirtualRouter]) -> Result<Self, CliError> {
        let report = match client.status().await? {
            Report::Node(report) => report,
            Report::Controller(_) => return Err(client.is_controllers()),
        };
        let own = routers.iter().find(|router| router.name == report.node);
        let node_port_addresses = report.node_port_addresses.iter().map(IpNet::try_from);
        Ok(Self {
            router: own.map(|own| own.id),
            zone: own.map(|own| own.zone.clone()).unwrap_or_default(),
            addresses: report.addresses.iter().map(IpAddr::try_from).collect::<Result<_, _>>()?,
            node_port_addresses: node_port_addresses.collect::<Result<_, _>>()?,
            pod_prefixes: Vec::new(),
        })
    }

    /// Whether this is the node that the member is on.
    pub fn has(&self, member: &Member) -> bool {
        self.vantage().has(member)
    }

    /// The place that it looks at members from.
    pub fn vantage(&self) -> Vantage<'_> {
        Vantage { router: self.router, zone: &self.zone }
    }

    /// Whether node ports are served at this address, if it is a node's.
    pub fn serves_node_ports_at(&self, address: IpAddr) -> bool {
        let prefixes = &self.node_port_addresses;
        !address.is_loopback()
            && (prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(&address)))
    }
}
