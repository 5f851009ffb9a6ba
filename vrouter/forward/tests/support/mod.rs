//! What all tests of this folder share: a small network to test on, and an independent reader of what comes
//! out.
#![allow(dead_code, unused_imports)] // Each test file uses its part.

mod network;
mod reader;

pub use network::{
    ACK, ALL_PROTOCOLS, FAMILIES, FIN, RST, SYN, address, detach, dropped, drops, from_tunnel, gateway,
    node_mac, packet, publish, remove, remove_object, vip, vtep,
};
pub use reader::{Read, crc32c, has_valid_checksums, leave_checksum, only, read, read_datagram, reassemble};
