//! The steering: which packets the node's own stack hands to `vhost0` before it takes them for its own. It is a table of
//! nftables of its own, written as a whole at first and by its differences afterwards.

mod generation;
mod script;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use vrouter_objects::{IpProtocol, Port, ServiceProtocol};

use super::family::Family;
use super::marks::Marks;
use super::ports::PortRange;
use crate::nft::{self, NftError};

const TABLE: &str = "inet vrouter_host";

/// What is steered to `vhost0`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steered {
    /// The node's own addresses.
    pub own: BTreeSet<IpAddr>,
    /// Those of them that node ports are served at.
    pub node_port_addresses: BTreeSet<IpAddr>,
    /// The node ports of all services.
    pub node_ports: BTreeSet<NodePort>,
    /// External addresses of services that are no node's.
    pub external: BTreeSet<IpAddr>,
    /// Ports of services at external addresses that are a node's.
    pub external_ports: BTreeSet<ServicePort>,
}

/// A node port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePort {
    /// Each family has its own.
    pub family: Family,
    /// TCP, UDP or SCTP.
    pub protocol: ServiceProtocol,
    /// The port.
    pub port: Port,
}

/// A service's port at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// The address.
    pub address: IpAddr,
    /// TCP, UDP or SCTP.
    pub protocol: ServiceProtocol,
    /// The port.
    pub port: Port,
}

impl fmt::Display for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {}", IpProtocol::from(self.protocol).0, self.port)
    }
}

impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} . {} . {}", self.address, IpProtocol::from(self.protocol).0, self.port)
    }
}

/// The table in the caller's network namespace.
#[derive(Debug)]
pub(super) struct Steering {
    marks: Marks,
    source_ports: PortRange,
    in_force: Option<InForce>,
}

/// The table as we left it.
#[derive(Debug)]
struct InForce {
    steered: Arc<Steered>,
    outline: String,
    /// When nothing of any table had changed since.
    generation: Option<u32>,
}

impl Steering {
    pub(super) fn new(marks: Marks, source_ports: PortRange) -> Self {
        Self { marks, source_ports, in_force: None }
    }

    /// Brings the table to what is wanted.
    pub(super) fn follow(&mut self, wanted: &Arc<Steered>) -> Result<(), NftError> {
        // Whatever becomes of it, it is not what it was.
        let whole = self.in_force.take().and_then(InForce::if_whole);
        // Somebody may have taken out what was to be taken out: then all is written anew.
        self.in_force = match whole.and_then(|whole| whole.changed_to(wanted)) {
            Some(changed) => Some(changed),
            None => {
                nft::run(&script::whole(wanted, self.marks, self.source_ports))?;
                InForce::read(wanted)
            }
        };
        Ok(())
    }

    /// Removes the table, if it is there.
    pub(super) fn withdraw(&mut self) -> Result<(), NftError> {
        self.in_force = None;
        if nft::has_table(TABLE) { nft::run(&format!("delete table {TABLE}\n")) } else { Ok(()) }
    }
}

impl InForce {
    /// The table as it was just written.
    fn read(steered: &Arc<Steered>) -> Option<Self> {
        let generation = generation::current();
        let outline = nft::outline(TABLE)?;
        Some(Self { steered: Arc::clone(steered), outline, generation })
    }

    /// The table after it was changed to this; `None` where that cannot be done by its difference.
    fn changed_to(self, wanted: &Arc<Steered>) -> Option<Self> {
        if Arc::ptr_eq(&self.steered, wanted) || self.steered == *wanted {
            return Some(self);
        }
        nft::run(&script::difference(&self.steered, wanted)).ok()?;
        // If it was not our change alone, it must be looked at again.
        let own = self.generation.map(|generation| generation.wrapping_add(1));
        let generation = generation::current().filter(|now| Some(*now) == own);
        Some(Self { steered: Arc::clone(wanted), generation, ..self })
    }

    /// The same, if nobody has taken anything of the table away. While no table at all has changed, that is sure;
    /// otherwise `nft` says it.
    fn if_whole(self) -> Option<Self> {
        let generation = generation::current();
        if generation.is_some() && generation == self.generation {
            return Some(self);
        }
        (nft::outline(TABLE)? == self.outline).then_some(Self { generation, ..self })
    }
}
