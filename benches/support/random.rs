//! Numbers without a pattern that a cache or prefetcher could learn, the same in every run.

/// A xorshift generator (Marsaglia), scrambled by a multiplication.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence with this number.
    pub fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number below `bound`, uniformly.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(number) * bound as u128) >> 64) as usize
    }
}
