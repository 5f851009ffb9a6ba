//! Calling the CNI plugin as a container runtime does.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::json;

use crate::name::LabName;
use crate::node;
use crate::shell;
use crate::state::{Node, Pod};

/// The pod's interface.
pub const INTERFACE: &str = "eth0";

/// Attaches a pod and returns the addresses it got, IPv4 first.
pub fn add(lab: &LabName, node: &Node, pod: &Pod) -> Result<Vec<IpAddr>> {
    #[derive(Deserialize)]
    struct Reply {
        ips: Vec<Ip>,
    }
    #[derive(Deserialize)]
    struct Ip {
        address: IpNet,
    }
    let text = call(lab, node, pod, "ADD")?;
    let reply: Reply = serde_json::from_str(&text).with_context(|| format!("CNI ADD answered {text:?}"))?;
    let mut addresses: Vec<_> = reply.ips.iter().map(|ip| ip.address.addr()).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    Ok(addresses)
}

/// Detaches a pod.
pub fn del(lab: &LabName, node: &Node, pod: &Pod) -> Result<()> {
    call(lab, node, pod, "DEL").map(drop)
}

fn call(lab: &LabName, node: &Node, pod: &Pod, verb: &str) -> Result<String> {
    let plugin = node::program("vrouter-cni")?;
    let folder = plugin.parent().unwrap_or(&plugin).to_owned();
    let arguments = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={};K8S_POD_UID={}",
        pod.name.namespace, pod.name.name, pod.container_id, pod.uid
    );
    let configuration = json!({
        "cniVersion": "1.1.0",
        "name": "vrouter",
        "type": "vrouter-cni",
        "socket": node::socket(lab, &node.name),
    });
    let mut command = node.netns.command(&plugin);
    command
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", &pod.container_id)
        .env("CNI_NETNS", pod.netns.path())
        .env("CNI_IFNAME", INTERFACE)
        .env("CNI_ARGS", arguments)
        .env("CNI_PATH", folder);
    let output = shell::output_with_input(&mut command, configuration.to_string().as_bytes())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("CNI {verb} on {}: {}", node.name, failure(&said, &output.stderr));
    }
    Ok(said)
}

/// The plugin says on standard output why it failed; where it does not, its log has to do.
fn failure(said: &str, log: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Failure {
        code: u32,
        msg: String,
        #[serde(default)]
        details: String,
    }
    match serde_json::from_str::<Failure>(said) {
        Ok(Failure { code, msg, details }) if details.is_empty() => format!("{msg} (code {code})"),
        Ok(Failure { code, msg, details }) => format!("{msg}: {details} (code {code})"),
        Err(_) => format!("{}{}", said.trim(), String::from_utf8_lossy(log).trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_the_plugins_words() {
        let said = r#"{"cniVersion":"1.1.0","code":11,"msg":"no lease","details":"try again"}"#;
        assert_eq!(failure(said, b""), "no lease: try again (code 11)");
        assert_eq!(failure("", b"panicked\n"), "panicked");
    }
}
