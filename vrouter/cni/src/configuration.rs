//! The network configuration that comes on standard input.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::error::CniError;
use crate::invocation::Interface;
use crate::version::SpecVersion;

const DEFAULT_SOCKET: &str = "/run/vrouter/node.sock";

/// The configuration, checked.
#[derive(Debug, PartialEq)]
pub struct Configuration {
    /// The version to answer in.
    pub version: SpecVersion,
    /// The network's name: what else is attached on this node is other networks'.
    pub name: String,
    /// The vRouter's local API.
    pub socket: PathBuf,
    /// What ADD answered, for CHECK.
    pub previous: Option<Value>,
    /// What the runtime still knows, for GC; `None`: it did not say.
    pub valid: Option<Vec<Interface>>,
    /// Passed on to the runtime.
    pub dns: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    cni_version: Option<String>,
    name: Option<String>,
    socket: Option<PathBuf>,
    prev_result: Option<Value>,
    #[serde(rename = "cni.dev/valid-attachments")]
    valid_attachments: Option<Vec<ValidAttachment>>,
    dns: Option<Value>,
}

#[derive(Deserialize)]
struct ValidAttachment {
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

impl Configuration {
    /// Reads and checks a configuration.
    pub fn read(text: &str) -> Result<Self, CniError> {
        let document: Value = serde_json::from_str(text).map_err(CniError::Decode)?;
        let document: Document =
            serde_json::from_value(document).map_err(|error| wrong("fields", &error.to_string()))?;
        // Configurations before version 0.2.0 did not say one.
        let version = SpecVersion::parse(document.cni_version.as_deref().unwrap_or("0.1.0"))?;
        let name =
            document.name.filter(|name| !name.is_empty()).ok_or_else(|| wrong("name", "is missing"))?;
        let socket = document.socket.unwrap_or_else(|| DEFAULT_SOCKET.into());
        if !socket.is_absolute() {
            return Err(wrong("socket", "is not an absolute path"));
        }
        let valid = document.valid_attachments.map(|valid| {
            let interfaces = valid.into_iter();
            interfaces
                .map(|valid| Interface { container_id: valid.container_id, name: valid.ifname })
                .collect()
        });
        let dns = document.dns.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        Ok(Self { version, name, socket, previous: document.prev_result, valid, dns })
    }
}

fn wrong(field: &str, problem: &str) -> CniError {
    CniError::Configuration { field: field.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_with_its_defaults() {
        let text = r#"{"cniVersion":"1.1.0","name":"pods","type":"vrouter-cni"}"#;
        let configuration = Configuration::read(text).unwrap();
        assert_eq!(configuration.version, SpecVersion::V1_1_0);
        assert_eq!(configuration.socket, PathBuf::from(DEFAULT_SOCKET));
        assert_eq!((configuration.previous, configuration.valid), (None, None));

        let text = r#"{"cniVersion":"1.1.0","name":"pods","socket":"/x","prevResult":{},"more":1,
            "cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}"#;
        let configuration = Configuration::read(text).unwrap();
        let valid = Interface { container_id: "c1".to_owned(), name: "eth0".to_owned() };
        assert_eq!(configuration.valid, Some(vec![valid]));
        assert_eq!((configuration.socket, configuration.previous.is_some()), ("/x".into(), true));
    }

    #[test]
    fn what_is_wrong_has_its_code_and_is_named() {
        for (text, code, expected) in [
            ("", 6, "the configuration is not JSON"),
            ("{", 6, "the configuration is not JSON"),
            ("[]", 7, "the configuration's fields"),
            (r#"{"name":"pods"}"#, 1, "CNI version \"0.1.0\" is not supported"),
            (r#"{"cniVersion":"2.0.0","name":"pods"}"#, 1, "CNI version \"2.0.0\" is not supported"),
            (r#"{"cniVersion":"1.0.0"}"#, 7, "the configuration's name: is missing"),
            (
                r#"{"cniVersion":"1.0.0","name":"a","socket":"x"}"#,
                7,
                "the configuration's socket: is not an absolute path",
            ),
            (
                r#"{"cniVersion":"1.0.0","name":"a","socket":7}"#,
                7,
                "the configuration's fields: invalid type",
            ),
        ] {
            let error = Configuration::read(text).unwrap_err();
            assert_eq!(error.code(), code, "{text}: {error}");
            assert!(error.to_string().starts_with(expected), "{text}: {error}");
        }
    }
}
