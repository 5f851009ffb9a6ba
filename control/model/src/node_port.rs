//! Node ports: the ports that a Service has at the addresses of every node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vrouter_objects::{ObjectError, Port};

/// A port at the addresses of every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u16", try_from = "u16")]
pub struct NodePort(pub Port);

impl From<NodePort> for u16 {
    fn from(port: NodePort) -> Self {
        port.0.get()
    }
}

impl TryFrom<u16> for NodePort {
    type Error = ObjectError;

    fn try_from(number: u16) -> Result<Self, ObjectError> {
        Port::new(number.into()).map(Self)
    }
}

/// The ports that Services may have at the nodes' addresses, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePortRange {
    first: u16,
    last: u16,
}

impl NodePortRange {
    /// Its first port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// Its last port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// Whether a port is one of these.
    pub fn contains(self, port: Port) -> bool {
        (self.first..=self.last).contains(&port.get())
    }

    /// How many of the lowest ports are left to Services that name theirs, as Kubernetes does: so a picked port is
    /// rarely one that a manifest names.
    pub fn static_band(self) -> u16 {
        match self.last - self.first {
            // Too few to set any aside.
            0..16 => 0,
            more => (more / 32).clamp(16, 128),
        }
    }
}

impl Default for NodePortRange {
    /// The range that Kubernetes has by default.
    fn default() -> Self {
        Self { first: 30_000, last: 32_767 }
    }
}

impl fmt::Display for NodePortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for NodePortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text.split_once('-').and_then(|(first, last)| {
            Some(Self { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? })
        });
        range
            .filter(|range| 0 < range.first && range.first <= range.last)
            .ok_or_else(|| format!("\"{text}\" is no range of ports, such as 30000-32767"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_people_write_them() {
        assert_eq!("30000-32767".parse(), Ok(NodePortRange::default()));
        assert_eq!("80-80".parse::<NodePortRange>().unwrap().to_string(), "80-80");
        for text in ["", "30000", "0-80", "9-8", "1-65536", "a-b", "-1-5"] {
            assert!(text.parse::<NodePortRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_static_band_is_as_kubernetes_has_it() {
        for (range, band) in
            [("30000-32767", 86), ("30000-30010", 0), ("1-65535", 128), ("1-64", 16), ("1-16", 0)]
        {
            assert_eq!(range.parse::<NodePortRange>().unwrap().static_band(), band, "{range}");
        }
    }
}
