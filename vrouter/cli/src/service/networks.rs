//! The networks that services' own addresses are in, and whose pods reach them there. Services of two networks may have the
//! same address.

use ipnet::IpNet;
use vrouter_objects::{NetworkKind, NextHop, Route, RouteKey, RoutingInstance, VrfId};
use vrouter_proto::v1;

use super::HeldService;
use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;

/// The networks, with the ways from one into another.
#[derive(Debug)]
pub(crate) struct ServiceNetworks {
    names: Names,
    networks: Vec<RoutingInstance>,
    /// From where, for which prefix, to where.
    ways: Vec<(RouteKey, VrfId)>,
}

impl ServiceNetworks {
    /// Asks for them.
    pub(crate) async fn ask(client: &mut Client) -> Result<Self, CliError> {
        Self::of(client.routing_instances().await?, client.routes().await?)
    }

    fn of(networks: Vec<v1::RoutingInstance>, routes: Vec<v1::Route>) -> Result<Self, CliError> {
        let names = Names::of(vec![], networks.clone(), vec![]);
        let networks = networks.into_iter().map(RoutingInstance::try_from).collect::<Result<_, _>>()?;
        let mut ways = Vec::new();
        for message in routes {
            let Route { key, next_hop } = message.try_into()?;
            if let NextHop::VrfTranslate(to) = next_hop {
                ways.push((key, to));
            }
        }
        Ok(Self { names, networks, ways })
    }

    /// The network whose services are meant: the one that was asked for, else the first that has any. `None`: none has.
    pub(crate) fn choose(
        &self,
        services: &[HeldService],
        wanted: Option<&str>,
    ) -> Result<Option<VrfId>, CliError> {
        let first = services.iter().map(|held| held.floating_ip.vrf).min();
        let Some(wanted) = wanted else { return Ok(first) };
        let number = self.names.find_network(wanted)?;
        let held = self.networks.iter().map(|network| network.id).find(|vrf| vrf.get() == number);
        held.map(Some).ok_or_else(|| CliError::Unknown { kind: "network", name: wanted.to_owned() })
    }

    /// What a network is called.
    pub(crate) fn name(&self, network: VrfId) -> String {
        self.names.network(network.get())
    }

    /// Where pods have their addresses from that reach services by this network.
    pub(super) fn pod_prefixes(&self, services: VrfId) -> Vec<IpNet> {
        let clients = self.networks.iter().filter(|network| {
            network.kind == NetworkKind::Overlay && self.ways.iter().any(|way| leads(way, network, services))
        });
        clients.flat_map(|network| network.subnets.iter().map(|subnet| subnet.prefix)).collect()
    }
}

/// Whether by this way a network's pods reach services. A network of services may pass on what is none of its own.
fn leads((key, to): &(RouteKey, VrfId), network: &RoutingInstance, services: VrfId) -> bool {
    let is_own = network.subnets.iter().any(|subnet| subnet.prefix.contains(&key.prefix));
    key.vrf == network.id && *to == services && !is_own
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{Subnet, Vni};

    use super::*;
    use crate::service::testing::service;

    fn vrf(number: u32) -> VrfId {
        VrfId::new(number).unwrap()
    }

    fn network(number: u32, name: &str, prefix: &str) -> v1::RoutingInstance {
        let prefix: IpNet = prefix.parse().unwrap();
        let gateway = prefix.hosts().next().unwrap();
        let subnets = vec![Subnet { prefix, gateway }];
        (&RoutingInstance::new(vrf(number), name, Vni::new(number).unwrap(), subnets)).into()
    }

    fn way(from: u32, prefix: &str, to: u32) -> v1::Route {
        let key = RouteKey { vrf: vrf(from), prefix: prefix.parse().unwrap() };
        (&Route { key, next_hop: NextHop::VrfTranslate(vrf(to)) }).into()
    }

    /// The default networks, an isolated namespace's and a custom one, each with its own network of services.
    fn networks() -> ServiceNetworks {
        const SERVICES: &str = "10.96.0.0/12";
        let fabric = v1::RoutingInstance {
            kind: v1::NetworkKind::Fabric.into(),
            ..network(3, "default/ip-fabric", "172.30.0.0/16")
        };
        let networks = vec![
            network(1, "default/default-podnetwork", "10.244.0.0/16"),
            network(2, "default/default-servicenetwork", SERVICES),
            fabric,
            network(4, "shop/default-podnetwork", "10.244.0.0/16"),
            network(5, "shop/default-servicenetwork", SERVICES),
            network(6, "blue/net", "192.168.0.0/24"),
            network(7, "blue/net-servicenetwork", SERVICES),
        ];
        let routes = vec![
            way(1, SERVICES, 2),
            way(3, SERVICES, 2),
            way(4, SERVICES, 5),
            way(4, "0.0.0.0/0", 3),
            way(5, SERVICES, 2),
            way(6, SERVICES, 7),
        ];
        ServiceNetworks::of(networks, routes).unwrap()
    }

    fn held(vrfs: &[u32]) -> Vec<HeldService> {
        let held = vrfs.iter().map(|number| {
            let service = service("default/web", "10.96.0.20", vec![]);
            let service = vrouter_objects::FloatingIp { vrf: vrf(*number), ..service };
            v1::HeldService { floating_ip: Some((&service).into()), members: vec![] }
        });
        held.map(|held| HeldService::try_from(held).unwrap()).collect()
    }

    #[test]
    fn pods_are_those_that_reach_services_by_this_network_first() {
        let networks = networks();
        let prefixes = |number| networks.pod_prefixes(vrf(number));
        let prefix = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(prefixes(2), [prefix("10.244.0.0/16")]);
        assert_eq!(prefixes(5), [prefix("10.244.0.0/16")]);
        assert_eq!(prefixes(7), [prefix("192.168.0.0/24")]);
        assert_eq!(prefixes(1), []);
    }

    #[test]
    fn the_first_network_is_meant_unless_another_is_asked_for() {
        let networks = networks();
        let chosen = |vrfs: &[u32], wanted| networks.choose(&held(vrfs), wanted).unwrap();
        assert_eq!(chosen(&[7, 2], None), Some(vrf(2)));
        assert_eq!(chosen(&[7, 2], Some("blue/net-servicenetwork")), Some(vrf(7)));
        assert_eq!(chosen(&[7, 2], Some("7")), Some(vrf(7)));
        assert_eq!(chosen(&[], None), None);
        let error = networks.choose(&[], Some("99")).unwrap_err().to_string();
        assert_eq!(error, "there is no network \"99\"");
    }
}
