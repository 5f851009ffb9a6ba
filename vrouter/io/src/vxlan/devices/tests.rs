use super::*;
use std::net::IpAddr;

use vrouter_objects::MacAddress;

const VNI: u32 = 7;

/// A frame as it is read from a device: the header that `header` is, and these bytes.
fn read(header: [u8; HEADER_LEN], bytes: &[u8]) -> (Frame, usize) {
    let mut frame = Frame::with_capacity(2_000);
    frame.room_mut(HEADER_LEN)[..HEADER_LEN].copy_from_slice(&header);
    frame.room_mut(0)[..bytes.len()].copy_from_slice(bytes);
    (frame, HEADER_LEN + bytes.len())
}

#[test]
fn a_frame_is_from_whom_its_source_address_says_or_from_nobody() {
    let vni = Vni::new(VNI).unwrap();
    let peer = (MacAddress::local(0x56, 2), IpAddr::from([172, 30, 0, 2]));
    let peers: Peers = [peer].into_iter().collect();
    let frame_from = |source: MacAddress| [&[2, 0x56, 0, 0, 0, 1][..], &source.0, &[0x08, 0, 0x45]].concat();
    let plain = [0; HEADER_LEN];
    // A segmentation without a checksum to be finished.
    let wrong = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let ingress = Ingress::Tunnel { source: peer.1, vni };
    for (what, header, bytes, expected) in [
        ("a peer's", plain, frame_from(peer.0), Ok(ingress)),
        ("a stranger's", plain, frame_from(MacAddress::local(0x56, 3)), Err(DropReason::UnknownVtep)),
        ("a stump", plain, vec![0; 11], Err(DropReason::PacketTruncated)),
        ("a bad header", wrong, frame_from(peer.0), Err(DropReason::InvalidOffload)),
    ] {
        let (mut frame, len) = read(header, &bytes);
        let taken = take_in(&mut frame, len, vni, &peers).map(|()| frame.ingress);
        assert_eq!(taken, expected, "{what}");
    }
}
