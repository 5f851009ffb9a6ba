//! What the runtime asks for, read from the environment.

use std::path::PathBuf;

use vrouter_objects::PodName;
use vrouter_proto::is_interface_name;

use crate::error::CniError;

/// An operation with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Attach a pod.
    Add {
        /// The interface.
        interface: Interface,
        /// The pod's network namespace.
        netns: PathBuf,
        /// The pod.
        pod: Pod,
    },
    /// Detach it.
    Del {
        /// The interface.
        interface: Interface,
        /// The pod's network namespace; `None`: it is gone already.
        netns: Option<PathBuf>,
    },
    /// Is it as it was made?
    Check {
        /// The interface.
        interface: Interface,
        /// The pod's network namespace.
        netns: PathBuf,
    },
    /// Detach everything but what the configuration lists.
    Gc,
    /// Can pods be attached?
    Status,
    /// Which versions are spoken?
    Version,
}

/// What the runtime calls an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The sandbox's id.
    pub container_id: String,
    /// The interface's name in it.
    pub name: String,
}

/// The pod that an interface is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: PodName,
    /// Its UID, empty where the runtime does not say.
    pub uid: String,
}

impl Operation {
    /// Reads the operation by means of a lookup of environment variables.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, CniError> {
        let optional = |variable| lookup(variable).filter(|value| !value.is_empty());
        let required = |variable| {
            optional(variable).ok_or(CniError::Environment { variable, problem: "is missing".to_owned() })
        };
        let interface = || {
            Ok::<_, CniError>(Interface {
                container_id: container_id(required("CNI_CONTAINERID")?)?,
                name: interface_name(required("CNI_IFNAME")?)?,
            })
        };
        match required("CNI_COMMAND")?.as_str() {
            "ADD" => Ok(Self::Add {
                interface: interface()?,
                netns: required("CNI_NETNS")?.into(),
                pod: pod(&optional("CNI_ARGS").unwrap_or_default())?,
            }),
            "DEL" => Ok(Self::Del { interface: interface()?, netns: optional("CNI_NETNS").map(Into::into) }),
            "CHECK" => Ok(Self::Check { interface: interface()?, netns: required("CNI_NETNS")?.into() }),
            "GC" => Ok(Self::Gc),
            "STATUS" => Ok(Self::Status),
            "VERSION" => Ok(Self::Version),
            other => Err(CniError::Environment {
                variable: "CNI_COMMAND",
                problem: format!("\"{other}\" is none of ADD, DEL, CHECK, GC, STATUS, VERSION"),
            }),
        }
    }
}

/// Starts with a letter or digit; letters, digits, `_`, `.` and `-` follow (CNI specification, "Parameters").
fn container_id(text: String) -> Result<String, CniError> {
    let follows = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(follows) {
        return Ok(text);
    }
    Err(CniError::Environment {
        variable: "CNI_CONTAINERID",
        problem: format!("\"{text}\" is no container id"),
    })
}

fn interface_name(text: String) -> Result<String, CniError> {
    if is_interface_name(&text) {
        return Ok(text);
    }
    Err(CniError::Environment { variable: "CNI_IFNAME", problem: format!("\"{text}\" is no interface name") })
}

/// Reads `KEY=value;KEY=value`. What else is in there is for others, as Kubernetes' runtimes say by IgnoreUnknown.
fn pod(arguments: &str) -> Result<Pod, CniError> {
    let wrong = |problem| CniError::Environment { variable: "CNI_ARGS", problem };
    let pairs = arguments.split(';').filter(|pair| !pair.is_empty());
    let pairs =
        pairs.map(|pair| pair.split_once('=').ok_or_else(|| wrong(format!("\"{pair}\" is not KEY=value"))));
    let pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;
    let value = |wanted: &str| pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
    let required =
        |key| value(key).filter(|value| !value.is_empty()).ok_or_else(|| wrong(format!("{key} is missing")));
    let (namespace, name) = (required("K8S_POD_NAMESPACE")?, required("K8S_POD_NAME")?);
    let name = format!("{namespace}/{name}").parse().map_err(|error| wrong(format!("{error}")))?;
    Ok(Pod { name, uid: value("K8S_POD_UID").unwrap_or_default().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=0f";

    fn read(environment: &[(&str, &str)]) -> Result<Operation, CniError> {
        Operation::from_environment(|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn add(variable: &str, value: &str) -> Result<Operation, CniError> {
        let mut environment = vec![
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "c0ffee"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/run/netns/web"),
            ("CNI_ARGS", ARGS),
        ];
        environment.retain(|(key, _)| *key != variable);
        environment.push((variable, value));
        read(&environment)
    }

    #[test]
    fn operations_with_their_parameters() {
        let interface = Interface { container_id: "c0ffee".to_owned(), name: "eth0".to_owned() };
        let netns = PathBuf::from("/run/netns/web");
        let pod = Pod { name: "default/web".parse().unwrap(), uid: "0f".to_owned() };
        let (some_interface, some_netns) = (interface.clone(), netns.clone());
        assert_eq!(
            add("", "").unwrap(),
            Operation::Add { interface: some_interface.clone(), netns: some_netns.clone(), pod }
        );
        assert_eq!(
            add("CNI_COMMAND", "CHECK").unwrap(),
            Operation::Check { interface: some_interface, netns: some_netns }
        );
        let del = [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", "c0ffee"), ("CNI_IFNAME", "eth0")];
        assert_eq!(read(&del).unwrap(), Operation::Del { interface, netns: None });
        assert_eq!(add("CNI_COMMAND", "VERSION").unwrap(), Operation::Version);
        assert_eq!(add("CNI_COMMAND", "STATUS").unwrap(), Operation::Status);
        assert_eq!(add("CNI_COMMAND", "GC").unwrap(), Operation::Gc);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (variable, value, expected) in [
            ("CNI_COMMAND", "", "CNI_COMMAND: is missing"),
            ("CNI_COMMAND", "MOVE", "CNI_COMMAND: \"MOVE\" is none of"),
            ("CNI_CONTAINERID", "", "CNI_CONTAINERID: is missing"),
            ("CNI_CONTAINERID", "-x", "CNI_CONTAINERID: \"-x\" is no container id"),
            ("CNI_CONTAINERID", "a b", "CNI_CONTAINERID: \"a b\" is no container id"),
            ("CNI_IFNAME", "", "CNI_IFNAME: is missing"),
            ("CNI_IFNAME", "a/b", "CNI_IFNAME: \"a/b\" is no interface name"),
            ("CNI_IFNAME", "an-interface-name", "CNI_IFNAME: \"an-interface-name\" is no interface name"),
            ("CNI_NETNS", "", "CNI_NETNS: is missing"),
            ("CNI_ARGS", "", "CNI_ARGS: K8S_POD_NAMESPACE is missing"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE=a;K8S_POD_NAME=", "CNI_ARGS: K8S_POD_NAME is missing"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b/c", "CNI_ARGS: \"a/b/c\" is not namespace/name"),
            ("CNI_ARGS", "K8S_POD_NAMESPACE", "CNI_ARGS: \"K8S_POD_NAMESPACE\" is not KEY=value"),
        ] {
            let error = add(variable, value).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{variable}={value}: {error}");
            assert_eq!(error.code(), 4);
        }
    }
}
