//! How the steering tells the kernel's routing what is to go to `vhost0`, and the numbers that are ours there.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The routing table by which marked packets reach `vhost0`.
pub(super) const TABLE: u32 = 1641;

/// What marks routes and rules as ours (`proto` in the words of `ip`): the number that nobody has taken in
/// `/etc/iproute2/rt_protos`.
pub(super) const PROTOCOL: u8 = 86;

/// The preference of the first of our three rules. They stand one behind the other: marked packets are looked up in
/// [`TABLE`]; what the router alone may have goes nowhere else; then follows the `local` table, which by default stands
/// before everything.
pub(super) const PREFERENCE: u32 = 90;

/// Two bits of a packet's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    steered: u32,
}

/// Not a mark that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is not one of the bits 0x1 to 0x40000000")]
pub struct MarkError(String);

impl Marks {
    /// Bits that neither kube-proxy (0x4000, 0x8000) nor a usual CNI plugin takes.
    pub const DEFAULT: Self = Self { steered: 0x1000_0000 };

    /// The packet is to go to `vhost0`, if that is served. Otherwise the node's own stack has it.
    pub const fn offered(self) -> u32 {
        self.steered
    }

    /// The packet is the router's alone: while that is away it is dropped, as anything that the node's own stack would
    /// say to it would end a connection that goes on afterwards.
    pub const fn taken(self) -> u32 {
        self.steered | self.exclusive()
    }

    /// The bit that tells the two apart.
    pub(super) const fn exclusive(self) -> u32 {
        self.steered << 1
    }
}

impl FromStr for Marks {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let is_right = |mark: &u32| mark.is_power_of_two() && *mark < 1 << 31;
        let steered = number.filter(is_right).ok_or_else(|| MarkError(text.to_owned()))?;
        Ok(Self { steered })
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.steered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_one_bit_with_another_above_it() {
        assert_eq!("0x10000000".parse(), Ok(Marks::DEFAULT));
        assert_eq!((Marks::DEFAULT.offered(), Marks::DEFAULT.taken()), (0x1000_0000, 0x3000_0000));
        assert_eq!("16".parse::<Marks>().unwrap().taken(), 0x30);
        for bad in ["", "0", "3", "0x80000000", "bit", "0xg"] {
            assert!(bad.parse::<Marks>().is_err(), "{bad}");
        }
    }
}
