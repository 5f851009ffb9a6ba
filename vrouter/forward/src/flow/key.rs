//! What names one direction of a connection.

use std::hash::{BuildHasher, Hasher};

use vrouter_objects::{IpProtocol, RouterId, VrfId};

use crate::address::{Address, Family};

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

/// A key as the table takes it: packed and hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableKey {
    /// Before the words, so that different keys are mostly told apart by it.
    pub(crate) hash: u64,
    pub(crate) words: PackedKey,
}

const ORIGIN_HOST: u32 = u32::MAX;

/// Set in every hash, so that its upper half is never zero.
const IS_HASH: u64 = 1 << 32;

/// The words of a packed key that two keys of one family can differ in. An IPv4 key has zeroes in the others,
/// and its family stands in one of these.
#[inline(always)]
pub(super) const fn distinct_words(family: Family) -> &'static [usize] {
    match family {
        Family::V4 => &[1, 3, 4, 5],
        Family::V6 => &[0, 1, 2, 3, 4, 5],
    }
}

#[inline(always)]
fn family_and_protocol(family: Family, protocol: IpProtocol) -> u64 {
    let family = match family {
        Family::V4 => 4,
        Family::V6 => 6,
    };
    family << 8 | u64::from(protocol.0)
}

/// The VRF and the origin of a key, in one word of it.
pub(crate) fn pack_place(vrf: VrfId, origin: Origin) -> u64 {
    let origin = match origin {
        Origin::Cluster => 0,
        Origin::Host => ORIGIN_HOST,
        Origin::Router(router) => router.get(),
    };
    u64::from(vrf.get()) << 32 | u64::from(origin)
}

impl FlowKey {
    /// The key as the table stores and compares it.
    #[inline]
    pub(super) fn pack(&self) -> PackedKey {
        let (source, destination) = (self.source.bits(), self.destination.bits());
        [
            (source >> 64) as u64,
            source as u64,
            (destination >> 64) as u64,
            destination as u64,
            u64::from(self.source_port) << 48
                | u64::from(self.destination_port) << 32
                | family_and_protocol(self.source.family(), self.protocol),
            pack_place(self.vrf, self.origin),
        ]
    }

    /// What [`FlowKey::pack`] makes of a packet with both of these addresses, upper halves first, and both of these
    /// ports, in the VRF and from the origin of this [`pack_place`].
    #[inline(always)]
    pub(crate) fn pack_parts(
        family: Family,
        addresses: [u64; 4],
        ports: u32,
        protocol: IpProtocol,
        place: u64,
    ) -> PackedKey {
        let [source_high, source_low, destination_high, destination_low] = addresses;
        let ports = u64::from(ports) << 32 | family_and_protocol(family, protocol);
        [source_high, source_low, destination_high, destination_low, ports, place]
    }

    /// The key with these words; `None` where they are not a key.
    #[inline]
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

    /// The hash of a packed key. Its upper half is never zero, so that no hash looks like an empty entry of
    /// the index.
    ///
    /// Folded multiplication, as foldhash does it, but of what may differ between IPv4 flows only: half of
    /// their words are the same for all. Ports go through two multiplications like the addresses, and into
    /// the second for themselves: no address that makes up for another port in the first makes up for it
    /// there.
    #[inline(always)]
    pub(super) fn hash(&self, words: &PackedKey) -> u64 {
        let [source_high, source_low, destination_high, destination_low, ports, vrf_origin] = *words;
        let [a, b, c, d, e] = self.seeds;
        let low = fold(source_low ^ ports ^ a, destination_low ^ b);
        let is_v4 = source_high | destination_high == 0;
        let high = if is_v4 { 0 } else { fold(source_high ^ c, destination_high ^ d) };
        fold(low ^ high ^ ports, vrf_origin ^ e) | IS_HASH
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

/// What tells flows apart on the underlay: of their hash, the part that neither the index's buckets nor the
/// bit that says that there is one take away from.
#[inline(always)]
pub(crate) const fn entropy(hash: u64) -> u32 {
    (hash >> 33) as u32
}

/// Both halves of the product over each other.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hasher() -> KeyHasher {
        KeyHasher::new(7)
    }

    /// A key of a packet in the pod network.
    fn key(source: Address, destination: Address, ports: (u16, u16)) -> PackedKey {
        let (vrf, protocol) = (VrfId::new(1).unwrap(), IpProtocol::TCP);
        let (source_port, destination_port) = ports;
        let key = FlowKey {
            vrf,
            origin: Origin::Cluster,
            source,
            destination,
            source_port,
            destination_port,
            protocol,
        };
        key.pack()
    }

    fn address(family: Family, host: u128) -> Address {
        match family {
            Family::V4 => Address::v4((0x0af4_0000 + host as u32).to_be_bytes()),
            Family::V6 => Address::from_bits((0xfd00_0010_0244_u128 << 80) + host),
        }
    }

    #[test]
    fn a_plain_packets_key_is_its_key() {
        for family in [Family::V4, Family::V6] {
            let (source, destination) = (address(family, 1), address(family, 2));
            let halves = |address: Address| [(address.bits() >> 64) as u64, address.bits() as u64];
            let ([a, b], [c, d]) = (halves(source), halves(destination));
            let parts = FlowKey::pack_parts(
                family,
                [a, b, c, d],
                4000 << 16 | 80,
                IpProtocol::TCP,
                pack_place(VrfId::new(1).unwrap(), Origin::Cluster),
            );
            assert_eq!(parts, key(source, destination, (4000, 80)));
            assert_eq!(FlowKey::unpack(parts).map(|key| key.pack()), Some(parts));
        }
    }

    /// Any bit of an address or port that flips, flips about half of the hash's bits, and each about half of
    /// the time.
    #[test]
    fn every_bit_counts() {
        let hasher = hasher();
        // The low half of an IPv4 address is all of it.
        let v4 = (0..32).map(|bit| (1, bit)).chain((0..32).map(|bit| (3, bit)));
        let v6 = (0..256).map(|bit| (bit / 64, bit % 64));
        let ports = (32..64).map(|bit| (4, bit));
        for (family, bits) in [
            (Family::V4, v4.chain(ports.clone()).collect::<Vec<_>>()),
            (Family::V6, v6.chain(ports).collect::<Vec<_>>()),
        ] {
            for (word, bit) in bits {
                let mut flips = [0_u32; 64];
                for number in 0..400_u64 {
                    let random = |salt: u64| u128::from(hasher.mix(number, salt) % 0xffff);
                    let ports = (random(3) as u16, random(4) as u16);
                    let words = key(address(family, random(1)), address(family, random(2)), ports);
                    let mut other = words;
                    other[word] ^= 1 << bit;
                    let difference = hasher.hash(&words) ^ hasher.hash(&other);
                    flips
                        .iter_mut()
                        .enumerate()
                        .for_each(|(at, count)| *count += (difference >> at & 1) as u32);
                }
                let label = format!("{family:?} word {word} bit {bit}: {flips:?}");
                // This one says that there is a hash.
                assert_eq!(flips[32], 0, "{label}");
                let counted =
                    || flips.iter().enumerate().filter(|(at, _)| *at != 32).map(|(_, count)| *count);
                let mean = counted().sum::<u32>() / 63;
                assert!((180..=220).contains(&mean), "mean {mean}, {label}");
                assert!(counted().all(|count| (130..=270).contains(&count)), "{label}");
            }
        }
    }

    /// However many places a flow's packets may be sent from, some flow is sent from each.
    #[test]
    fn entropy_reaches_every_sender() {
        const SENDERS: usize = 256;
        let hasher = hasher();
        let mut sent = [0_u32; SENDERS];
        for port in 1..=(64 * SENDERS as u16) {
            let words = key(address(Family::V4, 1), address(Family::V4, 2), (port, 80));
            sent[entropy(hasher.hash(&words)) as usize % SENDERS] += 1;
        }
        assert!(sent.iter().all(|count| (24..=128).contains(count)), "{sent:?}");
    }

    /// Neighbouring addresses and ports, as real networks have them, fill buckets as evenly as chance does.
    #[test]
    fn neighbours_spread_over_the_buckets() {
        const BUCKETS: usize = 1 << 14;
        let hasher = hasher();
        for family in [Family::V4, Family::V6] {
            let ports = |number: u16| key(address(family, 1), address(family, 2), (number, 80));
            let hosts = |number: u16| key(address(family, number.into()), address(family, 2), (4000, 80));
            let both = |number: u16| {
                let host = u128::from(number >> 8);
                key(address(family, host), address(family, 70_000), (32_768 + (number & 0xff), 80))
            };
            for (name, of) in
                [("ports", &ports as &dyn Fn(u16) -> PackedKey), ("hosts", &hosts), ("both", &both)]
            {
                let mut entries = vec![0; BUCKETS];
                (0..=u16::MAX).for_each(|number| entries[hasher.hash(&of(number)) as usize % BUCKETS] += 1);
                let overfull = entries.iter().filter(|count| **count > 7).count();
                // Of a Poisson distribution with four entries per bucket, 5.1 % have more than seven.
                assert!(overfull * 100 < BUCKETS * 6, "{family:?} {name}: {overfull} of {BUCKETS}");
                assert!(*entries.iter().max().unwrap() < 20, "{family:?} {name}");
            }
        }
    }
}
