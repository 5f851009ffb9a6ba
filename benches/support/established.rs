//! Connections that are through their handshake, and packets of them.

use vrouter_forward::parse::{Parsed, parse};

use crate::{Lane, Layout, Random, Site, Template, Traffic};
use vrouter_forward::frame::Frame;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Bytes of payload of every packet.
const PAYLOAD: usize = 64;

/// Which packets of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the service.
    Forward,
    /// From the member to the client.
    Reply,
    /// A burst of the one or of the other, at random.
    Both,
}

/// A site whose client has TCP connections to services.
#[derive(Debug)]
pub struct Established {
    /// The site.
    pub site: Site,
    connections: usize,
    /// Those members that have connections, with the numbers of these.
    members: Vec<(usize, Vec<u32>)>,
}

impl Established {
    /// With so many connections, each through its whole handshake: two flows each.
    pub fn new(layout: Layout, connections: usize) -> Self {
        let site = Site::new(layout);
        let mut lane = site.router.lane(0);
        let templates = [SYN, SYN | ACK, ACK].map(|flags| Template::new(layout.family, flags, 0));
        let mut members: Vec<_> = (0..layout.members).map(|member| (member, Vec::new())).collect();
        for number in 0..connections {
            let member = shake_hands(&site, &mut lane, &templates, number);
            members[member].1.push(number as u32);
        }
        members.retain(|(_, connections)| !connections.is_empty());
        Self { site, connections, members }
    }

    /// Packets for a worker: the one with this number of so many, each of which has connections of its own.
    pub fn traffic(&self, direction: Direction, worker: usize, workers: usize) -> EstablishedTraffic<'_> {
        EstablishedTraffic {
            established: self,
            template: Template::new(self.site.layout().family, ACK, PAYLOAD),
            direction,
            share: Share { worker, workers },
            random: Random::new(worker as u64),
            sender: Sender::Client,
        }
    }
}

/// Lets a connection begin and says which member it has.
fn shake_hands(site: &Site, lane: &mut Lane, [syn, answer, ack]: &[Template; 3], number: usize) -> usize {
    let (client, service) = site.connection(number);
    let mut to_service = |template: &Template| {
        let mut frame = template.frame(site.client());
        template.write(&mut frame, site.client(), client, service);
        lane.forward(frame)
    };
    let member = member_of(site, &to_service(syn));
    let host = &site.members()[member];
    let mut frame = answer.frame(host);
    answer.write(&mut frame, host, site.member_end(member, number), client);
    lane.forward(frame);
    let mut frame = ack.frame(site.client());
    ack.write(&mut frame, site.client(), client, service);
    lane.forward(frame);
    member
}

/// The member that a translated packet goes to.
fn member_of(site: &Site, frame: &Frame) -> usize {
    let Ok(Parsed::Ip(packet)) = parse(frame.bytes()) else {
        panic!("what leaves the router is an IP packet")
    };
    let is_its = |address| vrouter_forward::Address::from(address) == packet.destination;
    let position = site.members().iter().position(|host| is_its(host.address));
    position.expect("it goes to a member")
}

/// Packets of established flows, each of a random one. Those of one burst have one sender, as they have where `io` reads
/// them.
#[derive(Debug)]
pub struct EstablishedTraffic<'a> {
    established: &'a Established,
    template: Template,
    direction: Direction,
    share: Share,
    random: Random,
    sender: Sender,
}

/// Who sends the packets of a burst.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Client,
    /// By its place among the members that have connections.
    Member(usize),
}

/// A worker's part of what all have.
#[derive(Debug, Clone, Copy)]
struct Share {
    worker: usize,
    workers: usize,
}

impl Share {
    /// A random one of the part of so many.
    fn pick(self, random: &mut Random, of: usize) -> usize {
        let size = of / self.workers;
        self.worker * size + random.below(size)
    }
}

impl Traffic for EstablishedTraffic<'_> {
    fn frame(&self) -> Frame {
        self.template.frame(self.established.site.client())
    }

    fn begin_burst(&mut self) {
        let is_reply = match self.direction {
            Direction::Forward => false,
            Direction::Reply => true,
            Direction::Both => self.random.below(2) == 1,
        };
        self.sender = if is_reply {
            Sender::Member(self.random.below(self.established.members.len()))
        } else {
            Sender::Client
        };
    }

    fn next(&mut self, frame: &mut Frame) {
        let Established { site, connections, members } = self.established;
        match self.sender {
            Sender::Client => {
                let number = self.share.pick(&mut self.random, *connections);
                let (client, service) = site.connection(number);
                self.template.write(frame, site.client(), client, service);
            }
            Sender::Member(place) => {
                let (member, connections) = &members[place];
                let number = connections[self.share.pick(&mut self.random, connections.len())] as usize;
                let (source, (client, _)) = (site.member_end(*member, number), site.connection(number));
                self.template.write(frame, &site.members()[*member], source, client);
            }
        }
    }
}
