//! Linux routing, with kube-proxy's rules in either mode or with none.

use std::net::Ipv4Addr;

use anyhow::Result;
use vrouter_lab::kernel_path::{Host, KernelPath};
use vrouter_lab::kube_proxy::{Networks, ServicePort};
use vrouter_lab::name::{LabName, Part};
use vrouter_lab::netns;
use vrouter_lab::shell::run_with_input;
use vrouter_lab::underlay::OVERLAY_MTU;

use super::policy::{self, Policy};
use super::service::{self, MEMBERS};
use super::{LABEL, Place, Services, Site, iptables};

/// With kube-proxy's nftables rules.
pub fn nftables(lab: &LabName, place: Place, others: Services, policy: Policy) -> Result<Site> {
    let (path, services) = path(lab, place, others)?;
    path.serve(&services)?;
    if policy == Policy::On {
        let servers: Vec<_> = path.servers.iter().map(|server| server.address).collect();
        let rules = policy::nftables(path.client.address, &servers);
        path.on_nodes(|Host { netns, .. }| {
            run_with_input(netns.command("nft").args(["-f", "-"]), rules.as_bytes()).map(drop)
        })?;
    }
    Ok(site(lab, path))
}

/// With kube-proxy's iptables rules.
pub fn iptables(lab: &LabName, place: Place, others: Services) -> Result<Site> {
    let (path, services) = path(lab, place, others)?;
    path.on_nodes(|Host { netns, address }| {
        let rules = iptables::rules(&Networks::of_lab(*address), &services);
        run_with_input(&mut netns.command("iptables-restore"), rules.as_bytes()).map(drop)
    })?;
    Ok(site(lab, path))
}

/// Without services: one veth pair between client and server, or, on two nodes, routing alone.
pub fn plain(lab: &LabName, place: Place) -> Result<Site> {
    match place {
        Place::Same => pair(lab),
        Place::Cross => {
            let KernelPath { client, mut servers, .. } = KernelPath::build(lab, LABEL, place.span(), 1)?;
            let server = servers.remove(0);
            Ok(Site::direct(lab, client.netns, server.netns, server.address))
        }
    }
}

fn path(lab: &LabName, place: Place, others: Services) -> Result<(KernelPath, Vec<ServicePort>)> {
    let path = KernelPath::build(lab, LABEL, place.span(), MEMBERS)?;
    let servers: Vec<_> = path.servers.iter().map(|server| server.address).collect();
    let services = service::all(&servers, others);
    Ok((path, services))
}

fn site(lab: &LabName, path: KernelPath) -> Site {
    let servers = path.servers.into_iter().map(|server| server.netns).collect();
    Site::with_services(lab, path.client.netns, servers)
}

fn pair(lab: &LabName) -> Result<Site> {
    let part = |role: &str| lab.netns(&Part::Baseline(format!("{LABEL}{role}")));
    let address = |last| Ipv4Addr::new(10, 244, 254, last);
    let hosts = [(part("client"), address(2)), (part("servera"), address(3))];
    for (netns, _) in &hosts {
        netns.create()?;
    }
    let [(client, _), (server, server_address)] = &hosts;
    netns::join((client, "eth0"), (server, "eth0"), OVERLAY_MTU)?;
    for (netns, address) in &hosts {
        netns.ip(&format!("addr add {address}/24 dev eth0"))?;
    }
    Ok(Site::direct(lab, client.clone(), server.clone(), *server_address))
}
