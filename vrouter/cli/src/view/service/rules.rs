//! Services as kube-proxy's rules.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::arguments::ServiceForm;
use crate::client::Client;
use crate::error::CliError;
use crate::iptables::{Family, rules};
use crate::output::{Format, document, print};
use crate::service::{ServiceNetworks, ServiceView};

/// What one tool takes.
#[derive(Serialize)]
struct Rules {
    family: &'static str,
    tool: &'static str,
    /// Whose services these are.
    network: String,
    /// Networks that have other services.
    other_networks: Vec<String>,
    lines: Vec<String>,
}

/// Shows the rules of one network's services: those of one family, or of those that there are services of, each told apart
/// by a comment. kube-proxy knows one network, and rules of two that share addresses would be in each other's way.
pub async fn show(
    client: &mut Client,
    view: ServiceView,
    format: Format,
    form: &ServiceForm,
) -> Result<(), CliError> {
    let networks = ServiceNetworks::ask(client).await?;
    let Some(network) = networks.choose(&view.services, form.vrf.as_deref())? else {
        return render(&view, format, form.family, &Heading::default());
    };
    let others: BTreeSet<_> = view.services.iter().map(|held| held.floating_ip.vrf).collect();
    let others = others.into_iter().filter(|other| *other != network);
    let heading =
        Heading { network: networks.name(network), others: others.map(|vrf| networks.name(vrf)).collect() };
    render(&view.in_network(network, &networks), format, form.family, &heading)
}

/// Whose services are shown, and whose are not.
#[derive(Default)]
struct Heading {
    network: String,
    others: Vec<String>,
}

fn render(
    view: &ServiceView,
    format: Format,
    family: Option<Family>,
    heading: &Heading,
) -> Result<(), CliError> {
    let services = || view.services.iter().map(|held| &held.floating_ip);
    let has_any = |family: &Family| services().any(|service| Family::of(service.address) == *family);
    let families =
        Family::ALL.into_iter().filter(|each| family.map_or_else(|| has_any(each), |only| only == *each));
    let rules = families.map(|family| Rules {
        family: family.name(),
        tool: family.tool(),
        network: heading.network.clone(),
        other_networks: heading.others.clone(),
        lines: rules(services(), &view.node, family).lines().map(str::to_owned).collect(),
    });
    let rules: Vec<_> = rules.collect();
    match format {
        Format::Table => print(&rules.iter().map(text).collect::<Vec<_>>().join("\n")),
        Format::Json | Format::Yaml => document(format, &rules),
    }
}

fn text(rules: &Rules) -> String {
    let mut heading = vec![format!("# {}, for {}", rules.family, rules.tool)];
    if !rules.network.is_empty() {
        heading.push(format!("# services of {}", rules.network));
    }
    if !rules.other_networks.is_empty() {
        heading.push(format!("# others, by --vrf: {}", rules.other_networks.join(", ")));
    }
    [heading, rules.lines.clone()].concat().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_services_are_shown_is_said_and_whose_are_not() {
        let rules = |network: &str, others: &[&str]| Rules {
            family: "IPv4",
            tool: "iptables-restore",
            network: network.to_owned(),
            other_networks: others.iter().map(|name| (*name).to_owned()).collect(),
            lines: vec!["*filter".to_owned()],
        };
        assert_eq!(text(&rules("", &[])), "# IPv4, for iptables-restore\n*filter");
        let expected = "\
# IPv4, for iptables-restore
# services of default/default-servicenetwork
# others, by --vrf: blue/net-servicenetwork
*filter";
        assert_eq!(text(&rules("default/default-servicenetwork", &["blue/net-servicenetwork"])), expected);
    }
}
