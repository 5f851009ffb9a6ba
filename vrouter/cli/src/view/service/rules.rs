//! Services as kube-proxy's rules.

use serde::Serialize;

use crate::error::CliError;
use crate::iptables::{Family, rules};
use crate::output::{Format, document, print};
use crate::service::ServiceView;

/// What one tool takes.
#[derive(Serialize)]
struct Rules {
    family: &'static str,
    tool: &'static str,
    lines: Vec<String>,
}

/// Shows the rules of one family, or of those that there are services of, each told apart by a comment.
pub fn show(view: &ServiceView, format: Format, family: Option<Family>) -> Result<(), CliError> {
    let services = || view.services.iter().map(|held| &held.floating_ip);
    let has_any = |family: &Family| services().any(|service| Family::of(service.address) == *family);
    let families =
        Family::ALL.into_iter().filter(|each| family.map_or_else(|| has_any(each), |only| only == *each));
    let texts: Vec<_> = families.map(|family| (family, rules(services(), &view.node, family))).collect();
    match format {
        Format::Table => {
            let texts = texts.iter().map(|(family, text)| {
                format!("# {}, for {}\n{}", family.name(), family.tool(), text.trim_end())
            });
            print(&texts.collect::<Vec<_>>().join("\n"))
        }
        Format::Json | Format::Yaml => {
            let rules = texts.iter().map(|(family, text)| Rules {
                family: family.name(),
                tool: family.tool(),
                lines: text.lines().map(str::to_owned).collect(),
            });
            document(format, &rules.collect::<Vec<_>>())
        }
    }
}
