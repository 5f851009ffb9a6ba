//! How many buffers are read at once.

/// The most buffers that are read at once, when they are small.
pub(super) const MOST_BUFFERS: usize = 32;
/// As many bytes may be read at once as stay in the cache until they are sent.
const MOST_BYTES: usize = 192 << 10;

/// How many buffers the next read offers. Buffers that come back full are few and hot; small ones many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window(usize);

impl Window {
    pub(super) fn new() -> Self {
        Self(2)
    }

    pub(super) fn get(self) -> usize {
        self.0
    }

    /// Doubles where more small buffers were waiting than could be read, and shrinks where few large ones are enough.
    pub(super) fn adapt(&mut self, count: usize, bytes: usize) {
        if bytes > MOST_BYTES {
            self.0 = (self.0 / 2).max(2);
        } else if count == self.0 && 2 * bytes <= MOST_BYTES {
            self.0 = (self.0 * 2).min(MOST_BUFFERS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_few_and_small_ones_many() {
        let settled = |size: usize| {
            let mut window = Window::new();
            (0..20).for_each(|_| window.adapt(window.get(), window.get() * size));
            window.get()
        };
        assert_eq!(settled(64_000), 2);
        assert_eq!(settled(1_500), 32);
        let mut window = Window(32);
        (0..20).for_each(|_| window.adapt(1, 100));
        assert_eq!(window, Window(32));
        window.adapt(32, 32 * 64_000);
        assert_eq!(window, Window(16));
    }
}
