//! Versions of the CNI specification.

use serde_json::{Value, json};

use crate::error::CniError;

/// A version of the specification that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpecVersion {
    /// 0.3.1: ADD and DEL.
    V0_3_1,
    /// 0.4.0: and CHECK.
    V0_4_0,
    /// 1.0.0: addresses no longer say their family.
    V1_0_0,
    /// 1.1.0: and STATUS and GC.
    V1_1_0,
}

impl SpecVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 4] = [Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];
    /// The newest one.
    pub const LATEST: Self = Self::V1_1_0;

    /// As it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version that is written so.
    pub fn parse(text: &str) -> Result<Self, CniError> {
        let found = Self::ALL.into_iter().find(|version| version.text() == text);
        found.ok_or_else(|| CniError::Version(text.to_owned()))
    }

    /// Refuses an operation that came with a later version than the configuration's.
    pub fn require(self, first: Self, operation: &'static str) -> Result<(), CniError> {
        if self >= first { Ok(()) } else { Err(CniError::TooOld { operation, version: self, first }) }
    }
}

/// The answer to VERSION: in the version that was asked in, where it says one.
pub fn report(input: &str) -> Result<Value, CniError> {
    let asked = if input.trim().is_empty() {
        Value::Null
    } else {
        serde_json::from_str::<Value>(input).map_err(CniError::Decode)?
    };
    let version = asked["cniVersion"].as_str().unwrap_or(SpecVersion::LATEST.text());
    let supported = SpecVersion::ALL.map(SpecVersion::text);
    Ok(json!({ "cniVersion": version, "supportedVersions": supported }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_reported_in_the_version_asked_in() {
        let supported = json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
        for (input, version) in [("", "1.1.0"), ("{}", "1.1.0"), (r#"{"cniVersion":"0.4.0"}"#, "0.4.0")] {
            let expected = json!({ "cniVersion": version, "supportedVersions": supported });
            assert_eq!(report(input).unwrap(), expected, "{input}");
        }
        assert_eq!(report("{").unwrap_err().code(), 6);
    }

    #[test]
    fn operations_need_the_version_that_brought_them() {
        assert!(SpecVersion::V0_3_1.require(SpecVersion::V0_4_0, "CHECK").is_err());
        assert!(SpecVersion::V1_1_0.require(SpecVersion::V0_4_0, "CHECK").is_ok());
        assert_eq!(SpecVersion::parse("2.0.0").unwrap_err().code(), 1);
    }
}
