//! The short way of nearly every packet: plain headers, a flow that is in the table and as old as the tables, and nothing
//! that needs an answer.
//!
//! It takes the stages in the same order and to the same end as the long way does, and leaves out only what such a
//! packet cannot need. Where anything is unusual it changes nothing and leaves the packet to the long way, which alone
//! knows what to do about it.

use vrouter_objects::{MacAddress, VrfId};

use super::Context;
use super::classify::{Arrival, Arrived};
use super::egress::{Exit, exit};
use super::tally::Tally;
use crate::address::{Address, Family};
use crate::flow::{Actions, Decision, FlowKey, FlowTable, PackedKey, Slot};
use crate::frame::{Egress, Frame, Ingress};
use crate::parse::{
    ETHERNET_HEADER, Head, Packet, PlainHeaders, PlainIp, PlainV4, PlainV6, PlainVersion, plain_ports,
};
use crate::rewrite::{Endpoint, Side, can_rewrite_plain, take_plain_hop, translate_plain};

/// Whoever is at an ingress, and what its frames must bear.
#[derive(Debug, Clone, Copy)]
struct Sender<'a> {
    ingress: Ingress,
    vrf: VrfId,
    link: LinkHeader,
    /// The source address that its packets mostly bear, by halves.
    usual_source: [Masked; 2],
    /// All that they may bear.
    sources: &'a [Address],
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
    key: PackedKey,
    /// Zero, which no flow's hash is: not a plain packet.
    hash: u64,
    /// The slot that the index names for the hash; very likely the flow's.
    candidate: Option<&'static Slot>,
    headers: PlainHeaders,
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
    pub(super) version: Option<PlainVersion>,
    pub(super) len: usize,
}

impl<'a> Sender<'a> {
    /// Who is at this ingress; `None` where nobody is known, and the long way knows the reason.
    fn at(context: Context<'a>, ingress: Ingress, version: PlainVersion) -> Option<Self> {
        let snapshot = context.snapshot;
        match ingress {
            Ingress::Port(port) => {
                let entry = snapshot.port(port)?;
                let link = LinkHeader::new(MacAddress::GATEWAY, entry.mac, version);
                let of_version = |address: &&Address| address.family() == version.family();
                let usual = entry.addresses.iter().find(of_version)?.bits();
                let usual_source = [usual >> 64, usual].map(|half| Masked::exactly(half as u64));
                Some(Self { ingress, vrf: entry.vrf, link, usual_source, sources: &entry.addresses })
            }
            Ingress::Tunnel { source, vni } => {
                snapshot.router_at(source.into())?;
                let link = LinkHeader::from_any(snapshot.own()?.mac, version);
                let (vrf, usual_source) = (snapshot.vrf_of_vni(vni)?, [Masked::ANY; 2]);
                Some(Self { ingress, vrf, link, usual_source, sources: &[] })
            }
        }
    }

    #[inline(always)]
    fn may_send_from(&self, high: u64, low: u64) -> bool {
        let [usual_high, usual_low] = self.usual_source;
        (usual_high.is(high) && usual_low.is(low)) || self.may_also_send_from(high, low)
    }

    #[cold]
    fn may_also_send_from(&self, high: u64, low: u64) -> bool {
        let source = Address::from_bits(u128::from(high) << 64 | u128::from(low));
        self.sources.contains(&source)
    }
}

impl Masked {
    const ANY: Self = Self { value: 0, mask: 0 };

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
    fn new(destination: MacAddress, source: MacAddress, version: PlainVersion) -> Self {
        let [a, b, c, d, e, f] = destination.0;
        let [g, h, i, j, k, l] = source.0;
        let [m, n] = version.ethertype().to_be_bytes();
        let (first, last) = halves(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n]);
        Self { first: Masked::exactly(first), last: Masked::exactly(last) }
    }

    /// From any address that is no group's.
    fn from_any(destination: MacAddress, version: PlainVersion) -> Self {
        let exact = Self::new(destination, MacAddress([0; 6]), version);
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
    /// The packet as the long way takes it, without being read and checked once more; `None` if it has to be.
    pub(super) fn arrived<Ip: PlainIp>(&self, context: Context<'_>, frame: &Frame) -> Option<Arrived> {
        let key = FlowKey::unpack(self.key).filter(|_| self.hash != 0)?;
        let packet = self.headers.packet::<Ip>(frame, &key)?;
        let vmi = match frame.ingress {
            Ingress::Port(port) => Some(context.snapshot.port(port)?.vmi),
            Ingress::Tunnel { .. } => key.source.is_unicast().then_some(None)?,
        };
        let arrival = Arrival { vrf: key.vrf, origin: key.origin, vmi };
        Some(Arrived { packet, arrival, key, hash: self.hash })
    }

    /// Nothing is known: the packet goes the long way.
    const NONE: Self = Self { key: [0; _], hash: 0, candidate: None, headers: PlainHeaders::NONE };
}

impl Leads {
    /// Reads the headers of the whole burst, then finds its flows, so that the flow table's cache lines are on their way
    /// when they are needed.
    pub(super) fn follow(
        &mut self,
        context: Context<'_>,
        flows: &FlowTable,
        frames: &[Frame],
        tally: &mut Tally,
    ) {
        self.begin(frames.len());
        let (mut frames, mut leads) = (frames, &mut self.leads[..frames.len()]);
        while let Some(frame) = frames.first() {
            let version = PlainVersion::of(frame);
            let sender = version.and_then(|version| Sender::at(context, frame.ingress, version));
            let led = match (version, &sender) {
                (Some(PlainVersion::V4), Some(sender)) => {
                    lead::<PlainV4>(flows, sender, frames, leads, tally)
                }
                (Some(PlainVersion::V6), Some(sender)) => {
                    lead::<PlainV6>(flows, sender, frames, leads, tally)
                }
                _ => 0,
            };
            let run = match led {
                0 => none(frames, leads, tally),
                len => Run { version, len },
            };
            let len = run.len;
            self.runs.push(run);
            frames = &frames[len..];
            leads = &mut leads[len..];
        }
    }

    /// Leads no frame anywhere: all of them go the long way.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn follow_none(&mut self, frames: &[Frame], tally: &mut Tally) {
        self.begin(frames.len());
        for (number, _) in frames.iter().enumerate() {
            self.runs.push(none(&frames[number..], &mut self.leads[number..], tally));
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
fn none(frames: &[Frame], leads: &mut [Lead], tally: &mut Tally) -> Run {
    if let (Some(frame), Some(lead)) = (frames.first(), leads.first_mut()) {
        *lead = Lead::NONE;
        tally.received(frame.ingress, std::slice::from_ref(frame));
    }
    Run { version: None, len: 1 }
}

/// Leads all frames up to the first with another link header or ingress; returns how many.
#[inline(never)]
fn lead<Ip: PlainIp>(
    flows: &FlowTable,
    sender: &Sender<'_>,
    frames: &[Frame],
    leads: &mut [Lead],
    tally: &mut Tally,
) -> usize {
    let most = leads.len();
    let mut places = leads.iter_mut();
    for frame in frames {
        let Some(head) = frame.head() else { break };
        if frame.ingress != sender.ingress || !sender.link.is_at(head) {
            break;
        }
        let Some(place) = places.next() else { break };
        place.hash = sender.lead::<Ip>(flows, head, frame.len(), place).unwrap_or(0);
    }
    let len = most - places.len();
    tally.received(sender.ingress, &frames[..len]);
    for lead in &mut leads[..len] {
        lead.candidate = if lead.hash == 0 { None } else { flows.candidate(lead.hash) };
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
    ) -> Option<u64> {
        lead.headers.read::<Ip>(head, frame_len)?;
        let addresses = Ip::addresses(head)?;
        let [source_high, source_low, ..] = addresses;
        if !self.may_send_from(source_high, source_low) {
            return None;
        }
        let ports = plain_ports::<Ip>(head);
        lead.key =
            FlowKey::pack_parts(Ip::VERSION.family(), addresses, ports, lead.headers.protocol, self.vrf);
        let hash = flows.hash_packed(&lead.key);
        flows.prefetch(hash);
        Some(hash)
    }
}

/// Forwards a packet if it can go the short way, counts it, and returns where it leaves; else it is as it was.
#[inline(always)]
pub(super) fn forward_established<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    lead: &Lead,
    tally: &mut Tally,
) -> Option<Egress> {
    let slot = lead.candidate?;
    if !slot.is_live_with(&lead.key, Ip::VERSION.family()) {
        return None;
    }
    let decision = slot.decision();
    let is_settled = decision.seen.includes(lead.headers.settled);
    if !is_settled || decision.epoch != context.snapshot.epoch().0 || decision.actions == Actions::BOTH {
        return None;
    }
    let found = slot.port().and_then(|port| context.snapshot.port(port));
    match found.filter(|entry| slot.goes_to(entry.vmi)) {
        Some(entry) => leave::<Ip>(context, frame, lead, (slot, decision), Exit::Port(entry), tally),
        None => {
            let exit = exit(context, frame.ingress, slot).ok()?;
            leave::<Ip>(context, frame, lead, (slot, decision), exit, tally)
        }
    }
}

/// Sends a packet out by this exit, which is mostly known to be a port where this is compiled into.
#[inline(always)]
fn leave<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    lead: &Lead,
    flow: (&Slot, Decision),
    exit: Exit<'_>,
    tally: &mut Tally,
) -> Option<Egress> {
    rewrite::<Ip>(context, frame, &lead.headers, flow, exit)?;
    if frame.offload.segmentation.is_some() {
        tally.super_frame();
    }
    match exit {
        Exit::Port(entry) => tally.sent(entry.port, ETHERNET_HEADER as u32 + lead.headers.ip_len),
        Exit::Tunnel { .. } => tally.tunnelled(),
    }
    let egress = exit.egress((lead.hash >> 32) as u32);
    frame.egress = Some(egress);
    Some(egress)
}

/// [`rewrite`], for a packet that came the long way and may be plain all the same, as the first of a flow mostly is.
pub(super) fn rewrite_if_plain(
    context: Context<'_>,
    frame: &mut Frame,
    packet: &Packet,
    slot: &Slot,
    exit: Exit<'_>,
) -> Option<()> {
    let headers = PlainHeaders::of(packet)?;
    let decision = slot.decision();
    if decision.actions == Actions::BOTH {
        return None;
    }
    match packet.family {
        Family::V4 => rewrite::<PlainV4>(context, frame, &headers, (slot, decision), exit),
        Family::V6 => rewrite::<PlainV6>(context, frame, &headers, (slot, decision), exit),
    }
}

/// The last stages but transmit, for plain headers.
#[inline(always)]
fn rewrite<Ip: PlainIp>(
    context: Context<'_>,
    frame: &mut Frame,
    headers: &PlainHeaders,
    (slot, decision): (&Slot, Decision),
    exit: Exit<'_>,
) -> Option<()> {
    let (packets, largest) = sizes(frame, headers);
    if largest > exit.mtu() {
        return None;
    }
    let covered = frame.offload.checksum.covered();
    let head = frame.head_mut()?;
    if !can_rewrite_plain::<Ip>(head, headers.protocol, covered) {
        return None;
    }
    let adjustments = slot.adjustments();
    // Without a translation, there is nothing to adjust.
    take_plain_hop::<Ip>(head, adjustments.addresses);
    exit.write_macs(head);
    slot.touch(packets, headers.ip_len.into(), context.tenths);
    if decision.actions != Actions::NONE {
        let address = match Ip::VERSION {
            PlainVersion::V4 => slot.translated_v4(),
            PlainVersion::V6 => slot.translated(),
        };
        let to = Endpoint { address, port: decision.translated_port };
        let is_destination = decision.actions == Actions::DESTINATION;
        let side = if is_destination { Side::Destination } else { Side::Source };
        translate_plain::<Ip>(head, (headers.protocol, covered), (side, to), adjustments);
    }
    frame.set_end(ETHERNET_HEADER + headers.ip_len as usize);
    Some(())
}

/// How many packets a frame stands for, and the length of the largest, from its IP header on.
#[inline(always)]
fn sizes(frame: &Frame, headers: &PlainHeaders) -> (u64, usize) {
    let (ip_len, headers_len) = (headers.ip_len as usize, usize::from(headers.len));
    match frame.offload.segmentation {
        None => (1, ip_len),
        Some(segmentation) => {
            let size = usize::from(segmentation.size.get());
            let packets = (ip_len - headers_len).div_ceil(size).max(1);
            (packets as u64, ip_len.min(headers_len + size))
        }
    }
}
