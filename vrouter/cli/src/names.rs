//! Names beside numbers: whose interface, which network, what node.

use std::collections::HashMap;
use std::net::IpAddr;

use vrouter_objects::{NextHop, RouterId, VmiId};
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;

/// What the node's numbers are called.
#[derive(Debug, Default)]
pub struct Names {
    interfaces: HashMap<u32, String>,
    networks: HashMap<u32, String>,
    routers: HashMap<u32, (String, String)>,
    services: HashMap<u32, String>,
    members: HashMap<u32, String>,
}

impl Names {
    /// Asks for networks, and whatever else a next hop leads to.
    pub async fn of_next_hops(client: &mut Client) -> Result<Self, CliError> {
        let interfaces = client.interfaces().await?;
        let networks = client.routing_instances().await?;
        let routers = client.virtual_routers().await?;
        Ok(Self::of(interfaces, networks, routers))
    }

    /// Asks for networks and nodes.
    pub async fn of_places(client: &mut Client) -> Result<Self, CliError> {
        let networks = client.routing_instances().await?;
        let routers = client.virtual_routers().await?;
        Ok(Self::of(vec![], networks, routers))
    }

    /// Asks for whatever a next hop leads to, and for services and their members.
    pub async fn of_everything(client: &mut Client) -> Result<Self, CliError> {
        let floating_ips = client.floating_ips().await?;
        let mut names = Self::of_next_hops(client).await?;
        names.add_services(floating_ips);
        Ok(names)
    }

    /// Of these.
    pub fn of(
        interfaces: Vec<v1::Interface>,
        networks: Vec<v1::RoutingInstance>,
        routers: Vec<v1::VirtualRouter>,
    ) -> Self {
        let mut names = Self::default();
        names.interfaces.extend(interfaces.into_iter().map(|interface| (interface.vmi, interface.name)));
        names.networks.extend(networks.into_iter().map(|network| (network.id, network.name)));
        for router in routers {
            let address = address(router.address.as_ref());
            names.routers.insert(router.id, (router.name, address));
        }
        names
    }

    fn add_services(&mut self, floating_ips: Vec<v1::FloatingIp>) {
        for floating_ip in floating_ips {
            let members = floating_ip.listeners.into_iter().flat_map(|listener| listener.members);
            self.members.extend(members.map(|member| (member.id, member.name)));
            self.services.insert(floating_ip.id, floating_ip.name);
        }
    }

    /// A network.
    pub fn network(&self, vrf: u32) -> String {
        named(&self.networks, vrf)
    }

    /// An interface; nothing for none.
    pub fn interface(&self, vmi: u32) -> String {
        if vmi == 0 { String::new() } else { named(&self.interfaces, vmi) }
    }

    /// A node; nothing for none.
    pub fn router(&self, router: Option<RouterId>) -> String {
        let Some(router) = router else { return String::new() };
        self.routers.get(&router.get()).map_or_else(|| format!("#{router}"), |(name, _)| name.clone())
    }

    /// A service, by its floating IP; nothing for none.
    pub fn service(&self, floating_ip: u32) -> String {
        if floating_ip == 0 { String::new() } else { named(&self.services, floating_ip) }
    }

    /// A member; nothing for none.
    pub fn member(&self, member: u32) -> String {
        if member == 0 { String::new() } else { named(&self.members, member) }
    }

    /// The network with this name or number.
    pub fn find_network(&self, text: &str) -> Result<u32, CliError> {
        find("network", &self.networks, text)
    }

    /// The interface with this name or number.
    pub fn find_interface(&self, text: &str) -> Result<u32, CliError> {
        find("interface", &self.interfaces, text)
    }

    /// A next hop, with whatever it leads to.
    pub fn next_hop(&self, message: Option<&v1::NextHop>) -> String {
        match message.cloned().map(NextHop::try_from) {
            Some(Ok(next_hop)) => self.describe(&next_hop),
            Some(Err(error)) => error.to_string(),
            None => "-".to_owned(),
        }
    }

    fn describe(&self, next_hop: &NextHop) -> String {
        match next_hop {
            NextHop::Interface(VmiId::HOST) => "interface vhost0".to_owned(),
            NextHop::Interface(vmi) => format!("interface {vmi} ({})", self.interface(vmi.get())),
            NextHop::Tunnel(router) => match self.routers.get(&router.get()) {
                Some((name, address)) => format!("tunnel {address} ({name})"),
                None => format!("tunnel to unknown node {router}"),
            },
            NextHop::VrfTranslate(vrf) => format!("vrf-translate {vrf} ({})", self.network(vrf.get())),
            NextHop::Composite(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.describe(part)).collect();
                format!("ecmp [{}]", parts.join(", "))
            }
            NextHop::Receive | NextHop::Reject | NextHop::Discard => next_hop.to_string(),
        }
    }
}

fn named(names: &HashMap<u32, String>, number: u32) -> String {
    names.get(&number).cloned().unwrap_or_else(|| format!("#{number}"))
}

fn find(kind: &'static str, names: &HashMap<u32, String>, text: &str) -> Result<u32, CliError> {
    let found = names.iter().find(|(number, name)| *name == text || number.to_string() == text);
    // What is gone from the tables may still be in flows, by its number.
    let number = || text.parse().ok().filter(|number| *number != 0);
    let found = found.map(|(number, _)| *number).or_else(number);
    found.ok_or_else(|| CliError::Unknown { kind, name: text.to_owned() })
}

/// An address as text; `-` for none.
pub fn address(message: Option<&v1::Address>) -> String {
    match message.map(IpAddr::try_from) {
        Some(Ok(address)) => address.to_string(),
        Some(Err(error)) => error.to_string(),
        None => "-".to_owned(),
    }
}

/// An address and port as text.
pub fn endpoint(message: Option<&v1::Address>, port: u32) -> String {
    match message.map(IpAddr::try_from) {
        Some(Ok(IpAddr::V6(address))) => format!("[{address}]:{port}"),
        _ => format!("{}:{port}", address(message)),
    }
}

/// A MAC address as text.
pub fn mac(bytes: &[u8]) -> String {
    vrouter_proto::convert::mac_from_bytes(bytes)
        .map_or_else(|error| error.to_string(), |mac| mac.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let network =
            v1::RoutingInstance { id: 2, name: "default/services".to_owned(), ..Default::default() };
        let interface = v1::Interface { vmi: 5, name: "default/web".to_owned(), ..Default::default() };
        let router = v1::VirtualRouter {
            id: 3,
            name: "n2".to_owned(),
            address: Some(v1::Address { octets: vec![172, 30, 0, 2] }),
            ..Default::default()
        };
        Names::of(vec![interface], vec![network], vec![router])
    }

    #[test]
    fn next_hops_say_what_they_lead_to() {
        use v1::next_hop::Kind;
        let names = names();
        let parts = [Kind::Tunnel(3), Kind::Tunnel(4)].map(|kind| v1::NextHop { kind: Some(kind) });
        for (kind, expected) in [
            (Kind::Interface(5), "interface 5 (default/web)"),
            (Kind::Interface(6), "interface 6 (#6)"),
            (Kind::Interface(u32::MAX), "interface vhost0"),
            (Kind::Tunnel(3), "tunnel 172.30.0.2 (n2)"),
            (Kind::VrfTranslate(2), "vrf-translate 2 (default/services)"),
            (Kind::Reject(v1::Empty {}), "reject"),
            (
                Kind::Composite(v1::Composite { parts: parts.to_vec() }),
                "ecmp [tunnel 172.30.0.2 (n2), tunnel to unknown node 4]",
            ),
        ] {
            assert_eq!(names.next_hop(Some(&v1::NextHop { kind: Some(kind) })), expected);
        }
    }

    #[test]
    fn things_are_found_by_name_or_number() {
        let names = names();
        assert_eq!(names.find_network("default/services").unwrap(), 2);
        assert_eq!(names.find_interface("5").unwrap(), 5);
        assert_eq!(names.find_interface("77").unwrap(), 77);
        assert_eq!(names.find_network("x").unwrap_err().to_string(), "there is no network \"x\"");
    }

    #[test]
    fn endpoints() {
        let v6 = v1::Address { octets: vec![0; 16] };
        assert_eq!(endpoint(Some(&v6), 80), "[::]:80");
        assert_eq!(endpoint(None, 80), "-:80");
    }
}
