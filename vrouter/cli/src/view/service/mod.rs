//! One Service's journey on this node: by which addresses it is reached, and who gets new flows.

mod journey;
pub mod rules;
mod text;

use crate::arguments::ServiceForm;
use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, document, print};
use crate::service::ServiceView;
use journey::Journey;

/// Shows a Service, one family after the other.
pub async fn show(
    client: &mut Client,
    format: Format,
    name: &str,
    form: &ServiceForm,
) -> Result<(), CliError> {
    let view = ServiceView::ask(client).await?.only(name)?;
    if form.as_iptables {
        return rules::show(client, view, format, form).await;
    }
    let names = Names::of_places(client).await?;
    let journeys: Vec<_> = view.services.iter().map(|held| Journey::of(held, &view, &names)).collect();
    match format {
        Format::Table => print(&journeys.iter().map(text::text).collect::<Vec<_>>().join("\n\n\n")),
        Format::Json | Format::Yaml => document(format, &journeys),
    }
}
