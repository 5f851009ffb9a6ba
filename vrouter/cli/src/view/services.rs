//! Services in brief.

use std::net::IpAddr;

use serde::Serialize;
use vrouter_objects::{FloatingIp, MemberState};

use super::service::rules;
use crate::arguments::ServiceForm;
use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, Row, rows};
use crate::service::{HeldService, ServiceView};
use crate::words;

/// A service of one family.
#[derive(Serialize)]
struct Brief {
    name: String,
    address: IpAddr,
    vrf: u32,
    network: String,
    external: Vec<IpAddr>,
    internal_policy: &'static str,
    external_policy: &'static str,
    affinity_seconds: Option<u32>,
    ports: Vec<String>,
    members: usize,
    ready: usize,
    hits: u64,
    flows: u32,
    #[serde(skip)]
    cells: [String; 3],
}

impl Row for Brief {
    const HEADINGS: &'static [&'static str] =
        &["SERVICE", "ADDRESS", "VRF", "EXTERNAL", "POLICIES", "AFFINITY", "PORTS", "READY", "HITS", "FLOWS"];

    fn cells(&self) -> Vec<String> {
        let [external, policies, affinity] = self.cells.clone();
        vec![
            self.name.clone(),
            self.address.to_string(),
            format!("{} ({})", self.vrf, self.network),
            external,
            policies,
            affinity,
            words::or_dash(self.ports.join(" ")),
            format!("{}/{}", self.ready, self.members),
            self.hits.to_string(),
            self.flows.to_string(),
        ]
    }
}

/// Shows all services.
pub async fn show(client: &mut Client, format: Format, form: &ServiceForm) -> Result<(), CliError> {
    let view = ServiceView::ask(client).await?;
    if form.as_iptables {
        return rules::show(client, view, format, form).await;
    }
    let names = Names::of_places(client).await?;
    rows(format, &view.services.iter().map(|held| brief(held, &names)).collect::<Vec<_>>())
}

fn brief(held: &HeldService, names: &Names) -> Brief {
    let service = &held.floating_ip;
    let members = || service.listeners.iter().flat_map(|listener| &listener.members);
    let uses = || members().map(|member| held.use_of(member.id));
    Brief {
        name: service.name.clone(),
        address: service.address,
        vrf: service.vrf.get(),
        network: names.network(service.vrf.get()),
        external: service.external.iter().map(|external| external.address).collect(),
        internal_policy: words::policy(service.internal_policy),
        external_policy: words::policy(service.external_policy),
        affinity_seconds: service.affinity.map(|timeout| timeout.seconds()),
        ports: ports(service),
        members: members().count(),
        ready: members().filter(|member| member.state == MemberState::Ready).count(),
        hits: uses().map(|used| used.hits).sum(),
        flows: uses().map(|used| used.flows).sum(),
        cells: [
            words::addresses(&service.external),
            words::policies(service),
            words::affinity(service.affinity),
        ],
    }
}

/// As `kubectl get service` prints them.
fn ports(service: &FloatingIp) -> Vec<String> {
    let ports = service.listeners.iter().map(|listener| match listener.node_port {
        Some(node_port) => format!("{}:{node_port}/{}", listener.port, listener.protocol),
        None => format!("{}/{}", listener.port, listener.protocol),
    });
    ports.collect()
}
