//! What the underlay leaves to a pod.

use std::net::IpAddr;

/// Outer Ethernet is not counted in a link's MTU; inner Ethernet, VXLAN and UDP are, and the outer IP header.
const VXLAN_BYTES: u32 = 14 + 8 + 8;
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;

/// The largest IP packet that still fits into one VXLAN packet over a link with this MTU.
pub fn pod_mtu(underlay: u32, vtep: IpAddr) -> u16 {
    let outer = VXLAN_BYTES + if vtep.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
    u16::try_from(underlay.saturating_sub(outer)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cni_9_pod_mtu_leaves_room_for_the_tunnel() {
        let (v4, v6) = (IpAddr::from([172, 30, 0, 1]), "fd00::1".parse().unwrap());
        for (underlay, vtep, expected) in [
            (1500, v4, 1450),
            (1500, v6, 1430),
            (9000, v4, 8950),
            (9000, v6, 8930),
            (65_536, v4, 65_486),
            (20, v4, 0),
        ] {
            assert_eq!(pod_mtu(underlay, vtep), expected, "{underlay} {vtep}");
        }
    }
}
