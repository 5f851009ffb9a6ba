//! The time that the core is told, and the boot it belongs to.

use std::fmt;
use std::io;

use nix::time::{ClockId, clock_gettime};
use vrouter_forward::frame::Time;

use crate::IoError;

/// Now, on CLOCK_BOOTTIME: it goes on while the machine sleeps, and is the same for a process started later.
pub fn boot_time() -> Time {
    // The clock is there since Linux 2.6.39; without it no time would pass, and nothing age.
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(|now| Time(now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1_000))
        .unwrap_or_default()
}

/// Which boot of the machine this is. Times of another boot mean nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootId(pub [u8; 16]);

/// This boot's id, as the kernel made it.
pub fn boot_id() -> Result<BootId, IoError> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(IoError::BootId)?;
    parse_uuid(text.trim()).map(BootId).ok_or_else(|| {
        IoError::BootId(io::Error::new(io::ErrorKind::InvalidData, format!("\"{}\" is no UUID", text.trim())))
    })
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| (high << 4 | low) as u8).collect();
    bytes.try_into().ok()
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot {self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let before = boot_time();
        assert!(before > Time(0));
        assert!(boot_time() >= before);
    }

    #[test]
    fn the_boot_has_one_id() {
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        assert_eq!(parse_uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap()[15], 0xff);
        for bad in ["", "0011", "00112233-4455-6677-8899-aabbccddeef", "zz112233-4455-6677-8899-aabbccddeeff"]
        {
            assert_eq!(parse_uuid(bad), None, "{bad}");
        }
    }
}
