//! The short way of nearly every packet: plain headers, a flow that is in the table and as old as the tables, and nothing
//! that needs an answer.
//!
//! It takes the stages in the same order and to the same end as the long way does, only with all that leaves out which
//! such a packet cannot need. Where anything is unusual it changes nothing and leaves the packet to the long way, which
//! alone knows what to do about it.

use vrouter_objects::{IpProtocol, MacAddress, VrfId};

use super::egress::exit;
use super::{Context, Worker};
use crate::flow::{Actions, FlowIndex, FlowKey, PackedKey, Slot};
use crate::frame::{Egress, Frame, Ingress};
use crate::parse::{ETHERNET_HEADER, Plain, TcpFlags};
use crate::rewrite::{Endpoint, PlainRewrite, Side};

/// What is known of a plain packet before its flow is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    packet: Plain,
    key: PackedKey,
    hash: u64,
    /// The slot that the index names for the hash; very likely the flow's.
    candidate: Option<FlowIndex>,
}

/// The tunnel that the last packet out of one came by: the next very likely comes by the same.
#[derive(Debug, Default)]
pub(super) struct LastTunnel(Option<(Ingress, VrfId)>);

impl Worker {
    /// Reads a frame's headers and sends for what its flow's place in the table will need.
    #[inline(always)]
    pub(super) fn lead(
        &self,
        context: Context<'_>,
        frame: &Frame,
        last_tunnel: &mut LastTunnel,
    ) -> Option<Lead> {
        let bytes = frame.bytes();
        let packet = Plain::read(bytes)?;
        let ethernet = bytes.first_chunk::<ETHERNET_HEADER>()?;
        let vrf = match frame.ingress {
            Ingress::Port(port) => {
                let entry = context.snapshot.port(port)?;
                let source = u128::from(packet.addresses[0]) << 64 | u128::from(packet.addresses[1]);
                let is_its_own = ethernet[..6] == MacAddress::GATEWAY.0
                    && ethernet[6..12] == entry.mac.0
                    && entry.addresses.iter().any(|address| address.bits() == source);
                is_its_own.then_some(entry.vrf)?
            }
            ingress @ Ingress::Tunnel { .. } => {
                let is_sound = ethernet[..6] == context.snapshot.own()?.mac.0 && ethernet[6] & 1 == 0;
                is_sound.then_some(last_tunnel.vrf(context, ingress)?)?
            }
        };
        let key = FlowKey::pack_plain(&packet, vrf);
        let hash = self.shared.flows.hash_packed(&key);
        self.shared.flows.prefetch(hash);
        Some(Lead { packet, key, hash, candidate: None })
    }

    /// Finds where the flow very likely is, and sends for that.
    #[inline(always)]
    pub(super) fn approach(&self, lead: &mut Lead) {
        lead.candidate = self.shared.flows.candidate(lead.hash);
    }

    /// Forwards a packet if it can go the short way; else it is as it was.
    #[inline(always)]
    pub(super) fn forward_established(
        &self,
        context: Context<'_>,
        frame: &mut Frame,
        lead: &Lead,
    ) -> Option<Egress> {
        let slot = self.shared.flows.slot(lead.candidate?);
        if !slot.is_live_with(&lead.key) {
            return None;
        }
        let decision = slot.decision();
        let goes_on = match lead.packet.protocol {
            IpProtocol::TCP => lead.packet.flags.is_under_way() && decision.seen.is_complete(),
            _ => decision.seen.is_any(),
        };
        if !goes_on || decision.epoch != context.snapshot.epoch().0 || decision.actions == Actions::BOTH {
            return None;
        }
        let exit = exit(context, frame.ingress, slot).ok()?;
        let (packets, largest) = sizes(frame, &lead.packet);
        if largest > exit.mtu() {
            return None;
        }
        let translation = translation(decision.actions, slot, decision.translated_port);
        let rewrite = PlainRewrite { family: lead.packet.family, protocol: lead.packet.protocol, translation };
        let checksum = frame.offload.checksum;
        rewrite.apply(frame.bytes_mut(), checksum)?;
        exit.write_macs(frame.bytes_mut());
        frame.truncate(ETHERNET_HEADER + lead.packet.ip_len as usize);
        slot.touch(packets, lead.packet.ip_len.into(), context.tenths);
        Some(exit.egress((lead.hash >> 32) as u32))
    }
}

impl LastTunnel {
    #[inline(always)]
    fn vrf(&mut self, context: Context<'_>, ingress: Ingress) -> Option<VrfId> {
        match self.0 {
            Some((last, vrf)) if last == ingress => Some(vrf),
            _ => self.look_up(context, ingress),
        }
    }

    #[cold]
    fn look_up(&mut self, context: Context<'_>, ingress: Ingress) -> Option<VrfId> {
        let Ingress::Tunnel { source, vni } = ingress else { return None };
        context.snapshot.router_at(source.into())?;
        let vrf = context.snapshot.vrf_of_vni(vni)?;
        self.0 = Some((ingress, vrf));
        Some(vrf)
    }
}

/// How many packets a frame stands for, and the length of the largest, from its IP header on.
#[inline(always)]
fn sizes(frame: &Frame, packet: &Plain) -> (u64, usize) {
    let (ip_len, headers_len) = (packet.ip_len as usize, usize::from(packet.headers_len));
    match frame.offload.segmentation {
        None => (1, ip_len),
        Some(segmentation) => {
            let size = usize::from(segmentation.size.get());
            let packets = (ip_len - headers_len).div_ceil(size).max(1);
            (packets as u64, ip_len.min(headers_len + size))
        }
    }
}

/// What a flow that translates at most one side changes.
#[inline(always)]
fn translation(actions: Actions, slot: &Slot, port: u16) -> Option<(Side, Endpoint)> {
    let side = match actions {
        Actions::DESTINATION => Side::Destination,
        Actions::SOURCE => Side::Source,
        _ => return None,
    };
    Some((side, Endpoint { address: slot.translated(), port }))
}

impl TcpFlags {
    /// Whether a segment neither begins nor ends a connection.
    #[inline(always)]
    const fn is_under_way(self) -> bool {
        self.0 & (Self::SYN | Self::FIN | Self::RST | Self::ACK) == Self::ACK
    }
}
