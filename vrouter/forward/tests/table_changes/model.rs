//! What is to happen to connections through services while the tables change: the rules on established flows
//! and nothing else, in the plainest form.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use vrouter_objects::{MemberState, ServiceProtocol, TrafficPolicy};

/// A service; its members are numbered like the pods they are.
#[derive(Debug, Clone)]
pub struct Service {
    pub protocol: ServiceProtocol,
    pub exists: bool,
    pub members: BTreeMap<usize, MemberState>,
    pub policy: TrafficPolicy,
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
    /// Nobody is told.
    Dropped,
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
    /// The pods on the clients' node.
    pub near: BTreeSet<usize>,
    connections: BTreeMap<Connection, usize>,
    /// What was chosen before from the same members, to be chosen again.
    choices: HashMap<(Connection, Vec<usize>), usize>,
}

impl Service {
    /// Those that take new flows, of all members or of the near ones alone: the ready ones, or else those that serve on.
    fn active(&self, near: &BTreeSet<usize>) -> Vec<usize> {
        let is_in_scope = |pod: &usize| self.policy == TrafficPolicy::Cluster || near.contains(pod);
        let of = |state| {
            let those = self.members.iter().filter(|(pod, its)| **its == state && is_in_scope(pod));
            those.map(|(pod, _)| *pod).collect::<Vec<_>>()
        };
        let ready = of(MemberState::Ready);
        if ready.is_empty() { of(MemberState::Serving) } else { ready }
    }

    /// Whether somebody could take a new flow, if policy let it.
    fn has_usable(&self) -> bool {
        self.members.values().any(|state| *state != MemberState::Leaving)
    }
}

impl Model {
    pub fn new(services: Vec<Service>) -> Self {
        Self { services, near: BTreeSet::new(), connections: BTreeMap::new(), choices: HashMap::new() }
    }

    /// The connections that a pod has.
    pub fn connections_of(&self, pod: usize) -> impl Iterator<Item = Connection> {
        let of_pod = self.connections.iter().filter(move |(_, member)| **member == pod);
        of_pod.map(|(connection, _)| *connection)
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
        let mid_stream = service.protocol == ServiceProtocol::Tcp && request == Request::Data;
        let keeps = current.is_some_and(|member| {
            let is_member = service.members.contains_key(&member);
            // Established TCP goes on; whatever can be resolved anew is, if there is anybody for it.
            is_member && (service.active(&self.near).contains(&member) || mid_stream || !service.has_usable())
        });
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
        let active = service.active(&self.near);
        if active.is_empty() {
            // Policy alone stands in the way, and says nothing.
            return if service.has_usable() { Expected::Dropped } else { Expected::Refused };
        }
        match self.choices.get(&(connection, active.clone())) {
            Some(member) => Expected::OneOf(vec![*member]),
            None => Expected::OneOf(active),
        }
    }

    /// This member was chosen for a connection.
    pub fn chose(&mut self, connection: Connection, member: usize) {
        let active = self.services[connection.service].active(&self.near);
        self.choices.insert((connection, active), member);
        self.connections.insert(connection, member);
    }

    /// The answer of the member that a connection has.
    pub fn answer(&mut self, connection: Connection) -> ExpectedAnswer {
        let Some(member) = self.member(connection) else { return ExpectedAnswer::Nothing };
        let service = &self.services[connection.service];
        let is_tcp = service.protocol == ServiceProtocol::Tcp;
        let is_active = service.active(&self.near).contains(&member);
        if !service.exists || !service.members.contains_key(&member) {
            self.connections.remove(&connection);
            ExpectedAnswer::Nothing
        } else if is_active || is_tcp || !service.has_usable() {
            ExpectedAnswer::Translated
        } else {
            ExpectedAnswer::Either
        }
    }

    /// A connection's flow is gone.
    pub fn forget(&mut self, connection: Connection) {
        self.connections.remove(&connection);
    }
}
