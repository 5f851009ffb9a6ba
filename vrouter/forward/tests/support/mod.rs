//! What all tests of this folder share: a small network to test on, and an independent reader of what comes out.
#![allow(dead_code, unused_imports)] // Each test file uses its part.

mod network;
mod reader;

pub use network::{
    ACK, ALL_PROTOCOLS, FAMILIES, FIN, RST, SYN, address, detach, dropped, drops, from_tunnel, gateway,
    node_mac, packet, publish, remove, remove_object, vip, vtep,
};
pub use reader::{Read, crc32c, has_valid_checksums, only, read, read_datagram, reassemble};

use vrouter_forward::frame::{Checksum, Offload, SegmentKind, Segmentation};

/// A super-frame's offload: a partial checksum at this transport offset, to be cut by `size`.
pub fn super_frame(kind: SegmentKind, start: u16, size: u16) -> Offload {
    Offload {
        checksum: partial(kind, start),
        segmentation: Some(Segmentation { kind, size: size.try_into().unwrap() }),
    }
}

/// A partial checksum of this transport at this offset.
pub fn partial(kind: SegmentKind, start: u16) -> Checksum {
    let offset = match kind {
        SegmentKind::Tcp => 16,
        SegmentKind::Udp => 6,
    };
    Checksum::Partial { start, offset }
}
