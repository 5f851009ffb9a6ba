//! What each direction of a connection has been seen to do, and what the two together mean.

use vrouter_objects::IpProtocol;

use crate::parse::TcpFlags;

/// What one direction's packets have shown so far. For anything but TCP only [`Seen::ANY`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen(pub(super) u8);

impl Seen {
    /// Any packet at all.
    pub(super) const ANY: u8 = 0x01;
    /// A SYN, with or without ACK.
    pub(super) const SYN: u8 = 0x02;
    /// An ACK that came after the other side's SYN: this side completed its half of the handshake.
    pub(super) const ACK: u8 = 0x04;
    /// A FIN.
    pub(super) const FIN: u8 = 0x08;
    /// A reset.
    pub(super) const RST: u8 = 0x10;
    /// The connection was taken up in its middle; there was no handshake to see.
    pub(super) const MIDSTREAM: u8 = 0x20;

    /// With a packet of this protocol seen, while the other direction has shown `other`.
    #[inline]
    pub(crate) fn with(self, flags: Option<TcpFlags>, other: Self) -> Self {
        let Some(flags) = flags else { return Self(self.0 | Self::ANY) };
        let mut seen = self.0 | Self::ANY;
        if flags.any(TcpFlags::SYN) {
            seen |= Self::SYN;
        }
        if flags.any(TcpFlags::ACK) && other.0 & (Self::SYN | Self::MIDSTREAM) != 0 {
            seen |= Self::ACK;
        }
        if flags.any(TcpFlags::FIN) {
            seen |= Self::FIN;
        }
        if flags.any(TcpFlags::RST) {
            seen |= Self::RST;
        }
        Self(seen)
    }

    /// The first packet of a flow.
    pub(crate) fn first(flags: Option<TcpFlags>) -> Self {
        match flags {
            Some(flags) if !flags.is_opening() => Self(Self::ANY | Self::MIDSTREAM | Self::ACK),
            flags => Self::default().with(flags, Self::default()),
        }
    }

    /// Any packet at all, for whoever only counts whether there was one.
    pub(crate) const fn any() -> Self {
        Self(Self::ANY)
    }

    /// Whether another packet of this kind can change nothing any more: the common case.
    #[inline]
    pub(crate) fn is_settled(self, flags: Option<TcpFlags>) -> bool {
        match flags {
            None => self.has(Self::ANY),
            Some(flags) => {
                !flags.any(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
                    && self.has(Self::ANY)
                    && self.has(Self::ACK)
            }
        }
    }

    /// What a TCP flow must have shown for a segment with these control bits to change nothing in it. For one that begins
    /// or ends a connection that is more than any flow shows.
    #[inline(always)]
    pub(crate) const fn settled_for(flags: TcpFlags) -> Self {
        const ENDS: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        if flags.0 & (ENDS | TcpFlags::ACK) == TcpFlags::ACK {
            Self(Self::ANY | Self::ACK)
        } else {
            Self(u8::MAX)
        }
    }

    /// Whether all of this was seen.
    #[inline(always)]
    pub(crate) const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The state of a connection; it decides how long the flow may be idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Nothing came back yet.
    Unreplied,
    /// TCP: both sides spoke, the initiator's ACK of the SYN-ACK is still to come.
    Handshake,
    /// Both sides spoke.
    Established,
    /// TCP: one side has finished.
    Closing,
    /// TCP: both sides have finished, or one was reset.
    Closed,
}

impl ConnectionState {
    /// What the two directions together mean.
    pub(crate) fn of(protocol: IpProtocol, initiator: Seen, responder: Seen) -> Self {
        let replied = responder.has(Seen::ANY);
        if protocol != IpProtocol::TCP {
            return if replied { Self::Established } else { Self::Unreplied };
        }
        let finished = [initiator, responder].iter().filter(|seen| seen.has(Seen::FIN)).count();
        if initiator.has(Seen::RST) || responder.has(Seen::RST) || finished == 2 {
            Self::Closed
        } else if finished == 1 && replied {
            Self::Closing
        } else if !replied {
            Self::Unreplied
        } else if initiator.has(Seen::ACK) {
            Self::Established
        } else {
            Self::Handshake
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreplied => "unreplied",
            Self::Handshake => "handshake",
            Self::Established => "established",
            Self::Closing => "closing",
            Self::Closed => "closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: u8 = TcpFlags::SYN;
    const ACK: u8 = TcpFlags::ACK;

    /// Plays packets, `true` from the initiator, and returns the state after them.
    fn play(packets: &[(bool, u8)]) -> ConnectionState {
        let (mut initiator, mut responder) = (Seen::default(), Seen::default());
        for (position, (from_initiator, flags)) in packets.iter().enumerate() {
            let flags = Some(TcpFlags(*flags));
            match (position, from_initiator) {
                (0, _) => initiator = Seen::first(flags),
                (_, true) => initiator = initiator.with(flags, responder),
                (_, false) => responder = responder.with(flags, initiator),
            }
        }
        ConnectionState::of(IpProtocol::TCP, initiator, responder)
    }

    #[test]
    fn states_follow_the_handshake_and_the_end() {
        use ConnectionState::*;
        let open = [(true, SYN), (false, SYN | ACK), (true, ACK)];
        let with = |more: &[(bool, u8)]| [&open[..], more].concat();
        let cases: &[(&[(bool, u8)], ConnectionState)] = &[
            (&open[..1], Unreplied),
            (&open[..2], Handshake),
            // Repeated SYN and SYN-ACK without the final ACK stay half open.
            (&[(true, SYN), (false, SYN | ACK), (true, SYN), (false, SYN | ACK)], Handshake),
            (&open, Established),
            (&with(&[(true, ACK | TcpFlags::FIN)]), Closing),
            (&with(&[(true, ACK | TcpFlags::FIN), (false, ACK | TcpFlags::FIN)]), Closed),
            (&with(&[(false, TcpFlags::RST)]), Closed),
            (&[(true, SYN), (false, ACK | TcpFlags::RST)], Closed),
            // Taken up in the middle.
            (&[(true, ACK)], Unreplied),
            (&[(true, ACK), (false, ACK)], Established),
        ];
        for (packets, expected) in cases {
            assert_eq!(play(packets), *expected, "{packets:?}");
        }
    }
}
