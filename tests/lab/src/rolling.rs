//! How a workload's pods of an earlier revision give way to new ones: a Deployment's `spec.strategy`.

use serde::{Deserialize, Serialize};

/// How pods of an earlier revision give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// New pods come and old ones go in turns, within these bounds.
    Rolling(Bounds),
    /// All old pods go before the first new one comes.
    Recreate,
    /// An old pod goes before its successor of the same name or on the same node comes.
    OneByOne,
    /// They stay.
    Never,
}

/// How far a rolling update may be from the number of pods that is wanted (`spec.strategy.rollingUpdate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// How many more there may be.
    #[serde(default = "Share::quarter")]
    max_surge: Share,
    /// How many may be missing among those that take traffic.
    #[serde(default = "Share::quarter")]
    max_unavailable: Share,
}

/// A number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
enum Share {
    Number(usize),
    Percent(usize),
}

/// As it stands in a manifest.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(usize),
    Text(String),
}

impl TryFrom<Written> for Share {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Number(number) => Ok(Self::Number(number)),
            Written::Text(text) => {
                let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
                percent.map(Self::Percent).ok_or_else(|| format!("{text:?}: wanted a number, or one with %"))
            }
        }
    }
}

impl From<Share> for Written {
    fn from(share: Share) -> Self {
        match share {
            Share::Number(number) => Self::Number(number),
            Share::Percent(percent) => Self::Text(format!("{percent}%")),
        }
    }
}

impl Share {
    const fn quarter() -> Self {
        Self::Percent(25)
    }

    const fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Percent(0))
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_surge: Share::quarter(), max_unavailable: Share::quarter() }
    }
}

impl Bounds {
    /// Whether they let anything happen at all.
    pub fn allow_progress(self) -> bool {
        !(self.max_surge.is_zero() && self.max_unavailable.is_zero())
    }

    /// The most pods there may be, and the fewest that must take traffic. As Kubernetes has it, shares of the one are
    /// rounded up and of the other down, and where both come to nothing one may be missing.
    pub fn of(self, wanted: usize) -> (usize, usize) {
        let surge = match self.max_surge {
            Share::Number(number) => number,
            Share::Percent(percent) => (wanted * percent).div_ceil(100),
        };
        let unavailable = match self.max_unavailable {
            Share::Number(number) => number,
            Share::Percent(percent) => wanted * percent / 100,
        };
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        (wanted + surge, wanted.saturating_sub(unavailable))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounds(text: serde_json::Value, wanted: usize) -> (usize, usize) {
        serde_json::from_value::<Bounds>(text).unwrap().of(wanted)
    }

    #[test]
    fn shares_are_rounded_as_kubernetes_rounds_them() {
        assert_eq!(bounds(json!({}), 10), (13, 8));
        assert_eq!(bounds(json!({}), 2), (3, 2));
        assert_eq!(bounds(json!({"maxSurge": 0, "maxUnavailable": "10%"}), 5), (5, 4));
        assert_eq!(bounds(json!({"maxSurge": "100%", "maxUnavailable": 0}), 3), (6, 3));
        assert_eq!(bounds(json!({"maxSurge": 1, "maxUnavailable": 9}), 3), (4, 0));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["a", "-1", "10 %", "%"] {
            assert!(serde_json::from_value::<Bounds>(json!({"maxSurge": text})).is_err(), "{text}");
        }
        let stuck: Bounds = serde_json::from_value(json!({"maxSurge": 0, "maxUnavailable": "0%"})).unwrap();
        assert!(!stuck.allow_progress());
    }
}
