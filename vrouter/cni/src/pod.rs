//! The interface inside the pod: bringing it up, checking it and taking it away.

use std::fs;
use std::net::IpAddr;

use futures::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteScope};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder};
use vrouter_objects::MacAddress;

use crate::error::CniError;

/// Everything that is set up of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodInterface {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses, each with its gateway.
    pub addresses: Vec<(IpAddr, IpAddr)>,
    /// The MAC address that every gateway is seen at.
    pub gateway_mac: MacAddress,
}

impl PodInterface {
    /// Brings it up, with addresses, routes and neighbours. Doing so again changes nothing.
    pub async fn configure(&self, netlink: &Handle) -> Result<(), CniError> {
        if self.addresses.iter().any(|(address, _)| address.is_ipv6()) {
            self.allow_ipv6();
        }
        let loopback = self.find(netlink, "lo").await?;
        let up = LinkMessageBuilder::<LinkUnspec>::new().index(loopback.header.index).up().build();
        netlink.link().set(up).execute().await.map_err(self.failed("bringing up lo"))?;

        let index = self.find(netlink, &self.name).await?.header.index;
        let up = LinkMessageBuilder::<LinkUnspec>::new().index(index).mtu(self.mtu).up().build();
        netlink.link().set(up).execute().await.map_err(self.failed("bringing it up"))?;
        for (address, gateway) in &self.addresses {
            self.add_address(netlink, index, *address).await?;
            self.add_neighbour(netlink, index, *gateway).await?;
            self.add_routes(netlink, index, *gateway).await?;
        }
        Ok(())
    }

    /// Whether it is as [`PodInterface::configure`] left it.
    pub async fn check(&self, netlink: &Handle) -> Result<(), CniError> {
        let link = self.find(netlink, &self.name).await?;
        if !link.header.flags.contains(LinkFlags::Up) {
            return Err(self.differs("is down"));
        }
        let has = |wanted: &LinkAttribute| link.attributes.contains(wanted);
        if !has(&LinkAttribute::Address(self.mac.0.to_vec())) {
            return Err(self.differs(format!("has not the MAC address {}", self.mac)));
        }
        if !has(&LinkAttribute::Mtu(self.mtu)) {
            return Err(self.differs(format!("has not the MTU {}", self.mtu)));
        }
        for (address, gateway) in &self.addresses {
            self.check_address(netlink, link.header.index, *address).await?;
            self.check_default_route(netlink, link.header.index, *gateway).await?;
        }
        Ok(())
    }

    /// Container runtimes may have switched IPv6 off for all of the pod's interfaces, and no router speaks for itself
    /// here. A kernel without IPv6 has no such files; what it cannot do then shows when the address is added.
    fn allow_ipv6(&self) {
        for (setting, value) in [("disable_ipv6", "0"), ("accept_ra", "0")] {
            let path = format!("/proc/sys/net/ipv6/conf/{}/{setting}", self.name);
            if let Err(error) = fs::write(&path, value) {
                eprintln!("vrouter-cni: {path}: {error}");
            }
        }
    }

    async fn find(&self, netlink: &Handle, name: &str) -> Result<LinkMessage, CniError> {
        let mut links = netlink.link().get().match_name(name).execute();
        let found = links.try_next().await.map_err(self.failed(&format!("looking for {name}")))?;
        found.ok_or_else(|| self.differs(format!("{name} is not there")))
    }

    /// An address alone, without a subnet: everything else is behind the gateway. It must be usable when the pod starts,
    /// so IPv6 does without duplicate detection; the vRouter sees to it that nobody else has it.
    async fn add_address(&self, netlink: &Handle, index: u32, address: IpAddr) -> Result<(), CniError> {
        let mut request = netlink.address().add(index, address, host_prefix(address)).replace();
        if address.is_ipv6() {
            let message = request.message_mut();
            message.header.flags |= AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        request.execute().await.map_err(self.failed(&format!("adding address {address}")))
    }

    /// Permanent, so that it outlives a restart of the vRouter, when the carrier drops and learned ones are flushed.
    async fn add_neighbour(&self, netlink: &Handle, index: u32, gateway: IpAddr) -> Result<(), CniError> {
        let request =
            netlink.neighbours().add(index, gateway).link_layer_address(&self.gateway_mac.0).replace();
        request.execute().await.map_err(self.failed(&format!("adding neighbour {gateway}")))
    }

    async fn add_routes(&self, netlink: &Handle, index: u32, gateway: IpAddr) -> Result<(), CniError> {
        let step = format!("adding routes by {gateway}");
        let invalid = |error| CniError::Answer(format!("gateway {gateway}: {error}"));
        let to_gateway = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(gateway, host_prefix(gateway))
            .map_err(invalid)?
            .output_interface(index)
            .scope(RouteScope::Link)
            .build();
        netlink.route().add(to_gateway).replace().execute().await.map_err(self.failed(&step))?;
        let unspecified = if gateway.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let default = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(unspecified, 0)
            .and_then(|route| route.gateway(gateway))
            .map_err(invalid)?
            .output_interface(index)
            .onlink()
            .build();
        netlink.route().add(default).replace().execute().await.map_err(self.failed(&step))
    }

    async fn check_address(&self, netlink: &Handle, index: u32, address: IpAddr) -> Result<(), CniError> {
        let get = netlink.address().get().set_link_index_filter(index).set_address_filter(address);
        let mut found = Box::pin(get.execute());
        let found = found.try_next().await.map_err(self.failed("listing addresses"))?;
        found.map(drop).ok_or_else(|| self.differs(format!("has not the address {address}")))
    }

    async fn check_default_route(
        &self,
        netlink: &Handle,
        index: u32,
        gateway: IpAddr,
    ) -> Result<(), CniError> {
        let all = match gateway {
            IpAddr::V4(_) => RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
            IpAddr::V6(_) => RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
        };
        let mut routes = Box::pin(netlink.route().get(all).execute());
        while let Some(route) = routes.try_next().await.map_err(self.failed("listing routes"))? {
            if is_default_by(&route, index, gateway) {
                return Ok(());
            }
        }
        Err(self.differs(format!("has no default route by {gateway}")))
    }

    fn failed(&self, step: &str) -> impl FnOnce(rtnetlink::Error) -> CniError {
        let (interface, step) = (self.name.clone(), step.to_owned());
        move |error| CniError::Interface { interface, step, problem: error.to_string() }
    }

    fn differs(&self, problem: impl Into<String>) -> CniError {
        CniError::Check { interface: self.name.clone(), problem: problem.into() }
    }
}

/// Takes the interface away, where it is there: what else the pod has is not ours.
pub async fn remove(netlink: &Handle, name: &str) -> Result<(), CniError> {
    let mut links = netlink.link().get().match_name(name).execute();
    // The kernel says "no such device" by an error.
    let Ok(Some(link)) = links.try_next().await else { return Ok(()) };
    netlink.link().del(link.header.index).execute().await.map_err(|error| CniError::Interface {
        interface: name.to_owned(),
        step: "removing it".to_owned(),
        problem: error.to_string(),
    })
}

fn host_prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_default_by(route: &RouteMessage, index: u32, gateway: IpAddr) -> bool {
    let gateway = RouteAttribute::Gateway(RouteAddress::from(gateway));
    route.header.destination_prefix_length == 0
        && route.attributes.contains(&gateway)
        && route.attributes.contains(&RouteAttribute::Oif(index))
}
