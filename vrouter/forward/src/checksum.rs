//! The Internet checksum, whole and incrementally (RFC 1624), and SCTP's CRC32c.

use vrouter_arch::checksum::{add, sum};

/// The one's-complement difference between old and new contents, to be added to a checksum over them. Carries
/// gather in the upper bits, far below their end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delta(u64);

impl Delta {
    /// One 16-bit word becomes another.
    #[inline]
    pub(crate) fn word(self, old: u16, new: u16) -> Self {
        Self(self.0 + u64::from(!old) + u64::from(new))
    }

    /// Two words that follow each other become others. That they are added as one number makes no difference
    /// once carries have come round (RFC 1071 section 2).
    #[inline]
    pub(crate) fn double(self, old: u32, new: u32) -> Self {
        Self(self.0 + u64::from(!old) + u64::from(new))
    }

    /// Bytes become others, of the same even length, at an even offset of what is summed.
    #[inline]
    pub(crate) fn bytes(self, old: &[u8], new: &[u8]) -> Self {
        let words = |bytes: &'_ [u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        (0..old.len().min(new.len()))
            .step_by(2)
            .fold(self, |delta, at| delta.word(words(old, at), words(new, at)))
    }

    /// The checksum (complemented, as it stands in a header) after the change.
    #[inline]
    pub(crate) fn apply(self, checksum: u16) -> u16 {
        !self.apply_to_sum(!checksum)
    }

    /// A plain sum, such as the pseudo-header's seed of a partial checksum, after the change.
    #[inline]
    pub(crate) fn apply_to_sum(self, sum: u16) -> u16 {
        fold(self.0 + u64::from(sum))
    }
}

/// A [`Delta`] that is known beforehand, ready to be applied to fields as they stand in packets: the order of
/// their bytes makes no difference to the sum (RFC 1071 section 2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Adjustment(u16);

impl Adjustment {
    /// What taking one hop off a TTL does to the word it stands in.
    pub(crate) const HOP: Self = Self(u16::to_be(0xffff - 0x0100));

    /// The adjustment that [`Adjustment::bits`] were of.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// What undoes it. Either zero is its own opposite.
    #[inline]
    pub(crate) const fn reversed(self) -> Self {
        match self.0 {
            0 | 0xffff => self,
            bits => Self(!bits),
        }
    }

    /// To be kept.
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The checksum after the change. Adding to its complement is taking away from it, and the borrow comes
    /// round like a carry.
    #[inline(always)]
    pub(crate) fn apply(self, checksum: [u8; 2]) -> [u8; 2] {
        let (difference, borrow) = u16::from_ne_bytes(checksum).overflowing_sub(self.0);
        (difference - u16::from(borrow)).to_ne_bytes()
    }

    /// A plain sum after the change.
    #[inline(always)]
    pub(crate) fn apply_to_sum(self, sum: [u8; 2]) -> [u8; 2] {
        let (total, carry) = u16::from_ne_bytes(sum).overflowing_add(self.0);
        (total + u16::from(carry)).to_ne_bytes()
    }
}

impl From<Delta> for Adjustment {
    fn from(delta: Delta) -> Self {
        Self(fold(delta.0).to_be())
    }
}

/// Lets the carries come round.
#[inline]
fn fold(sum: u64) -> u16 {
    let (double, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    // No carry comes twice: what overflowed left less than the largest number behind.
    let double = double + u32::from(carry);
    let (word, carry) = (double as u16).overflowing_add((double >> 16) as u16);
    word + u16::from(carry)
}

/// The sum over the pseudo-header of a packet with `len` bytes of transport header and payload.
#[inline]
pub(crate) fn pseudo_header_sum(source: &[u8], destination: &[u8], protocol: u8, len: usize) -> u16 {
    // An IP packet has less than 64 KiB, so the upper half of IPv6's 32-bit length is zero.
    add(add(sum(source), sum(destination)), add(protocol.into(), len as u16))
}

/// The checksum over a pseudo-header and the transport packet behind it, whose checksum field is zero.
pub(crate) fn transport_checksum(source: &[u8], destination: &[u8], protocol: u8, packet: &[u8]) -> u16 {
    !add(pseudo_header_sum(source, destination, protocol, packet.len()), sum(packet))
}

/// The checksum over a header or message whose checksum field is zero.
pub(crate) fn header_checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// A computed UDP checksum as it is sent: zero would say that there is none (RFC 768).
#[inline]
pub(crate) const fn udp_checksum(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

const CRC32C_POLYNOMIAL: u32 = 0x82f6_3b78;

const CRC32C_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ CRC32C_POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// SCTP's checksum (RFC 9260 appendix A) over a packet whose checksum field counts as zero.
pub(crate) fn sctp_crc(packet: &[u8]) -> u32 {
    let step = |crc: u32, byte: u8| crc >> 8 ^ CRC32C_TABLE[usize::from(crc as u8 ^ byte)];
    let field = 8..12;
    let bytes = packet.iter().enumerate();
    !bytes.fold(!0, |crc, (at, byte)| step(crc, if field.contains(&at) { 0 } else { *byte }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn incremental_equals_full(
            mut data in proptest::collection::vec(any::<u8>(), 20..60),
            new in any::<[u8; 4]>(),
        ) {
            data.truncate(data.len() & !1);
            let before = header_checksum(&data);
            let delta = Delta::default().bytes(&data[4..8], &new);
            data[4..8].copy_from_slice(&new);
            // Both zeroes of one's complement mean the same.
            let same = |checksum: u16| if checksum == 0xffff { 0 } else { checksum };
            prop_assert_eq!(same(delta.apply(before)), same(header_checksum(&data)));
            prop_assert_eq!(same(!delta.apply_to_sum(!before)), same(header_checksum(&data)));
        }

        #[test]
        fn an_adjustment_is_its_delta(
            words in proptest::collection::vec(any::<(u16, u16)>(), 0..10),
            field: u16,
        ) {
            let delta = words.iter().fold(Delta::default(), |delta, (old, new)| delta.word(*old, *new));
            let adjustment = Adjustment::from(delta);
            let bytes = field.to_be_bytes();
            prop_assert_eq!(adjustment.apply(bytes), delta.apply(field).to_be_bytes());
            prop_assert_eq!(adjustment.apply_to_sum(bytes), delta.apply_to_sum(field).to_be_bytes());
        }

        #[test]
        fn a_reversed_adjustment_undoes_it(old: [u8; 4], new: [u8; 4], field: u16) {
            let adjustment = Adjustment::from(Delta::default().bytes(&old, &new));
            let undone = adjustment.reversed().apply(adjustment.apply(field.to_be_bytes()));
            // Both zeroes of one's complement mean the same.
            prop_assert_eq!(u16::from_be_bytes(undone) % 0xffff, field % 0xffff);
        }
    }

    #[test]
    fn crc32c_of_the_standard_check_string() {
        // The check value of CRC-32C, with the checksum field's place filled by zeroes.
        let mut packet = *b"12345678\0\0\0\x009";
        packet[12] = b'9';
        let plain = |bytes: &[u8]| {
            !bytes.iter().fold(!0_u32, |crc, byte| crc >> 8 ^ CRC32C_TABLE[usize::from(crc as u8 ^ byte)])
        };
        assert_eq!(plain(b"123456789"), 0xe306_9283);
        assert_eq!(sctp_crc(&packet), plain(b"12345678\0\0\0\x009"));
    }
}
