//! Network policies whole: whom they select here, and rule by rule whom they let pass.

mod document;
mod text;

use crate::client::Client;
use crate::error::CliError;
use crate::output::{Format, document, print};
use crate::policy::PolicyView;
use document::Document;

/// Shows every policy, or those of one name.
pub async fn show(client: &mut Client, format: Format, name: Option<&str>) -> Result<(), CliError> {
    let view = PolicyView::ask(client).await?;
    let view = match name {
        Some(name) => view.only(name)?,
        None => view,
    };
    let documents: Vec<_> = view.policies.iter().map(|held| Document::of(held, &view.sets)).collect();
    match format {
        Format::Table => print(&text::all(&documents, &view.missing)),
        Format::Json | Format::Yaml => document(format, &documents),
    }
}
