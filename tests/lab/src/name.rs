//! A lab's name, and everything that is named after it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Error, bail};

use crate::netns::Netns;

/// The environment variable that every process of a lab bears, with the lab's name.
pub const MARKER: &str = "VROUTER_LAB_NAME";

/// A lab's name: lower-case letters, digits and inner hyphens, at most 32 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabName(String);

impl FromStr for LabName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > 32 || !text.chars().all(allowed) || text.starts_with('-') {
            bail!(
                "lab name {text:?}: wanted 1 to 32 lower-case letters, digits and hyphens, no hyphen first"
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LabName {
    /// What processes of this lab have in their environment.
    pub fn marker(&self) -> String {
        format!("{MARKER}={}", self.0)
    }

    /// The namespace that plays this part in this lab.
    pub fn netns(&self, part: &Part) -> Netns {
        Netns::named(format!("vrl-{}-{part}", self.0))
    }

    /// Whether a namespace of this name is this lab's. Lab `a` does not own `vrl-a-b-n1`: that is lab `a-b`'s.
    pub fn owns_netns(&self, name: &str) -> bool {
        name.strip_prefix(&format!("vrl-{}-", self.0)).is_some_and(|part| part.parse::<Part>().is_ok())
    }

    /// The folder with all the lab's files.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from("/run/vrouter-lab").join(&self.0)
    }

    /// The file that a command which changes the lab holds a lock on.
    pub fn lock_file(&self) -> PathBuf {
        PathBuf::from("/run/vrouter-lab").join(format!("{}.lock", self.0))
    }

    /// A node's flow table.
    pub fn flow_table(&self, node: &str) -> PathBuf {
        PathBuf::from(format!("/dev/shm/vrouter-lab.{}.{node}.flows", self.0))
    }

    /// Whether a file of this name in `/dev/shm` is this lab's.
    pub fn owns_shared_memory(&self, name: &str) -> bool {
        name.starts_with(&format!("vrouter-lab.{}.", self.0))
    }
}

/// The part a network namespace plays in a lab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The bridge that joins the others.
    Underlay,
    /// Where the controller runs.
    Control,
    /// The outside client.
    Client,
    /// Another one.
    SecondClient,
    /// What is beyond the nodes' own network.
    Internet,
    /// A node: `n1`, or `k1` for one that the kernel forwards on.
    Node(String),
    /// A pod, by the first twelve digits of its container id.
    Pod(String),
    /// A part of the kernel's own path, set up beside the lab to measure against.
    Baseline(String),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Underlay => f.write_str("underlay"),
            Self::Control => f.write_str("control"),
            Self::Client => f.write_str("client"),
            Self::SecondClient => f.write_str("client2"),
            Self::Internet => f.write_str("internet"),
            Self::Node(name) => f.write_str(name),
            Self::Pod(id) => write!(f, "pod-{id}"),
            Self::Baseline(role) => write!(f, "kernel-{role}"),
        }
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = |text: &str, allowed: fn(char) -> bool| !text.is_empty() && text.chars().all(allowed);
        Ok(match text {
            "underlay" => Self::Underlay,
            "control" => Self::Control,
            "client" => Self::Client,
            "client2" => Self::SecondClient,
            "internet" => Self::Internet,
            _ => {
                if let Some(id) = text.strip_prefix("pod-")
                    && id.len() == 12
                    && all(id, |c| c.is_ascii_hexdigit())
                {
                    Self::Pod(id.to_owned())
                } else if let Some(role) = text.strip_prefix("kernel-")
                    && all(role, |c| c.is_ascii_lowercase())
                    && !["underlay", "control", "client", "internet"].contains(&role)
                {
                    Self::Baseline(role.to_owned())
                } else if let Some(number) = text.strip_prefix(['n', 'k'])
                    && all(number, |c| c.is_ascii_digit())
                {
                    Self::Node(text.to_owned())
                } else {
                    bail!("{text:?} is no part of a lab");
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_back_what_they_print() {
        let parts = [
            Part::Underlay,
            Part::Control,
            Part::Client,
            Part::SecondClient,
            Part::Internet,
            Part::Node("n12".into()),
            Part::Node("k1".into()),
            Part::Pod("0123456789ab".into()),
            Part::Baseline("podone".into()),
        ];
        for part in parts {
            assert_eq!(part.to_string().parse::<Part>().unwrap(), part);
        }
    }

    #[test]
    fn a_lab_owns_its_namespaces_and_no_other_labs() {
        let lab: LabName = "a".parse().unwrap();
        assert!(lab.owns_netns("vrl-a-n1"));
        assert!(lab.owns_netns("vrl-a-pod-0123456789ab"));
        for other in [
            "vrl-a-b-n1",
            "vrl-ab-n1",
            "vrl-a-pod-n1",
            "vrl-a-n1-n1",
            "vrl-a-kernel-n1",
            "vrl-a-kernel-client",
            "vrl-a-kernel-client2",
            "vrl-a-kernel-internet",
            "n1",
        ] {
            assert!(!lab.owns_netns(other), "{other}");
        }
        assert!(!lab.owns_shared_memory("vrouter-lab.a-b.n1.flows"));
    }

    #[test]
    fn names_are_checked() {
        for name in ["", "-a", "A", "a.b", "a/b", "a b"] {
            assert!(name.parse::<LabName>().is_err(), "{name:?}");
        }
        assert!("lab-2".parse::<LabName>().is_ok());
    }
}
