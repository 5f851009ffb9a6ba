//! The number that grows whenever anything of any nftables table changes in this network namespace: asking the kernel for
//! it costs next to nothing, and most of the time says that there is nothing to look at.

use std::io;

use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{Socket, SocketAddr};

/// `NFNL_SUBSYS_NFTABLES`, `NFT_MSG_NEWGEN` and `NFT_MSG_GETGEN` of Linux's `nfnetlink.h` and `nf_tables.h`.
const NEW_GENERATION: u16 = 10 << 8 | 15;
const GET_GENERATION: u16 = 10 << 8 | 16;
const REQUEST: u16 = 1;
/// `NFTA_GEN_ID`.
const GENERATION_ID: u16 = 1;
/// Of a netlink message, and of netfilter's own after it.
const HEADER_BYTES: usize = 16;
const NETFILTER_HEADER_BYTES: usize = 4;

/// The number; `None` where the kernel does not say.
pub(super) fn current() -> Option<u32> {
    let answer = ask().ok()?;
    read(&answer)
}

fn ask() -> io::Result<Vec<u8>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let length = (HEADER_BYTES + NETFILTER_HEADER_BYTES) as u32;
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend(GET_GENERATION.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // Sequence, port; then any family, version 0 and no resource.
    request.resize(length as usize, 0);
    socket.send(&request, 0)?;
    Ok(socket.recv_from_full()?.0)
}

fn read(message: &[u8]) -> Option<u32> {
    let kind = message.get(4..6)?;
    if kind != NEW_GENERATION.to_ne_bytes() {
        return None;
    }
    let mut attributes = message.get(HEADER_BYTES + NETFILTER_HEADER_BYTES..)?;
    while let Some(header) = attributes.first_chunk::<4>() {
        let [length_0, length_1, kind_0, kind_1] = *header;
        let length = usize::from(u16::from_ne_bytes([length_0, length_1]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([kind_0, kind_1]) == GENERATION_ID {
            return Some(u32::from_be_bytes(value.try_into().ok()?));
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_among_the_attributes() {
        let mut message = vec![0; HEADER_BYTES + NETFILTER_HEADER_BYTES];
        message[4..6].copy_from_slice(&NEW_GENERATION.to_ne_bytes());
        let mut attribute = |kind: u16, value: [u8; 4]| {
            message.extend(8_u16.to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(value);
        };
        attribute(2, [9; 4]);
        attribute(1, [0, 0, 1, 2]);
        assert_eq!(read(&message), Some(0x102));
        for length in 0..message.len() {
            assert_eq!(read(&message[..length]), None, "cut to {length}");
        }
        message[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(read(&message), None, "an error is no answer");
    }
}
