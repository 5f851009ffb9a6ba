//! The VXLAN header (RFC 7348 section 5).

use vrouter_objects::Vni;

/// Bytes of header between the outer UDP header and the inner frame.
pub(super) const HEADER_LEN: usize = 8;

/// The I bit: the VNI is valid.
const VALID_VNI: u8 = 0x08;

/// The VNI of a received packet and its inner frame. `None` if the packet is too short or its I bit is clear. All
/// reserved bits are ignored, as the RFC says: of extensions that use them, such as GPE, nothing is known here, and
/// what they carry is found out from the inner frame.
pub(super) fn parse(packet: &[u8]) -> Option<(Vni, &[u8])> {
    let (header, frame) = packet.split_first_chunk::<HEADER_LEN>()?;
    let [flags, _, _, _, a, b, c, _] = *header;
    if flags & VALID_VNI == 0 {
        return None;
    }
    // 24 bits are always a VNI.
    Vni::new(u32::from_be_bytes([0, a, b, c])).ok().map(|vni| (vni, frame))
}

/// The header of a packet to be sent, reserved bits zero.
pub(super) fn build(vni: Vni) -> [u8; HEADER_LEN] {
    let [_, a, b, c] = vni.get().to_be_bytes();
    [VALID_VNI, 0, 0, 0, a, b, c, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_parsed() {
        for number in [0, 1, 0x01_02_03, 0xff_ff_ff] {
            let vni = Vni::new(number).unwrap();
            let mut packet = build(vni).to_vec();
            packet.extend(*b"frame");
            assert_eq!(parse(&packet), Some((vni, &b"frame"[..])));
        }
    }

    #[test]
    fn vxlan_5_reserved_bits_are_ignored_and_the_i_bit_is_not() {
        let vni = Vni::new(42).unwrap();
        for byte in [0, 1, 2, 3, 7] {
            let mut packet = build(vni);
            packet[byte] |= if byte == 0 { 0xf7 } else { 0xff };
            assert_eq!(parse(&packet), Some((vni, &[][..])), "byte {byte}");
        }
        let mut packet = build(vni);
        packet[0] = 0xf7;
        assert_eq!(parse(&packet), None);
    }

    #[test]
    fn malf_4_a_packet_shorter_than_the_header_is_refused() {
        let packet = build(Vni::new(42).unwrap());
        for len in 0..HEADER_LEN {
            assert_eq!(parse(&packet[..len]), None, "{len} bytes");
        }
    }
}
