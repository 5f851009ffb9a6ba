//! What names one direction of a connection.

use std::hash::{BuildHasher, Hasher};

use vrouter_objects::{IpProtocol, RouterId, VrfId};

use crate::address::Address;

/// Which way a flow's packets came into the cluster. Two flows of one client address and port that came in at
/// different nodes are different flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// From within: the source's route leads back to it.
    Cluster,
    /// From outside, through this node's `vhost0`.
    Host,
    /// From outside, through another node.
    Router(RouterId),
}

/// VRF, origin and 5-tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The VRF its packets are looked up in.
    pub vrf: VrfId,
    /// Where they came into the cluster.
    pub origin: Origin,
    /// Source address.
    pub source: Address,
    /// Destination address.
    pub destination: Address,
    /// Source port, or ICMP identifier.
    pub source_port: u16,
    /// Destination port, or ICMP identifier.
    pub destination_port: u16,
    /// IP protocol.
    pub protocol: IpProtocol,
}

/// How many 64-bit words a packed key has.
pub(super) const KEY_WORDS: usize = 6;

/// A key as the table stores, hashes and compares it.
pub(crate) type PackedKey = [u64; KEY_WORDS];

const ORIGIN_HOST: u32 = u32::MAX;

impl FlowKey {
    /// The key as the table stores and compares it.
    #[inline]
    pub(super) fn pack(&self) -> PackedKey {
        let (source, destination) = (self.source.bits(), self.destination.bits());
        let origin = match self.origin {
            Origin::Cluster => 0,
            Origin::Host => ORIGIN_HOST,
            Origin::Router(router) => router.get(),
        };
        [
            (source >> 64) as u64,
            source as u64,
            (destination >> 64) as u64,
            destination as u64,
            u64::from(self.source_port) << 48
                | u64::from(self.destination_port) << 32
                | u64::from(self.protocol.0),
            u64::from(self.vrf.get()) << 32 | u64::from(origin),
        ]
    }

    /// What [`FlowKey::pack`] makes of a packet from within the cluster with both of these addresses, upper halves first, and
    /// both of these ports.
    #[inline(always)]
    pub(crate) fn pack_parts(addresses: [u64; 4], ports: u32, protocol: IpProtocol, vrf: VrfId) -> PackedKey {
        let [source_high, source_low, destination_high, destination_low] = addresses;
        let ports = u64::from(ports) << 32 | u64::from(protocol.0);
        [source_high, source_low, destination_high, destination_low, ports, u64::from(vrf.get()) << 32]
    }

    /// The key with these words; `None` where they are not a key.
    pub(crate) fn unpack(words: PackedKey) -> Option<Self> {
        let [source_high, source_low, destination_high, destination_low, ports, vrf_origin] = words;
        let address = |high: u64, low: u64| Address::from_bits(u128::from(high) << 64 | u128::from(low));
        let origin = match vrf_origin as u32 {
            0 => Origin::Cluster,
            ORIGIN_HOST => Origin::Host,
            router => Origin::Router(RouterId::new(router).ok()?),
        };
        Some(Self {
            vrf: VrfId::new((vrf_origin >> 32) as u32).ok()?,
            origin,
            source: address(source_high, source_low),
            destination: address(destination_high, destination_low),
            source_port: (ports >> 48) as u16,
            destination_port: (ports >> 32) as u16,
            protocol: IpProtocol(ports as u8),
        })
    }
}

/// Hashes keys with a secret seed: keys are chosen by whoever sends packets.
#[derive(Debug, Clone)]
pub(crate) struct KeyHasher {
    seeds: [u64; 5],
    mixer: foldhash::quality::FixedState,
}

impl KeyHasher {
    pub(crate) fn new(seed: u64) -> Self {
        let mixer = foldhash::quality::FixedState::with_seed(seed);
        Self { seeds: [1, 2, 3, 4, 5].map(|number: u64| mixer.hash_one(number)), mixer }
    }

    /// The hash of a packed key. Its upper half is never zero, so that no hash looks like an empty entry of the index.
    ///
    /// Folded multiplication, as foldhash does it, but of what may differ between IPv4 flows only: half of their words
    /// are the same for all.
    #[inline(always)]
    pub(super) fn hash(&self, words: &PackedKey) -> u64 {
        let [source_high, source_low, destination_high, destination_low, ports, vrf_origin] = *words;
        let [a, b, c, d, e] = self.seeds;
        let low = fold(source_low ^ a, destination_low ^ b);
        let is_v4 = source_high | destination_high == 0;
        let high = if is_v4 { 0 } else { fold(source_high ^ c, destination_high ^ d) };
        fold(low ^ high ^ ports, vrf_origin ^ e) | 1 << 32
    }

    /// The hash of any two numbers, such as a flow and a member.
    #[inline]
    pub(crate) fn mix(&self, a: u64, b: u64) -> u64 {
        let mut hasher = self.mixer.build_hasher();
        hasher.write_u64(a);
        hasher.write_u64(b);
        hasher.finish()
    }
}

/// Both halves of the product over each other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
