//! What is known of a burst's packets before their flows are looked at: whether their headers are plain,
//! whether their sender may send them, and where their flow probably is.

use std::num::NonZeroU64;

use vrouter_objects::{MacAddress, RouterId, VmiKind, VrfId};

use super::Context;
use super::classify::{Arrival, Arrived, Entrance};
use crate::address::{Address, Family};
use crate::counters::WorkerCounters;
use crate::flow::{self, FlowKey, FlowTable, Origin, PackedKey, Slot, TableKey};
use crate::frame::{Frame, Ingress};
use crate::parse::{
    ETHERNET_HEADER, Head, PlainHeaders, PlainIp, PlainV4, PlainV6, ethertype, plain_family, plain_ports,
};
use crate::tables::Vrf;

/// Whoever is at an ingress, and what its frames must bear.
#[derive(Debug, Clone, Copy)]
struct Sender<'a> {
    ingress: Ingress,
    link: LinkHeader,
    /// The source address that its packets mostly bear, by halves.
    usual_source: [Masked; 2],
    /// The last word of such a packet's key.
    usual_place: u64,
    /// What other sources mean.
    others: Others<'a>,
}

/// What it means that a packet does not bear its sender's usual source.
#[derive(Debug, Clone, Copy)]
enum Others<'a> {
    /// It must be one of these.
    Among(&'a [Address]),
    /// It is from the other subnets of this network, or came into the cluster at this node.
    Beyond(VrfId, &'a Vrf, RouterId),
}

/// What a frame's Ethernet header must be in the bits that count: its first and its last eight bytes.
#[derive(Debug, Clone, Copy)]
struct LinkHeader {
    first: Masked,
    last: Masked,
}

#[derive(Debug, Clone, Copy)]
struct Masked {
    value: u64,
    mask: u64,
}

/// What is known of a packet before its flow is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    pub(super) key: PackedKey,
    /// The flow's; `None`: not a plain packet.
    hash: Option<NonZeroU64>,
    /// The slot that the index names for the hash; very likely the flow's.
    pub(super) candidate: Option<&'static Slot>,
    pub(super) headers: PlainHeaders,
}

/// The leads of a burst, one for each frame.
#[derive(Debug, Default)]
pub(super) struct Leads {
    /// Never shortened, so that nothing is written twice; the burst's are the first.
    leads: Vec<Lead>,
    runs: Vec<Run>,
}

/// So many frames that follow each other and are forwarded by the same code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) family: Option<Family>,
    pub(super) len: usize,
}

impl<'a> Sender<'a> {
    /// Who is at this ingress; `None` where nobody is known, and the long way knows the reason.
    fn at(context: Context<'a>, ingress: Ingress, family: Family) -> Option<Self> {
        let snapshot = context.snapshot;
        match ingress {
            Ingress::Port(port) => {
                let entry = snapshot.port(port)?;
                let link = LinkHeader::new(MacAddress::GATEWAY, entry.mac, family);
                let Arrival { vrf, origin, .. } = Arrival::at_port(entry);
                let usual_source = match entry.kind {
                    VmiKind::Pod => {
                        let of_family = |address: &&Address| address.family() == family;
                        Masked::halves(entry.addresses.iter().find(of_family)?.bits(), u128::MAX)
                    }
                    VmiKind::Host => [Masked::ANY; 2],
                };
                let (usual_place, others) = (flow::pack_place(vrf, origin), Others::Among(&entry.addresses));
                Some(Self { ingress, link, usual_source, usual_place, others })
            }
            Ingress::Tunnel { source, vni } => {
                let router = snapshot.router_at(source.into())?;
                let link = LinkHeader::from_any(snapshot.own()?.mac, family);
                let id = snapshot.vrf_of_vni(vni)?;
                let vrf = snapshot.vrf(id)?;
                let inside = vrf.inside(family).next();
                let usual_source = inside.map_or([Masked::NONE; 2], |p| Masked::halves(p.value, p.mask));
                let usual_place = flow::pack_place(id, Origin::Cluster);
                let others = Others::Beyond(id, vrf, router);
                Some(Self { ingress, link, usual_source, usual_place, others })
            }
        }
    }

    /// The last word of the key of a packet from this source; `None`: it may not be sent from here.
    #[inline(always)]
    fn place_of<Ip: PlainIp>(&self, high: u64, low: u64) -> Option<u64> {
        let [usual_high, usual_low] = self.usual_source;
        // All IPv4 addresses have the same.
        let is_high = Ip::FAMILY == Family::V4 || usual_high.is(high);
        if is_high && usual_low.is(low) { Some(self.usual_place) } else { self.other_place(high, low) }
    }

    #[cold]
    fn other_place(&self, high: u64, low: u64) -> Option<u64> {
        let source = Address::from_bits(u128::from(high) << 64 | u128::from(low));
        match self.others {
            Others::Among(sources) => sources.contains(&source).then_some(self.usual_place),
            Others::Beyond(_, vrf, _) if vrf.is_inside(source) => Some(self.usual_place),
            Others::Beyond(id, _, router) => Some(flow::pack_place(id, Origin::Router(router))),
        }
    }
}

impl Masked {
    const ANY: Self = Self { value: 0, mask: 0 };
    const NONE: Self = Self { value: 1, mask: 0 };

    /// The halves of what an address is in the bits that count.
    fn halves(value: u128, mask: u128) -> [Self; 2] {
        [64, 0].map(|shift| Self { value: (value >> shift) as u64, mask: (mask >> shift) as u64 })
    }

    fn exactly(value: u64) -> Self {
        Self { value, mask: u64::MAX }
    }

    #[inline(always)]
    fn is(self, number: u64) -> bool {
        number & self.mask == self.value
    }
}

impl LinkHeader {
    /// From exactly this address.
    fn new(destination: MacAddress, source: MacAddress, family: Family) -> Self {
        let [a, b, c, d, e, f] = destination.0;
        let [g, h, i, j, k, l] = source.0;
        let [m, n] = ethertype(family).to_be_bytes();
        let (first, last) = halves(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n]);
        Self { first: Masked::exactly(first), last: Masked::exactly(last) }
    }

    /// From any address that is no group's.
    fn from_any(destination: MacAddress, family: Family) -> Self {
        let exact = Self::new(destination, MacAddress([0; 6]), family);
        let (first, last) = halves(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0xff, 0xff]);
        Self { first: Masked { mask: first, ..exact.first }, last: Masked { mask: last, ..exact.last } }
    }

    #[inline(always)]
    fn is_at(&self, head: &Head) -> bool {
        let (first, last) = halves(head);
        self.first.is(first) && self.last.is(last)
    }
}

/// The first and the last eight bytes of an Ethernet header, which overlap.
#[inline(always)]
fn halves<const N: usize>(header: &[u8; N]) -> (u64, u64) {
    let half = |bytes: &[u8]| bytes.first_chunk().map_or(0, |half| u64::from_ne_bytes(*half));
    (half(header), half(&header[ETHERNET_HEADER - 8..]))
}

impl Lead {
    /// Nothing is known: the packet goes the long way.
    const NONE: Self = Self { key: [0; _], hash: None, candidate: None, headers: PlainHeaders::NONE };

    /// What tells its flow apart on the underlay.
    #[inline(always)]
    pub(super) fn entropy(&self) -> u32 {
        flow::entropy(self.hash.map_or(0, NonZeroU64::get))
    }

    /// The packet as the long way takes it, without being read and checked once more; `None` if it has to be.
    pub(super) fn arrived<Ip: PlainIp>(&self, context: Context<'_>, frame: &Frame) -> Option<Arrived> {
        let hash = self.hash?.get();
        let key = FlowKey::unpack(self.key)?;
        let packet = self.headers.packet::<Ip>(frame, &key)?;
        let arrival = match frame.ingress {
            Ingress::Port(port) => Arrival::at_port(context.snapshot.port(port)?),
            Ingress::Tunnel { source, .. } => {
                let entrance = Entrance::Tunnel(context.snapshot.router_at(source.into())?);
                Arrival { vrf: key.vrf, origin: key.origin, entrance }
            }
        };
        Some(Arrived { packet, arrival, key, table_key: TableKey { hash, words: self.key } })
    }
}

impl Leads {
    /// Reads the headers of the whole burst, then finds its flows, so that the flow table's cache lines are
    /// on their way when they are needed.
    pub(super) fn follow(
        &mut self,
        context: Context<'_>,
        flows: &FlowTable,
        frames: &[Frame],
        counters: &WorkerCounters,
    ) {
        self.begin(frames.len());
        let (mut frames, mut leads) = (frames, &mut self.leads[..frames.len()]);
        while let Some(frame) = frames.first() {
            let family = plain_family(frame);
            let sender = family.and_then(|family| Sender::at(context, frame.ingress, family));
            let led = match (family, &sender) {
                (Some(Family::V4), Some(sender)) => lead::<PlainV4>(flows, sender, frames, leads, counters),
                (Some(Family::V6), Some(sender)) => lead::<PlainV6>(flows, sender, frames, leads, counters),
                _ => 0,
            };
            let run = match led {
                0 => none(frames, leads, counters),
                len => Run { family, len },
            };
            let len = run.len;
            self.runs.push(run);
            frames = &frames[len..];
            leads = &mut leads[len..];
        }
    }

    /// Leads no frame anywhere: all of them go the long way.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn follow_none(&mut self, frames: &[Frame], counters: &WorkerCounters) {
        self.begin(frames.len());
        for (number, _) in frames.iter().enumerate() {
            self.runs.push(none(&frames[number..], &mut self.leads[number..], counters));
        }
    }

    fn begin(&mut self, frames: usize) {
        if self.leads.len() < frames {
            self.leads.resize(frames, Lead::NONE);
        }
        self.runs.clear();
    }

    /// The burst, run by run.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Run, &[Lead])> {
        let mut leads = &self.leads[..];
        self.runs.iter().map(move |run| {
            let (those, rest) = leads.split_at(run.len);
            leads = rest;
            (*run, those)
        })
    }
}

/// Leads the first frame nowhere.
fn none(frames: &[Frame], leads: &mut [Lead], counters: &WorkerCounters) -> Run {
    if let (Some(frame), Some(lead)) = (frames.first(), leads.first_mut()) {
        *lead = Lead::NONE;
        counters.receive(frame.ingress, std::slice::from_ref(frame));
    }
    Run { family: None, len: 1 }
}

/// Leads all frames up to the first with another link header or ingress; returns how many.
#[inline(never)]
fn lead<Ip: PlainIp>(
    flows: &FlowTable,
    sender: &Sender<'_>,
    frames: &[Frame],
    leads: &mut [Lead],
    counters: &WorkerCounters,
) -> usize {
    let most = leads.len();
    let mut places = leads.iter_mut();
    for frame in frames {
        let Some(head) = frame.head() else { break };
        if frame.ingress != sender.ingress || !sender.link.is_at(head) {
            break;
        }
        let Some(place) = places.next() else { break };
        place.hash = sender.lead::<Ip>(flows, head, frame.len(), place);
    }
    let len = most - places.len();
    counters.receive(sender.ingress, &frames[..len]);
    for lead in &mut leads[..len] {
        lead.candidate = lead.hash.and_then(|hash| flows.candidate(hash.get()));
    }
    len
}

impl Sender<'_> {
    /// Reads a frame's headers and sends for what finding its flow will need. Returns the flow's hash.
    #[inline(always)]
    fn lead<Ip: PlainIp>(
        &self,
        flows: &FlowTable,
        head: &Head,
        frame_len: usize,
        lead: &mut Lead,
    ) -> Option<NonZeroU64> {
        lead.headers.read::<Ip>(head, frame_len)?;
        let addresses = Ip::addresses(head)?;
        let [source_high, source_low, ..] = addresses;
        let place = self.place_of::<Ip>(source_high, source_low)?;
        let ports = plain_ports::<Ip>(head);
        lead.key = FlowKey::pack_parts(Ip::FAMILY, addresses, ports, lead.headers.protocol, place);
        let hash = flows.hash_packed(&lead.key);
        flows.prefetch(hash);
        NonZeroU64::new(hash)
    }
}
