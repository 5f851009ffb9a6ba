//! Flows as people read them.

use vrouter_objects::{FloatingIpId, MemberId, NextHop, VmiId, VrfId};

use super::decision::{Actions, Direction, FlowIndex, Life};
use super::key::FlowKey;
use super::table::{FlowTable, tenths};
use super::tcp::ConnectionState;
use crate::address::Address;
use crate::frame::Time;

/// One direction of a connection, read at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRecord {
    /// Its slot's number.
    pub index: u32,
    /// The other direction's slot.
    pub reverse: u32,
    /// What it matches.
    pub key: FlowKey,
    /// Which side's packets it matches.
    pub direction: Direction,
    /// Source address as it leaves.
    pub translated_source: Address,
    /// Source port as it leaves.
    pub translated_source_port: u16,
    /// Destination address as it leaves.
    pub translated_destination: Address,
    /// Destination port as it leaves.
    pub translated_destination_port: u16,
    /// The VRF its next hop was looked up in.
    pub egress_vrf: Option<VrfId>,
    /// Where its packets go.
    pub next_hop: NextHop,
    /// The connection's state and how long it may be idle.
    pub state: FlowState,
    /// Packets so far, super-frames counted by their segments.
    pub packets: u64,
    /// Bytes of IP so far.
    pub bytes: u64,
    /// The service that translated it, and the member it chose.
    pub service: Option<(FloatingIpId, MemberId)>,
    /// The interface that the connection counts against: the one that began it, or that a tunnel's leads to.
    pub owner: Option<VmiId>,
}

/// A connection's state with its times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowState {
    /// The state.
    pub connection: ConnectionState,
    /// For how long neither side has sent.
    pub idle: u64,
    /// After how long of that the flow is forgotten.
    pub timeout: u32,
}

/// Reads a slot; `None` where no flow is in force.
pub(super) fn record(table: &FlowTable, index: FlowIndex, now: Time) -> Option<FlowRecord> {
    let slot = table.slot(index);
    let control = slot.control();
    if control.life != Life::Live {
        return None;
    }
    let key = slot.key()?;
    let reverse_key = table.slot(control.reverse).key()?;
    let actions = slot.decision().actions;
    // What leaves is what the other direction answers to.
    let source_translated = actions.has(Actions::SOURCE);
    let destination_translated = actions.has(Actions::DESTINATION);
    let connection = table.state(slot);
    let initiator = match control.direction {
        Direction::Initiator => slot,
        Direction::Responder => table.slot(control.reverse),
    };
    let timeout = table.idle_limit(initiator);
    // Nobody is kept from using the slot for another flow meanwhile.
    let unchanged = slot.control() == control && slot.key() == Some(key);
    if !unchanged {
        return None;
    }
    let idle = u64::from(tenths(now).saturating_sub(table.last_seen(slot))) * 100;
    Some(FlowRecord {
        index: index.0,
        reverse: control.reverse.0,
        key,
        direction: control.direction,
        translated_source: if source_translated { reverse_key.destination } else { key.source },
        translated_source_port: if source_translated {
            reverse_key.destination_port
        } else {
            key.source_port
        },
        translated_destination: if destination_translated { reverse_key.source } else { key.destination },
        translated_destination_port: if destination_translated {
            reverse_key.source_port
        } else {
            key.destination_port
        },
        egress_vrf: slot.egress_vrf(),
        next_hop: slot.next_hop().into(),
        state: FlowState { connection, idle, timeout },
        packets: slot.packets(),
        bytes: slot.bytes(),
        service: slot.service(),
        owner: slot.owner(),
    })
}
