//! What each direction of a connection has been seen to do, and what the two together mean.

use vrouter_objects::IpProtocol;

use crate::parse::TcpFlags;

/// What one direction's packets have shown so far. For anything but TCP only [`Seen::ANY`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen(pub(super) u8);

impl Seen {
    /// Any packet at all.
    pub(crate) const ANY: Self = Self(0x01);
    /// A SYN, with or without ACK.
    const SYN: Self = Self(0x02);
    /// An ACK that came after the other side's SYN: this side completed its half of the handshake.
    const ACK: Self = Self(0x04);
    /// A FIN.
    const FIN: Self = Self(0x08);
    /// A reset.
    const RST: Self = Self(0x10);
    /// The connection was taken up in its middle; there was no handshake to see.
    const MIDSTREAM: Self = Self(0x20);

    /// What no flow shows.
    const NEVER: Self = Self(u8::MAX);

    /// With a packet of this protocol seen, while the other direction has shown `other`.
    #[inline]
    pub(crate) fn with(self, flags: Option<TcpFlags>, other: Self) -> Self {
        let mut seen = self.and(Self::ANY);
        let Some(flags) = flags else { return seen };
        if flags.any(TcpFlags::SYN) {
            seen = seen.and(Self::SYN);
        }
        if flags.any(TcpFlags::ACK) && other.has_any(Self::SYN.and(Self::MIDSTREAM)) {
            seen = seen.and(Self::ACK);
        }
        if flags.any(TcpFlags::FIN) {
            seen = seen.and(Self::FIN);
        }
        if flags.any(TcpFlags::RST) {
            seen = seen.and(Self::RST);
        }
        seen
    }

    /// The first packet of a flow.
    pub(crate) fn first(flags: Option<TcpFlags>) -> Self {
        match flags {
            Some(flags) if !flags.is_opening() => Self::ANY.and(Self::MIDSTREAM).and(Self::ACK),
            flags => Self::default().with(flags, Self::default()),
        }
    }

    /// What a flow must have shown for a packet, with these control bits if it is TCP, to change nothing in
    /// it. For one that begins or ends a connection that is more than any flow shows.
    #[inline(always)]
    pub(crate) const fn settled_for(flags: Option<TcpFlags>) -> Self {
        const ENDS: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        match flags {
            None => Self::ANY,
            Some(flags) if flags.0 & (ENDS | TcpFlags::ACK) == TcpFlags::ACK => Self::ANY.and(Self::ACK),
            Some(_) => Self::NEVER,
        }
    }

    /// This and that.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of this was seen.
    #[inline(always)]
    pub(crate) const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
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
        let replied = responder.includes(Seen::ANY);
        if protocol != IpProtocol::TCP {
            return if replied { Self::Established } else { Self::Unreplied };
        }
        let finished = [initiator, responder].iter().filter(|seen| seen.includes(Seen::FIN)).count();
        if initiator.includes(Seen::RST) || responder.includes(Seen::RST) || finished == 2 {
            Self::Closed
        } else if finished == 1 && replied {
            Self::Closing
        } else if !replied {
            Self::Unreplied
        } else if initiator.includes(Seen::ACK) {
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
