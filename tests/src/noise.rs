//! Numbers that look random and are the same in every run.

/// A stream of them (xorshift): long without a repetition, so that a lost, doubled or swapped piece of it shows.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Default for Noise {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Noise {
    /// A number below this one, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.step() % limit as u64) as usize
    }

    /// A copy of a frame with some bytes from an offset on written over, and sometimes with its end cut off.
    pub fn damage(&mut self, frame: &[u8], from: usize) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for _ in 0..=self.below(3) {
            let at = from + self.below(frame.len() - from);
            frame[at] = self.step() as u8;
        }
        if self.below(4) == 0 {
            frame.truncate(from + self.below(frame.len() - from));
        }
        frame
    }

    fn step(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        Some(self.step() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_each_time_and_different_from_place_to_place() {
        let bytes: Vec<u8> = Noise::default().take(1000).collect();
        assert_eq!(bytes, Noise::default().take(1000).collect::<Vec<_>>());
        assert_ne!(bytes[..100], bytes[100..200]);
    }

    #[test]
    fn damage_leaves_the_front_alone() {
        let mut noise = Noise::default();
        let frame = [7; 40];
        let damaged: Vec<_> = (0..100).map(|_| noise.damage(&frame, 14)).collect();
        assert!(damaged.iter().all(|it| it[..14] == frame[..14] && it.len() <= 40));
        assert!(damaged.iter().any(|it| it.len() < 40) && damaged.iter().any(|it| it.len() == 40));
    }
}
