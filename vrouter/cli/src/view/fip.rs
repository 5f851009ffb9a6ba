//! Floating IPs with their port mappings.

use std::net::IpAddr;

use serde::Serialize;
use vrouter_objects::{FloatingIp, Listener, Member, MemberState, NoMembers};

use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, Row, document, print, table};

#[derive(Serialize)]
struct Service {
    id: u32,
    name: String,
    address: IpAddr,
    vrf: u32,
    network: String,
    listeners: Vec<Port>,
}

#[derive(Serialize)]
struct Port {
    id: u32,
    name: String,
    protocol: String,
    port: u16,
    without_members: &'static str,
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
    state: &'static str,
}

/// One member of one port, as a line.
#[derive(Serialize)]
struct Line(Vec<String>);

impl Row for Line {
    const HEADINGS: &'static [&'static str] =
        &["FIP", "SERVICE", "ADDRESS", "PORT", "MEMBER", "NAME", "STATE"];

    fn cells(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// Shows every floating IP, or those of one Service or address.
pub async fn show(client: &mut Client, format: Format, wanted: Option<&str>) -> Result<(), CliError> {
    let names = Names::of_networks(client).await?;
    let mut services = Vec::new();
    for message in client.floating_ips().await? {
        let floating_ip = FloatingIp::try_from(message)?;
        let is_wanted = |name: &str| floating_ip.name == name || floating_ip.address.to_string() == name;
        if wanted.is_none_or(is_wanted) {
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

fn service(floating_ip: FloatingIp, names: &Names) -> Service {
    Service {
        id: floating_ip.id.get(),
        address: floating_ip.address,
        vrf: floating_ip.vrf.get(),
        network: names.network(floating_ip.vrf.get()),
        listeners: floating_ip.listeners.into_iter().map(port).collect(),
        name: floating_ip.name,
    }
}

fn port(listener: Listener) -> Port {
    Port {
        id: listener.id.get(),
        protocol: listener.protocol.to_string(),
        port: listener.port.get(),
        without_members: match listener.no_members {
            NoMembers::Reject => "reject",
            NoMembers::Drop => "drop",
        },
        members: listener.members.into_iter().map(endpoint).collect(),
        name: listener.name,
    }
}

fn endpoint(member: Member) -> Endpoint {
    Endpoint {
        id: member.id.get(),
        address: member.address,
        port: member.port.get(),
        vrf: member.vrf.get(),
        vmi: member.vmi.map(|vmi| vmi.get()),
        state: match member.state {
            MemberState::Active => "active",
            MemberState::Draining => "draining",
        },
        name: member.name,
    }
}

/// One line per member, and one for a port without any.
fn lines(service: &Service) -> Vec<Line> {
    let line = |port: &Port, member: [String; 3]| {
        let mut cells = vec![
            service.id.to_string(),
            service.name.clone(),
            service.address.to_string(),
            format!("{}/{}", port.protocol, port.port),
        ];
        cells.extend(member);
        Line(cells)
    };
    let mut lines = Vec::new();
    for port in &service.listeners {
        if port.members.is_empty() {
            lines.push(line(port, ["-".to_owned(), "-".to_owned(), format!("{} all", port.without_members)]));
        }
        for member in &port.members {
            let at = std::net::SocketAddr::from((member.address, member.port));
            lines.push(line(port, [at.to_string(), member.name.clone(), member.state.to_owned()]));
        }
    }
    lines
}
