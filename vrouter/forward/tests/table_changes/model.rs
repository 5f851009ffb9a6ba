//! What is to happen to connections through services while the tables change: the rules on established flows
//! and nothing else, in the plainest form.

use std::collections::{BTreeMap, HashMap};

use vrouter_objects::{MemberState, NoMembers, ServiceProtocol};

/// A service; its members are numbered like the pods they are.
#[derive(Debug, Clone)]
pub struct Service {
    pub protocol: ServiceProtocol,
    pub no_members: NoMembers,
    pub exists: bool,
    pub members: BTreeMap<usize, MemberState>,
}

/// One client port's connection to one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    pub service: usize,
    pub number: u16,
}

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A TCP SYN; of other protocols, any packet.
    Opening,
    /// TCP data; of other protocols, any packet.
    Data,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It reaches this member.
    Member(usize),
    /// It reaches one of these, which the connection has from then on.
    OneOf(Vec<usize>),
    /// The client is told.
    Refused,
    /// Nothing comes of it.
    Nothing,
}

/// What becomes of a member's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// It comes to the client from the service.
    Translated,
    /// It does not come.
    Nothing,
    /// Either: nobody has said, for a datagram of a member that only keeps what it has.
    Either,
}

/// All services, and which member each connection has.
#[derive(Debug)]
pub struct Model {
    pub services: Vec<Service>,
    connections: BTreeMap<Connection, usize>,
    /// What was chosen before from the same members, to be chosen again.
    choices: HashMap<(Connection, Vec<usize>), usize>,
}

impl Service {
    fn active(&self) -> Vec<usize> {
        let active = self.members.iter().filter(|(_, state)| **state == MemberState::Active);
        active.map(|(member, _)| *member).collect()
    }
}

impl Model {
    pub fn new(services: Vec<Service>) -> Self {
        Self { services, connections: BTreeMap::new(), choices: HashMap::new() }
    }

    /// The member that a connection has.
    pub fn member(&self, connection: Connection) -> Option<usize> {
        self.connections.get(&connection).copied()
    }

    /// A client's packet. What a connection has afterwards is settled, unless one of several is to be chosen:
    /// then [`Model::chose`] follows.
    pub fn request(&mut self, connection: Connection, request: Request) -> Expected {
        let service = &self.services[connection.service];
        if !service.exists {
            self.connections.remove(&connection);
            return Expected::Refused;
        }
        let current = self.connections.get(&connection).copied();
        let state = current.and_then(|member| service.members.get(&member));
        let mid_stream = service.protocol == ServiceProtocol::Tcp && request == Request::Data;
        let keeps = match state {
            Some(MemberState::Active) => true,
            // Established TCP goes on; whatever can be resolved anew is, if there is anybody for it.
            Some(MemberState::Draining) => mid_stream || service.active().is_empty(),
            None => false,
        };
        match current.filter(|_| keeps) {
            Some(member) => Expected::Member(member),
            None => {
                self.connections.remove(&connection);
                self.anew(connection, mid_stream)
            }
        }
    }

    fn anew(&self, connection: Connection, mid_stream: bool) -> Expected {
        let service = &self.services[connection.service];
        if mid_stream {
            return Expected::Refused;
        }
        let active = service.active();
        match (active.is_empty(), service.no_members) {
            (false, _) => match self.choices.get(&(connection, active.clone())) {
                Some(member) => Expected::OneOf(vec![*member]),
                None => Expected::OneOf(active),
            },
            (true, NoMembers::Reject) => Expected::Refused,
            (true, NoMembers::Drop) => Expected::Nothing,
        }
    }

    /// This member was chosen for a connection.
    pub fn chose(&mut self, connection: Connection, member: usize) {
        let active = self.services[connection.service].active();
        self.choices.insert((connection, active), member);
        self.connections.insert(connection, member);
    }

    /// The answer of the member that a connection has.
    pub fn answer(&mut self, connection: Connection) -> ExpectedAnswer {
        let Some(member) = self.member(connection) else { return ExpectedAnswer::Nothing };
        let service = &self.services[connection.service];
        let is_tcp = service.protocol == ServiceProtocol::Tcp;
        match service.members.get(&member).filter(|_| service.exists) {
            Some(MemberState::Active) => ExpectedAnswer::Translated,
            Some(MemberState::Draining) if is_tcp || service.active().is_empty() => {
                ExpectedAnswer::Translated
            }
            Some(MemberState::Draining) => ExpectedAnswer::Either,
            None => {
                self.connections.remove(&connection);
                ExpectedAnswer::Nothing
            }
        }
    }

    /// A connection's flow is gone.
    pub fn forget(&mut self, connection: Connection) {
        self.connections.remove(&connection);
    }
}
