//! Ranges of ports, as people and the kernel write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// Consecutive ports, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Not what a range of ports looks like.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is no range of ports such as 61000-65535")]
pub struct PortRangeError(String);

impl PortRange {
    /// What source translation takes unless it is told otherwise: what Linux by default gives to nobody.
    pub const SOURCE_PORTS: Self = Self { first: 61_000, last: 65_535 };

    /// From its first to its last port.
    pub fn range(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// Whether the two have a port in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.trim().parse().ok().zip(last.trim().parse().ok());
        let range = range.map(|(first, last)| Self { first, last });
        range
            .filter(|range| range.first > 0 && range.first <= range.last)
            .ok_or_else(|| PortRangeError(text.to_owned()))
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// Ports as the kernel lists them: ascending, no two ranges touching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortList(Vec<PortRange>);

impl PortList {
    /// The list with some more ports.
    pub(super) fn with(&self, range: PortRange) -> Self {
        let mut ranges = self.0.clone();
        ranges.push(range);
        ranges.sort_unstable();
        let mut merged: Vec<PortRange> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        Self(merged)
    }
}

impl FromStr for PortList {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for PortList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_compared() {
        let range = |text: &str| text.parse::<PortRange>().unwrap();
        assert_eq!(range("61000-65535"), PortRange::SOURCE_PORTS);
        assert_eq!(range("80").range(), 80..=80);
        assert!(range("61000-65535").overlaps(range("32768-61000")));
        assert!(!range("61000-65535").overlaps(range("32768-60999")));
        for bad in ["", "0-7", "9-8", "1-65536", "a-b", "1-2-3"] {
            assert!(bad.parse::<PortRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_is_as_the_kernel_prints_it() {
        for (list, more, expected) in [
            ("", "61000-65535", "61000-65535"),
            ("8080,9148", "61000-65535", "8080,9148,61000-65535"),
            ("60000-60999", "61000-65535", "60000-65535"),
            ("62000,61000-61500", "61000-65535", "61000-65535"),
            ("60000-65535", "61000-65535", "60000-65535"),
        ] {
            let list: PortList = list.parse().unwrap();
            assert_eq!(list.with(more.parse().unwrap()).to_string(), expected);
        }
    }
}
