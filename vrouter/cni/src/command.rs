//! The operations.

use std::path::Path;

use serde_json::Value;
use vrouter_proto::v1;

use crate::configuration::Configuration;
use crate::error::CniError;
use crate::invocation::{Interface, Operation, Pod};
use crate::node::Node;
use crate::pod::PodInterface;
use crate::version::SpecVersion;
use crate::{netns, pod, result};

/// Executes an operation and returns the document to print, where there is one.
pub fn execute(operation: Operation, configuration: &Configuration) -> Result<Option<Value>, CniError> {
    let version = configuration.version;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CniError::Input)?;
    runtime.block_on(async {
        match operation {
            Operation::Add { interface, netns, pod } => {
                add(configuration, &interface, &netns, &pod).await.map(Some)
            }
            Operation::Del { interface, netns } => {
                del(configuration, &interface, netns.as_deref()).await?;
                Ok(None)
            }
            Operation::Check { interface, netns } => {
                version.require(SpecVersion::V0_4_0, "CHECK")?;
                check(configuration, &interface, &netns).await?;
                Ok(None)
            }
            Operation::Gc => {
                version.require(SpecVersion::V1_1_0, "GC")?;
                collect_garbage(configuration).await?;
                Ok(None)
            }
            Operation::Status => {
                version.require(SpecVersion::V1_1_0, "STATUS")?;
                status(configuration).await?;
                Ok(None)
            }
            // It needs no configuration, so it is answered before one is read.
            Operation::Version => Ok(None),
        }
    })
}

async fn add(
    configuration: &Configuration,
    interface: &Interface,
    netns: &Path,
    pod: &Pod,
) -> Result<Value, CniError> {
    let mut node = Node::connect(&configuration.socket).await?;
    let made = node.attach(&configuration.name, interface, netns, pod).await?;
    if let Err(error) = configure(netns, &made) {
        if let Err(undo) = node.detach(interface).await {
            eprintln!("vrouter-cni: {} is left attached: {undo}", interface.name);
        }
        return Err(error);
    }
    Ok(result::document(configuration, &made, &netns.display().to_string()))
}

fn configure(netns: &Path, interface: &PodInterface) -> Result<(), CniError> {
    netns::within(netns, |netlink| async move { interface.configure(&netlink).await })
}

/// With the vRouter gone, the interface is taken away all the same: what has lost its namespace is dropped by the vRouter
/// when it starts, and a pod that cannot be deleted would help nobody.
async fn del(
    configuration: &Configuration,
    interface: &Interface,
    netns: Option<&Path>,
) -> Result<(), CniError> {
    match Node::connect(&configuration.socket).await {
        Ok(mut node) => node.detach(interface).await,
        Err(error) => {
            eprintln!("vrouter-cni: {error}; removing {} without it", interface.name);
            let Some(netns) = netns else { return Ok(()) };
            let removed =
                netns::within(netns, |netlink| async move { pod::remove(&netlink, &interface.name).await });
            match removed {
                Err(CniError::Namespace { error, .. }) if netns::is_gone(&error) => Ok(()),
                removed => removed,
            }
        }
    }
}

async fn check(configuration: &Configuration, interface: &Interface, netns: &Path) -> Result<(), CniError> {
    let mut node = Node::connect(&configuration.socket).await?;
    let attached = node.check(interface).await?;
    let previous = configuration.previous.as_ref().ok_or_else(|| CniError::Configuration {
        field: "prevResult".to_owned(),
        problem: "is missing, and CHECK needs it".to_owned(),
    })?;
    let given = result::addresses(previous, &interface.name);
    for (address, _) in &attached.addresses {
        if !given.iter().any(|given| given.split('/').next() == Some(address.to_string().as_str())) {
            let problem = format!("has the address {address}, which prevResult does not");
            return Err(CniError::Check { interface: interface.name.clone(), problem });
        }
    }
    let attached = &attached;
    netns::within(netns, |netlink| async move { attached.check(&netlink).await })
}

async fn collect_garbage(configuration: &Configuration) -> Result<(), CniError> {
    let valid = configuration.valid.as_ref().ok_or_else(|| CniError::Configuration {
        field: "cni.dev/valid-attachments".to_owned(),
        problem: "is missing, and GC needs it".to_owned(),
    })?;
    let removed =
        Node::connect(&configuration.socket).await?.collect_garbage(&configuration.name, valid).await?;
    eprintln!("vrouter-cni: {removed} attachments removed");
    Ok(())
}

async fn status(configuration: &Configuration) -> Result<(), CniError> {
    let report = match Node::connect(&configuration.socket).await {
        Ok(mut node) => node.status().await,
        Err(error) => Err(error),
    };
    readiness(&report.map_err(|error| CniError::Limited(error.to_string()))?)
}

/// Pods can be attached as soon as the node has had its tables once, also while the controller is away.
fn readiness(report: &v1::NodeReport) -> Result<(), CniError> {
    if report.not_ready.is_empty() {
        return Ok(());
    }
    let mut reason = format!("node {}: {}", report.node, report.not_ready);
    if !report.controller_error.is_empty() {
        reason = format!("{reason}; controller {}: {}", report.controller, report.controller_error);
    }
    Err(CniError::Unavailable(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_attach_says_why() {
        let mut report = v1::NodeReport { node: "n1".to_owned(), ..Default::default() };
        report.controller = "http://c".to_owned();
        report.controller_error = "refused".to_owned();
        report.not_ready = "no addresses are leased to this node yet".to_owned();
        let error = readiness(&report).unwrap_err();
        assert_eq!(error.code(), 50);
        let expected = "node n1: no addresses are leased to this node yet; controller http://c: refused";
        assert!(error.to_string().ends_with(expected), "{error}");
        report.not_ready.clear();
        assert!(readiness(&report).is_ok());
    }
}
