//! Connections of one case, there and back.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use vrouter_forward::Family;
use vrouter_forward::sim::{Delivery, Tunnelled};
use vrouter_objects::ServiceProtocol;

use crate::case::Case;
use crate::expectation::{Exit, Sighting, Source};
use crate::support::{ACK, RST, Read, SYN, gateway, packet, read};
use crate::world::{Endpoint, Kept, World};

/// How often a client tries where it is refused.
pub const REFUSED: u64 = 2;
/// How many connections there are at least.
const CONNECTIONS: usize = 4;
/// How many there are at most, if members have not been seen yet: one of six is missed once in 10^15 times.
const ENOUGH: usize = 200;
/// The ports that nodes' sources come from.
const SOURCE_PORTS: RangeInclusive<u16> = 61_000..=u16::MAX;

/// What a check says: what is wrong, if anything is.
pub type Checked<T> = Result<T, String>;

/// A case with its addresses.
pub struct Journey<'a> {
    world: &'a mut World,
    case: &'a Case<'a>,
    client: IpAddr,
    frontend: Endpoint,
}

/// A packet that reached a port, read.
struct Seen {
    node: usize,
    port: u16,
    packet: Read,
    wire: Vec<Tunnelled>,
}

/// A connection whose first packet has arrived.
struct Connection {
    sighting: Sighting,
    client_port: u16,
    there: Seen,
}

impl<'a> Journey<'a> {
    pub fn new(world: &'a mut World, case: &'a Case<'a>) -> Self {
        let client = world.client(case.client, case.entry);
        let frontend = world.frontend(case.frontend, case.entry);
        Self { world, case, client, frontend }
    }

    /// Whom the service keeps this client with.
    pub fn kept(&self) -> Kept {
        self.world.kept((self.case.entry, self.client))
    }

    /// Many connections reach all of these members and nobody else; or the one that the client is kept with.
    pub fn reaches(&mut self, sightings: &[Sighting], kept: Kept) -> Checked<()> {
        let allowed: Vec<Sighting> = match kept {
            Kept::With(place) if sightings.iter().any(|sighting| sighting.member == place) => {
                sightings.iter().copied().filter(|sighting| sighting.member == place).collect()
            }
            _ => sightings.to_vec(),
        };
        let wanted = if kept == Kept::Nobody { allowed.len() } else { 1 };
        let mut reached = BTreeSet::new();
        for number in 0..ENOUGH {
            if number >= CONNECTIONS && reached.len() >= wanted {
                break;
            }
            let connection = self.connect(&allowed)?;
            reached.insert(connection.sighting.member);
            if number == 0 {
                self.goes_on(&connection)?;
            }
        }
        same("number of members reached", &reached.len(), &wanted)
            .map_err(|what| format!("{what}: {reached:?}"))?;
        if let (Kept::First | Kept::With(_), Some(member)) = (kept, reached.first()) {
            self.world.keep((self.case.entry, self.client), *member);
        }
        Ok(())
    }

    /// The client is told, by the frontend or the router.
    pub fn is_rejected(&mut self) -> Checked<()> {
        for _ in 0..REFUSED {
            let port = self.world.fresh_port();
            let request = self.request(port, SYN);
            let told = seen(self.send(&request))?;
            same("where it is told", &(told.node, told.port), &self.client_port())?;
            same("who is told", &told.packet.destination, &self.client)?;
            is_sent_on_by(None, &told.wire)?;
            match self.world.protocol {
                ServiceProtocol::Tcp => self.is_reset(&told.packet, port)?,
                ServiceProtocol::Udp | ServiceProtocol::Sctp => {
                    self.is_unreachable(&told.packet, &request)?
                }
            }
        }
        Ok(())
    }

    /// Nothing comes of it.
    pub fn is_dropped(&mut self) -> Checked<()> {
        for _ in 0..REFUSED {
            let port = self.world.fresh_port();
            let request = self.request(port, SYN);
            let (delivered, wire) = self.send(&request);
            same("packets of a drop", &(delivered.len(), wire.len()), &(0, 0))?;
        }
        Ok(())
    }

    fn request(&self, port: u16, flags: u8) -> Vec<u8> {
        packet(self.client, self.frontend.0, self.world.protocol, (port, self.frontend.1), flags)
    }

    fn send(&mut self, request: &[u8]) -> (Vec<Delivery>, Vec<Tunnelled>) {
        self.world.send_as_client(self.case.client, self.case.entry, request)
    }

    fn client_port(&self) -> (usize, u16) {
        self.world.client_port(self.case.client, self.case.entry)
    }

    /// One connection's first packet and its answer.
    fn connect(&mut self, allowed: &[Sighting]) -> Checked<Connection> {
        let client_port = self.world.fresh_port();
        let request = self.request(client_port, SYN);
        let there = seen(self.send(&request))?;
        let destination = (there.packet.destination, there.packet.ports.1);
        let found = allowed.iter().find(|sighting| self.world.member(sighting.member) == destination);
        let sighting = *found.ok_or_else(|| format!("reached {destination:?} instead of {allowed:?}"))?;
        self.check_sighting(&there, sighting, client_port)?;
        let connection = Connection { sighting, client_port, there };
        self.answer(&connection, SYN | ACK)?;
        Ok(connection)
    }

    /// The next packets go the same ways.
    fn goes_on(&mut self, connection: &Connection) -> Checked<()> {
        let request = self.request(connection.client_port, ACK);
        let (again, there) = (seen(self.send(&request))?, &connection.there);
        same("next packet's addresses", &ends(&again.packet), &ends(&there.packet))?;
        same("next packet's exit", &(again.node, again.port), &(there.node, there.port))?;
        self.answer(connection, ACK)
    }

    fn check_sighting(&self, there: &Seen, sighting: Sighting, client_port: u16) -> Checked<()> {
        let Read { source, ports, .. } = there.packet;
        same("exit", &(there.node, there.port), &self.world.exit_port(sighting.exit))?;
        same("source", &source, &self.source(sighting))?;
        if sighting.source == Source::Node {
            holds(SOURCE_PORTS.contains(&ports.0), || {
                format!("source port {} is not of the router's", ports.0)
            })?;
        } else {
            same("source port", &ports.0, &client_port)?;
        }
        let tunnel = match sighting.exit {
            Exit::Pod(node) | Exit::Host(node) => (node != self.case.entry).then_some(self.case.entry),
            Exit::KernelNode(node) => Some(node),
        };
        is_sent_on_by(tunnel, &there.wire)
    }

    fn source(&self, sighting: Sighting) -> IpAddr {
        match sighting.source {
            Source::Client => self.client,
            Source::Gateway => gateway(self.world.family),
            Source::Block => self.world.block_source(self.case.entry),
            Source::Node => self.world.node_address(self.case.entry),
        }
    }

    /// The member answers, and the client hears the frontend.
    fn answer(&mut self, connection: &Connection, flags: u8) -> Checked<()> {
        let Connection { sighting, client_port, there } = connection;
        let (address, port) = self.world.member(sighting.member);
        let ports = (port, there.packet.ports.0);
        let answer = packet(address, there.packet.source, self.world.protocol, ports, flags);
        let back = seen(self.world.send_as_member(sighting.exit, &answer));
        let back = back.map_err(|what| format!("answer: {what}"))?;
        same("where the answer arrives", &(back.node, back.port), &self.client_port())?;
        let expected = (self.frontend, (self.client, *client_port));
        same("answer's addresses", &ends(&back.packet), &expected)?;
        let tunnel = match sighting.exit {
            Exit::Pod(node) | Exit::Host(node) => (node != self.case.entry).then_some(node),
            Exit::KernelNode(_) => None,
        };
        is_sent_on_by(tunnel, &back.wire)
    }

    fn is_reset(&self, told: &Read, port: u16) -> Checked<()> {
        same("reset's addresses", &ends(told), &(self.frontend, (self.client, port)))?;
        same("reset's flags", &told.tcp_flags, &(RST | ACK))
    }

    /// RFC 792 and RFC 4443: port unreachable, with the packet as it was sent. It comes from the frontend, as from any
    /// host without the port; but what the node's stack gets comes from the node.
    fn is_unreachable(&self, told: &Read, request: &[u8]) -> Checked<()> {
        let (protocol, kind, quoted) = match self.world.family {
            Family::V4 => (1, [3, 3], 12..28),
            Family::V6 => (58, [1, 4], 8..48),
        };
        same("protocol of an error", &told.protocol, &protocol)?;
        same("kind of an error", &told.payload[..2], &kind[..])?;
        same("source of an error", &told.source, &self.frontend.0)?;
        same("quoted packet", &told.payload[8..][quoted.clone()], &request[14..][quoted])
    }
}

/// The one packet that came out.
fn seen((delivered, wire): (Vec<Delivery>, Vec<Tunnelled>)) -> Checked<Seen> {
    let [Delivery { node, port, frame, .. }] = &delivered[..] else {
        return Err(format!(
            "{} packets came out instead of one: {delivered:02x?}, tunnelled: {wire:02x?}",
            delivered.len()
        ));
    };
    Ok(Seen { node: *node, port: port.0, packet: read(frame), wire })
}

/// One node alone, or none, sent it on by a tunnel.
fn is_sent_on_by(node: Option<usize>, wire: &[Tunnelled]) -> Checked<()> {
    let senders: Vec<usize> = wire.iter().map(|tunnelled| tunnelled.from).collect();
    same("nodes that sent it on by a tunnel", &senders[..], node.as_slice())
}

/// A packet's source and destination.
fn ends(packet: &Read) -> (Endpoint, Endpoint) {
    ((packet.source, packet.ports.0), (packet.destination, packet.ports.1))
}

/// Two things are the same.
pub fn same<T: PartialEq + Debug + ?Sized>(what: &str, got: &T, expected: &T) -> Checked<()> {
    holds(got == expected, || format!("{what}: got {got:?}, expected {expected:?}"))
}

fn holds(condition: bool, what: impl FnOnce() -> String) -> Checked<()> {
    if condition { Ok(()) } else { Err(what()) }
}
