//! Whether a worker that found nothing to do asks again before it sleeps.

use vrouter_forward::frame::Time;

/// For how long it asks. Sleeping and being woken takes about as long in a virtual machine, where a core that went idle
/// has to be interrupted: so asking costs at most twice what sleeping would have.
const PATIENCE_MICROS: u64 = 60;

/// Learns from how long the last wait took. Where traffic is dense the next packet comes sooner than a sleeping worker
/// could be woken, so it is waited for awake; where it is not, and on an idle router, no time is spent on asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The last wait was long: sleep at once.
    Exhausted,
    /// The last wait was short: ask for a while.
    Fresh,
}

impl Patience {
    /// Until when a wait that began then is spent awake.
    pub(super) fn ends(self, began: Time) -> Time {
        match self {
            Self::Exhausted => began,
            Self::Fresh => Time(began.0 + PATIENCE_MICROS),
        }
    }

    /// What a wait from `began` to `ended` teaches for the next one.
    pub(super) fn after(began: Time, ended: Time) -> Self {
        let waited = ended.0.saturating_sub(began.0);
        if waited <= PATIENCE_MICROS { Self::Fresh } else { Self::Exhausted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Time = Time(1_000_000);

    #[test]
    fn a_packet_that_came_soon_makes_the_next_one_be_waited_for() {
        let patience = Patience::after(BEGAN, Time(BEGAN.0 + PATIENCE_MICROS));
        assert_eq!(patience.ends(BEGAN), Time(BEGAN.0 + PATIENCE_MICROS));
    }

    #[test]
    fn after_one_wait_in_vain_an_idle_worker_sleeps_at_once() {
        let patience = Patience::after(BEGAN, Time(BEGAN.0 + PATIENCE_MICROS + 1));
        assert_eq!(patience.ends(BEGAN), BEGAN);
    }
}
