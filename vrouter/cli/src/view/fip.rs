//! Floating IPs with their port mappings.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::Serialize;
use vrouter_objects::{ExternalAddress, FloatingIp, Listener, Member};

use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, Row, document, print, table};
use crate::words;

#[derive(Serialize)]
struct Service {
    id: u32,
    name: String,
    address: IpAddr,
    vrf: u32,
    network: String,
    external_vrf: u32,
    external: Vec<External>,
    internal_policy: &'static str,
    external_policy: &'static str,
    affinity_seconds: Option<u32>,
    source_ranges: Vec<IpNet>,
    health_check_port: Option<u16>,
    listeners: Vec<Port>,
    #[serde(skip)]
    brief: Brief,
}

#[derive(Serialize)]
struct External {
    address: IpAddr,
    kind: &'static str,
}

#[derive(Serialize)]
struct Port {
    id: u32,
    name: String,
    protocol: String,
    port: u16,
    node_port: Option<u16>,
    members: Vec<Endpoint>,
}

#[derive(Serialize)]
struct Endpoint {
    id: u32,
    name: String,
    address: IpAddr,
    port: u16,
    vrf: u32,
    vmi: Option<u32>,
    router: Option<u32>,
    node: String,
    state: &'static str,
    hint_zones: Vec<String>,
    hint_nodes: Vec<String>,
}

/// What each line says of the service as a whole.
struct Brief {
    external: String,
    policies: String,
    affinity: String,
}

/// One member of one port, as a line.
#[derive(Serialize)]
struct Line(Vec<String>);

impl Row for Line {
    const HEADINGS: &'static [&'static str] = &[
        "FIP",
        "SERVICE",
        "ADDRESS",
        "VRF",
        "EXTERNAL",
        "POLICIES",
        "AFFINITY",
        "PORT",
        "NODE PORT",
        "MEMBER",
        "NAME",
        "NODE",
        "STATE",
    ];

    fn cells(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// Shows every floating IP, or those of one Service or address.
pub async fn show(client: &mut Client, format: Format, wanted: Option<&str>) -> Result<(), CliError> {
    let names = Names::of_places(client).await?;
    let mut services = Vec::new();
    for message in client.floating_ips().await? {
        let floating_ip = FloatingIp::try_from(message)?;
        if wanted.is_none_or(|wanted| is_called(&floating_ip, wanted)) {
            services.push(service(floating_ip, &names));
        }
    }
    if let (Some(name), true) = (wanted, services.is_empty()) {
        return Err(CliError::Unknown { kind: "floating IP", name: name.to_owned() });
    }
    match format {
        Format::Table => print(&table(&services.iter().flat_map(lines).collect::<Vec<_>>())),
        Format::Json | Format::Yaml => document(format, &services),
    }
}

/// By its Service or any of its addresses.
fn is_called(floating_ip: &FloatingIp, wanted: &str) -> bool {
    let external = floating_ip.external.iter().map(|external| external.address);
    let mut addresses = std::iter::once(floating_ip.address).chain(external);
    floating_ip.name == wanted || addresses.any(|address| address.to_string() == wanted)
}

fn service(floating_ip: FloatingIp, names: &Names) -> Service {
    Service {
        brief: Brief {
            external: words::addresses(&floating_ip.external),
            policies: words::policies(&floating_ip),
            affinity: words::affinity(floating_ip.affinity),
        },
        id: floating_ip.id.get(),
        address: floating_ip.address,
        vrf: floating_ip.vrf.get(),
        network: names.network(floating_ip.vrf.get()),
        external_vrf: floating_ip.external_vrf.get(),
        external: floating_ip.external.iter().map(external).collect(),
        internal_policy: words::policy(floating_ip.internal_policy),
        external_policy: words::policy(floating_ip.external_policy),
        affinity_seconds: floating_ip.affinity.map(|timeout| timeout.seconds()),
        source_ranges: floating_ip.source_ranges,
        health_check_port: floating_ip.health_check_port.map(|port| port.get()),
        listeners: floating_ip.listeners.into_iter().map(|listener| port(listener, names)).collect(),
        name: floating_ip.name,
    }
}

fn external(external: &ExternalAddress) -> External {
    External { address: external.address, kind: words::external_kind(external.kind) }
}

fn port(listener: Listener, names: &Names) -> Port {
    Port {
        id: listener.id.get(),
        protocol: listener.protocol.to_string(),
        port: listener.port.get(),
        node_port: listener.node_port.map(|port| port.get()),
        members: listener.members.into_iter().map(|member| endpoint(member, names)).collect(),
        name: listener.name,
    }
}

fn endpoint(member: Member, names: &Names) -> Endpoint {
    Endpoint {
        id: member.id.get(),
        address: member.address,
        port: member.port.get(),
        vrf: member.vrf.get(),
        vmi: member.vmi.map(|vmi| vmi.get()),
        router: member.router.map(|router| router.get()),
        node: names.router(member.router),
        state: words::member_state(member.state),
        hint_zones: member.hints.zones,
        hint_nodes: member.hints.routers.iter().map(|router| names.router(Some(*router))).collect(),
        name: member.name,
    }
}

/// One line per member, and one for a port without any.
fn lines(service: &Service) -> Vec<Line> {
    let line = |port: &Port, member: [String; 4]| {
        let mut cells = vec![
            service.id.to_string(),
            service.name.clone(),
            service.address.to_string(),
            format!("{} ({})", service.vrf, service.network),
            service.brief.external.clone(),
            service.brief.policies.clone(),
            service.brief.affinity.clone(),
            format!("{}/{}", port.protocol, port.port),
            words::or_dash(port.node_port.map(|port| port.to_string()).unwrap_or_default()),
        ];
        cells.extend(member);
        Line(cells)
    };
    let mut lines = Vec::new();
    for port in &service.listeners {
        if port.members.is_empty() {
            lines.push(line(port, ["-", "-", "-", "-"].map(str::to_owned)));
        }
        for member in &port.members {
            let at = SocketAddr::from((member.address, member.port)).to_string();
            let node = words::or_dash(member.node.clone());
            lines.push(line(port, [at, member.name.clone(), node, member.state.to_owned()]));
        }
    }
    lines
}
