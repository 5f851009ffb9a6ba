//! Waiting for whatever is ready: epoll, with names for the descriptors.

use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use vrouter_forward::frame::PortId;

/// A descriptor that can be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Commands are waiting.
    Commands,
    /// The tunnel's descriptor of this number.
    Tunnel(u16),
    /// A port.
    Port(PortId),
}

const COMMANDS: u64 = 1 << 32;
const TUNNEL: u64 = 2 << 32;

impl Source {
    fn token(self) -> u64 {
        match self {
            Self::Commands => COMMANDS,
            Self::Tunnel(number) => TUNNEL | u64::from(number),
            Self::Port(port) => port.0.into(),
        }
    }

    fn of_token(token: u64) -> Self {
        match token {
            COMMANDS => Self::Commands,
            // Tokens are given in `token` only, so what is below is a number.
            tunnel if tunnel & TUNNEL != 0 => Self::Tunnel(tunnel as u16),
            port => Self::Port(PortId(port as u16)),
        }
    }
}

/// As many sources are served before the poller is asked again; the kernel goes round among more.
const ROUND: usize = 64;

/// What a worker waits on.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: Epoll,
    events: [EpollEvent; ROUND],
}

impl Poller {
    pub(super) fn new() -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, events: [EpollEvent::empty(); ROUND] })
    }

    /// Watches a descriptor. It is reported again and again for as long as something is to be read.
    pub(super) fn add(&self, source: Source, descriptor: &impl AsFd) -> nix::Result<()> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, source.token()))
    }

    /// Watches a descriptor no more. That it was not watched is no error.
    pub(super) fn remove(&self, descriptor: &impl AsFd) {
        // It can only fail by not being there.
        let _ = self.epoll.delete(descriptor);
    }

    /// Waits until something is ready, or so many milliseconds; `None`: for as long as it takes. Returns how many
    /// sources are ready.
    pub(super) fn wait(&mut self, milliseconds: Option<u16>) -> usize {
        let timeout = milliseconds.map_or(EpollTimeout::NONE, EpollTimeout::from);
        // It can only fail by being interrupted: the descriptor and the room are ours and right.
        self.epoll.wait(&mut self.events, timeout).unwrap_or(0)
    }

    /// The ready source of this number, below what [`Poller::wait`] returned.
    pub(super) fn ready(&self, number: usize) -> Source {
        Source::of_token(self.events[number].data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::{EfdFlags, EventFd};

    #[test]
    fn sources_have_their_own_tokens() {
        let ports = [0, 4095].map(|number| Source::Port(PortId(number)));
        let tunnels = [0, 1, u16::MAX].map(Source::Tunnel);
        for source in [Source::Commands].into_iter().chain(ports).chain(tunnels) {
            assert_eq!(Source::of_token(source.token()), source);
        }
    }

    #[test]
    fn what_is_ready_is_reported_until_it_is_read() {
        let mut poller = Poller::new().unwrap();
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        poller.add(Source::Port(PortId(7)), &event).unwrap();
        assert_eq!(poller.wait(Some(0)), 0);
        event.write(1).unwrap();
        for _ in 0..2 {
            assert_eq!(poller.wait(None), 1);
            assert_eq!(poller.ready(0), Source::Port(PortId(7)));
        }
        event.read().unwrap();
        assert_eq!(poller.wait(Some(0)), 0);
        event.write(1).unwrap();
        poller.remove(&event);
        assert_eq!(poller.wait(Some(0)), 0);
    }
}
