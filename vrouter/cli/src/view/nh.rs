//! Next hops.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::client::Client;
use crate::error::CliError;
use crate::names::Names;
use crate::output::{Format, Row, rows};

#[derive(Serialize)]
struct NextHop {
    next_hop: String,
    routes: usize,
}

impl Row for NextHop {
    const HEADINGS: &'static [&'static str] = &["NEXT HOP", "ROUTES"];

    fn cells(&self) -> Vec<String> {
        vec![self.next_hop.clone(), self.routes.to_string()]
    }
}

/// Shows every next hop that a route leads to.
pub async fn show(client: &mut Client, format: Format) -> Result<(), CliError> {
    let names = Names::of_next_hops(client).await?;
    let mut next_hops = BTreeMap::new();
    for route in client.routes().await? {
        *next_hops.entry(names.next_hop(route.next_hop.as_ref())).or_default() += 1;
    }
    let next_hops: Vec<_> =
        next_hops.into_iter().map(|(next_hop, routes)| NextHop { next_hop, routes }).collect();
    rows(format, &next_hops)
}
