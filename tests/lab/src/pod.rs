//! The part of a pod's spec that the lab acts on, and the programs that follow from it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::object::Name;
use crate::ports::Transport;

/// A pod's spec.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Never empty in a valid pod.
    pub containers: Vec<Container>,
    /// Where it must run.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Labels that its node must have.
    #[serde(default, deserialize_with = "null_is_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Whether it shares its node's network.
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_network: bool,
    #[serde(default)]
    termination_grace_period_seconds: Option<u64>,
}

/// A container of a pod.
#[derive(Debug, Clone, Deserialize)]
pub struct Container {
    /// Unique in the pod.
    pub name: String,
    /// What runs; empty: what the image says, for which the lab's own server stands in.
    #[serde(default, deserialize_with = "null_is_default")]
    pub command: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    args: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    env: Vec<Variable>,
    #[serde(default, deserialize_with = "null_is_default")]
    ports: Vec<ContainerPort>,
}

/// A port that a container listens on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    container_port: NonZeroU16,
    #[serde(default)]
    protocol: Transport,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Variable {
    name: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    value_from: Option<ValueFrom>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom {
    #[serde(default)]
    field_ref: Option<FieldRef>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldRef {
    field_path: String,
}

/// What a running pod knows of itself.
#[derive(Debug, Clone)]
pub struct Identity<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its uid.
    pub uid: &'a str,
    /// Its node's name.
    pub node: &'a str,
    /// Its node's address.
    pub node_address: IpAddr,
    /// Its own addresses, IPv4 first.
    pub addresses: &'a [IpAddr],
}

/// A process of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The container's name.
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What is set in its environment.
    pub environment: Vec<(String, String)>,
    /// The ports that are open once it serves.
    pub awaited: Vec<(Transport, u16)>,
}

impl PodSpec {
    /// How long the pod has to stop after it was told to.
    pub fn grace_period(&self) -> Duration {
        Duration::from_secs(self.termination_grace_period_seconds.unwrap_or(30))
    }

    /// What is to run: each container's command, and one server for the ports of all containers without one.
    pub fn programs(&self, identity: &Identity, server: &str) -> Vec<Program> {
        let (silent, speaking): (Vec<_>, Vec<_>) =
            self.containers.iter().partition(|container| container.command.is_empty());
        let mut programs: Vec<_> = speaking.iter().map(|container| container.program(identity)).collect();
        if let Some(first) = silent.first() {
            let ports = silent.iter().flat_map(|container| container.declared_ports()).collect();
            programs.push(built_in_server(&first.name, ports, identity, server));
        }
        programs
    }
}

impl Container {
    fn declared_ports(&self) -> impl Iterator<Item = (Transport, u16)> {
        self.ports.iter().map(|port| (port.protocol, port.container_port.get()))
    }

    fn program(&self, identity: &Identity) -> Program {
        let environment = self.environment(identity);
        let command = self.command.iter().chain(&self.args).map(|word| expand(word, &environment)).collect();
        // Many servers bind a UDP port only when a peer has asked for it over TCP.
        let awaited = self.declared_ports().filter(|(transport, _)| *transport == Transport::Tcp).collect();
        Program { container: self.name.clone(), command, environment, awaited }
    }

    fn environment(&self, identity: &Identity) -> Vec<(String, String)> {
        let mut environment = vec![("HOSTNAME".to_owned(), identity.name.name.clone())];
        for variable in &self.env {
            let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
            let value = match (&variable.value, field) {
                (Some(value), _) => expand(value, &environment),
                (None, Some(field)) => identity.field(&field.field_path),
                (None, None) => String::new(),
            };
            environment.push((variable.name.clone(), value));
        }
        environment
    }
}

impl Identity<'_> {
    /// A field that the downward API offers, empty where it is none that the lab knows.
    fn field(&self, path: &str) -> String {
        match path {
            "metadata.name" => self.name.name.clone(),
            "metadata.namespace" => self.name.namespace.clone(),
            "metadata.uid" => self.uid.to_owned(),
            "spec.nodeName" => self.node.to_owned(),
            "status.hostIP" => self.node_address.to_string(),
            "status.podIP" => self.addresses.first().map(IpAddr::to_string).unwrap_or_default(),
            "status.podIPs" => self.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(","),
            _ => String::new(),
        }
    }
}

fn built_in_server(
    container: &str,
    mut ports: Vec<(Transport, u16)>,
    identity: &Identity,
    server: &str,
) -> Program {
    ports.sort_unstable();
    ports.dedup();
    let mut command: Vec<_> = [
        server,
        "serve",
        "--namespace",
        &identity.name.namespace,
        "--pod",
        &identity.name.name,
        "--node",
        identity.node,
    ]
    .map(str::to_owned)
    .into();
    for (transport, port) in &ports {
        command.extend([transport.option().to_owned(), port.to_string()]);
    }
    let awaited = ports.into_iter().filter(|(transport, _)| *transport != Transport::Sctp).collect();
    Program { container: container.to_owned(), command, environment: Vec::new(), awaited }
}

/// Puts variables in for `$(NAME)`, as Kubernetes does; unknown ones stay, and `$$(NAME)` is `$(NAME)`.
fn expand(text: &str, variables: &[(String, String)]) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix("$(").and_then(|rest| rest.split_once(')')) {
            match variables.iter().rev().find(|(known, _)| known == name) {
                Some((_, value)) => result.push_str(value),
                None => result.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            result.push('$');
            rest = &rest[1..];
        }
    }
    result + rest
}

/// `field:` with nothing behind it means the same as no field at all.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn programs(spec: Value) -> Vec<Program> {
        let name = Name::new("web", "nginx-1");
        let addresses = ["10.244.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let identity = Identity {
            name: &name,
            uid: "u",
            node: "n1",
            node_address: "172.30.0.1".parse().unwrap(),
            addresses: &addresses,
        };
        serde_json::from_value::<PodSpec>(spec).unwrap().programs(&identity, "server")
    }

    #[test]
    fn containers_without_command_share_one_server() {
        let found = programs(json!({"containers": [
            {"name": "a", "ports": [{"containerPort": 80}]},
            {"name": "b", "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 9, "protocol": "SCTP"}]},
        ]}));
        let wanted = "server serve --namespace web --pod nginx-1 --node n1 --tcp 80 --udp 53 --sctp 9";
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].command.join(" "), wanted);
        assert_eq!(found[0].awaited, [(Transport::Tcp, 80), (Transport::Udp, 53)]);
    }

    #[test]
    fn commands_see_their_environment() {
        let found = programs(json!({"containers": [{
            "name": "a",
            "command": ["sh", "-c"],
            "args": ["echo $(GREETING) $(NOBODY) $$(GREETING) $HOME"],
            "env": [
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "GREETING", "value": "hello $(NODE)"},
            ],
            "ports": [{"containerPort": 5201}, {"containerPort": 5201, "protocol": "UDP"}],
        }]}));
        assert_eq!(found[0].command[2], "echo hello n1 $(NOBODY) $(GREETING) $HOME");
        assert!(found[0].environment.contains(&("NODE".into(), "n1".into())));
        assert_eq!(found[0].awaited, [(Transport::Tcp, 5201)]);
    }

    #[test]
    fn command_and_server_stand_side_by_side() {
        let found = programs(json!({"containers": [
            {"name": "a", "command": ["iperf3", "-s"], "ports": [{"containerPort": 5201}]},
            {"name": "b", "ports": null},
        ]}));
        let containers: Vec<_> = found.iter().map(|program| program.container.as_str()).collect();
        assert_eq!(containers, ["a", "b"]);
        assert!(found[1].awaited.is_empty());
    }

    #[test]
    fn ports_out_of_range_are_refused() {
        let spec = json!({"containers": [{"name": "a", "ports": [{"containerPort": 70000}]}]});
        assert!(serde_json::from_value::<PodSpec>(spec).is_err());
    }
}
