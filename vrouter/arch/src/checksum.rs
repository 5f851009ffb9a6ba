//! The Internet checksum's one's-complement sum (RFC 1071).
//!
//! The sum does not care how wide its words are, nor in which byte order they are added, as long as the carries come
//! round (RFC 1071 section 2). So bytes are added as 32-bit words into 64-bit lanes that cannot overflow, and folded
//! once at the end. The loop is written so that the compiler vectorises it; where the CPU has AVX2, the same loop runs
//! as compiled for that.

/// The one's-complement sum of the bytes as big-endian 16-bit words, an odd last byte padded with zero. Not
/// complemented: the checksum field of a packet is `!sum`.
///
/// Over a packet whose checksum is right, checksum field included, it is `0xffff`. It is `0` only if every byte is.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    if bytes.len() < WIDE_FROM { fold(add_words(bytes)) } else { wide(bytes) }
}

/// The sum of two sums.
#[inline]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// Below this many bytes, a headers' worth, asking for the CPU's features costs more than they bring.
const WIDE_FROM: usize = 128;

/// 32-bit words per turn of the wide loop.
const LANES: usize = 16;

/// Bytes per turn of the wide loop.
const STRIDE: usize = 4 * LANES;

fn wide(bytes: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, as was just asked.
        return unsafe { wide_avx2(bytes) };
    }
    wide_portable(bytes)
}

/// [`wide_portable`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn wide_avx2(bytes: &[u8]) -> u16 {
    wide_portable(bytes)
}

/// Each lane takes 2³² additions before it could overflow: 256 GiB.
#[inline(always)]
fn wide_portable(bytes: &[u8]) -> u16 {
    let (turns, rest) = bytes.as_chunks::<STRIDE>();
    let mut lanes = [0_u64; LANES];
    for turn in turns {
        let (words, _) = turn.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    fold(lanes.iter().fold(add_words(rest), |total, lane| total + lane))
}

/// The sum of 32-bit words in the CPU's own byte order, for fewer bytes than would overflow.
#[inline(always)]
fn add_words(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let total = words.iter().fold(0, |total, word| {
        let word = u64::from_ne_bytes(*word);
        total + (word & 0xffff_ffff) + (word >> 32)
    });
    total + add_last(rest)
}

/// The sum of the last, fewer than eight, bytes.
#[inline(always)]
fn add_last(mut rest: &[u8]) -> u64 {
    let mut total = 0;
    if let Some((word, after)) = rest.split_first_chunk::<4>() {
        total += u64::from(u32::from_ne_bytes(*word));
        rest = after;
    }
    if let Some((word, after)) = rest.split_first_chunk::<2>() {
        total += u64::from(u16::from_ne_bytes(*word));
        rest = after;
    }
    match rest {
        [last, ..] => total + u64::from(u16::from_ne_bytes([*last, 0])),
        [] => total,
    }
}

/// Brings the carries round, and the sum into network byte order.
#[inline(always)]
fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + ((total >> 16) & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    u16::from_be(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As RFC 1071 says it, word by word.
    fn naive(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0, |total, word| {
            add(total, u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
        })
    }

    /// Bytes without a pattern that a wrong sum could pass by.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .take(len)
        .collect()
    }

    #[test]
    fn every_length_and_alignment_as_the_naive_sum() {
        let noise = noise(320);
        let ones = vec![0xff; 320];
        for bytes in [&noise, &ones] {
            for start in 0..9 {
                for len in 0..=300 {
                    let part = &bytes[start..start + len];
                    assert_eq!(sum(part), naive(part), "{len} bytes from {start}");
                    assert_eq!(wide_portable(part), naive(part), "{len} bytes from {start}, portable");
                }
            }
        }
    }

    #[test]
    fn a_super_frame_as_the_naive_sum() {
        for len in [1447, 1448, 65_535, 65_536] {
            for bytes in [noise(len), vec![0xff; len], vec![0; len]] {
                assert_eq!(sum(&bytes), naive(&bytes), "{len} bytes");
            }
        }
    }

    #[test]
    fn every_fold_of_carries_comes_round() {
        for total in [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_ffff_fffe, u64::MAX, u64::MAX - 0xffff] {
            let expected = if total == 0 { 0 } else { ((total - 1) % 0xffff + 1) as u16 };
            assert_eq!(fold(total), u16::from_be(expected), "{total:#x}");
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let bytes = noise(200);
        for cut in 0..=200 {
            let (head, tail) = bytes.split_at(cut);
            // Behind an odd number of bytes, each byte stands in the other half of a word.
            let tail = if cut % 2 == 0 { sum(tail) } else { sum(tail).swap_bytes() };
            assert_eq!(add(sum(head), tail), sum(&bytes), "cut at {cut}");
        }
    }
}
