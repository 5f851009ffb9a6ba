//! A token bucket: so many per second, saved up for one second at most.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::quality::FixedState;

use crate::frame::{Ingress, PortId, Time};

/// Limits the answers to one sender (RFC 4443 section 2.4 f).
#[derive(Debug)]
struct Limiter {
    per_second: u32,
    /// In millionths of a token, so that microseconds count.
    millionths: u64,
    last: Time,
}

const TOKEN: u64 = 1_000_000;

impl Limiter {
    fn new(per_second: u32) -> Self {
        Self { per_second, millionths: u64::from(per_second) * TOKEN, last: Time::default() }
    }

    /// Takes a token if there is one.
    fn allow(&mut self, now: Time) -> bool {
        let elapsed = now.0.saturating_sub(self.last.0).min(TOKEN);
        self.last = now;
        let full = u64::from(self.per_second) * TOKEN;
        self.millionths = (self.millionths + elapsed * u64::from(self.per_second)).min(full);
        let allowed = self.millionths >= TOKEN;
        if allowed {
            self.millionths -= TOKEN;
        }
        allowed
    }
}

/// A limit for each sender: what one of them is told costs the others nothing.
#[derive(Debug)]
pub(super) struct Limiters {
    per_second: u32,
    /// As many as there are ports and nodes.
    senders: HashMap<Sender, Limiter, FixedState>,
}

/// Whoever is told something: a local port, or all that is behind another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    Port(PortId),
    Router(IpAddr),
}

impl Limiters {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, senders: HashMap::with_hasher(FixedState::with_seed(0)) }
    }

    /// Takes a token of this sender if there is one.
    pub(super) fn allow(&mut self, sender: Ingress, now: Time) -> bool {
        let sender = match sender {
            Ingress::Port(port) => Sender::Port(port),
            Ingress::Tunnel { source, .. } => Sender::Router(source),
        };
        self.senders.entry(sender).or_insert_with(|| Limiter::new(self.per_second)).allow(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_as_many_as_it_should() {
        let mut limiter = Limiter::new(10);
        let start = Time::from_millis(5000);
        let allowed = |limiter: &mut Limiter, at| (0..100).filter(|_| limiter.allow(at)).count();
        assert_eq!(allowed(&mut limiter, start), 10);
        assert_eq!(allowed(&mut limiter, start.plus_millis(500)), 5);
        assert_eq!(allowed(&mut limiter, start.plus_millis(60_000)), 10);
    }
}
