//! Who does not reach whom: tenants with the same addresses, and network policy.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::outcome::{Outcome, heading};
use super::service::{address, ask_from, curl, failures, netns};
use super::show;
use crate::cli::Delete;
use crate::commands::objects;
use crate::load::Tally;
use crate::name::LabName;
use crate::object::Name;

const TENANTS: [&str; 2] = ["red", "blue"];

/// Two networks with the same subnets, and in each pods and a service with the addresses that the other one's have.
pub fn tenants(lab: &LabName, examples: &Path, outcome: &mut Outcome) -> Result<()> {
    heading("Two tenants with the same addresses");
    while_applied(lab, &examples.join("tenants/overlapping.yaml"), || {
        let mut details = Vec::new();
        let mut apart = true;
        for tenant in TENANTS {
            let client = Name::new(tenant, &format!("{tenant}-client"));
            let target = SocketAddr::new(address(lab, &Name::new(tenant, "web"))?, 80);
            println!("    $ lab exec {client} -- curl http://{target}/");
            println!("    {}", curl(&netns(lab, &client)?, &format!("http://{target}/"))?.trim());
            let tally = ask(lab, &client, target, &["--requests", "200"])?;
            apart &= tally.failed == 0 && tally.members.keys().all(|pod| pod.starts_with(tenant));
            details.push(format!("{tenant} at {target}: {}", served(&tally)));
        }
        outcome.check("two tenants share addresses, and each reaches its own", apart, details.join("; "));
        Ok(())
    })
}

/// Whom a policy admits is served, and nobody else.
pub fn policy(lab: &LabName, examples: &Path, outcome: &mut Outcome) -> Result<()> {
    heading("A NetworkPolicy that lets in pods with label app=books alone");
    while_applied(lab, &examples.join("policies/limit-to-pods.yaml"), || {
        let target = SocketAddr::new(address(lab, &Name::new("books", "api"))?, 80);
        let admitted = ask(lab, &Name::new("books", "front"), target, &["--requests", "200"])?;
        let ok = admitted.failed == 0 && !admitted.members.is_empty();
        outcome.check("policy admits whom it means", ok, failures(&admitted));
        let denied = ask(lab, &Name::new("books", "visitor"), target, &["--seconds", "1"])?;
        outcome.check("policy keeps out everybody else", denied.members.is_empty(), served(&denied));
        show::vrctl(lab, "policy")
    })
}

fn while_applied(lab: &LabName, file: &Path, act: impl FnOnce() -> Result<()>) -> Result<()> {
    objects::apply(lab.clone(), &[file.to_owned()])?;
    act()?;
    objects::delete(lab.clone(), &Delete { files: vec![file.to_owned()], kind: None, object: None })
}

fn ask(lab: &LabName, client: &Name, target: SocketAddr, options: &[&str]) -> Result<Tally> {
    ask_from(&netns(lab, client)?, target, &[&["--fresh", "--clients", "4"], options].concat())
}

fn served(tally: &Tally) -> String {
    let members: Vec<_> = tally.members.iter().map(|(pod, count)| format!("{pod} {count}")).collect();
    if members.is_empty() { "no answer".to_owned() } else { members.join(", ") }
}
