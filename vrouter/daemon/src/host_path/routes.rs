//! Routes to `vhost0`: for pods and services in the main table, for what the steering marks in a table of its own. All
//! bear our protocol number, by which those are found that are to go.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use futures::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::family::Family;
use super::link::is_absent;
use super::{HostPath, HostPathError, marks};

/// Nearly the best, but said: IPv6 would take 0 for 1024.
const METRIC: u32 = 1;
/// Behind every other.
const LAST_METRIC: u32 = u32::MAX;

/// One route of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    table: u32,
    destination: IpNet,
    way: Way,
}

/// Where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// To the router, by the device with this index.
    Router { device: u32, source: Option<IpAddr> },
    /// Nowhere: it says so while the router is away, lest packets for pods leave the node by another route.
    Nowhere,
}

/// A route that bears our number.
struct Held {
    /// What it is; `None`: nothing that we would make.
    entry: Option<Entry>,
    message: RouteMessage,
}

/// Brings the routes to what is wanted.
pub(super) async fn follow(
    netlink: &Handle,
    device: u32,
    path: &HostPath,
    problems: &mut Vec<HostPathError>,
) -> Result<(), HostPathError> {
    let held = read(netlink).await?;
    let wanted = wanted(device, path);
    let missing = wanted.iter().filter(|entry| !held.iter().any(|held| held.entry == Some(**entry)));
    for entry in missing {
        let put = netlink.route().add(entry.message()).replace().execute().await;
        problems.extend(put.map_err(HostPathError::kernel(entry, "making it")).err());
    }
    // What was replaced just now is gone already, and what took its place may answer to the same name.
    let is_kept =
        |held: &Held| held.entry.is_some_and(|held| wanted.iter().any(|entry| entry.replaces(held)));
    remove(netlink, held.into_iter().filter(|held| !is_kept(held)), problems).await;
    Ok(())
}

/// Removes all of ours.
pub(super) async fn withdraw(
    netlink: &Handle,
    problems: &mut Vec<HostPathError>,
) -> Result<(), HostPathError> {
    let held = read(netlink).await?;
    remove(netlink, held, problems).await;
    Ok(())
}

async fn remove(netlink: &Handle, routes: impl IntoIterator<Item = Held>, problems: &mut Vec<HostPathError>) {
    for Held { entry, message } in routes {
        match netlink.route().del(message).execute().await {
            Err(error) if !is_absent(&error) => {
                let name = entry.map_or_else(|| "a route of ours".to_owned(), |entry| entry.to_string());
                problems.push(HostPathError::kernel(name, "removing it")(error));
            }
            _ => {}
        }
    }
}

fn wanted(device: u32, path: &HostPath) -> BTreeSet<Entry> {
    let main = RouteHeader::RT_TABLE_MAIN.into();
    let steered = Family::spoken().map(|family| Entry {
        table: marks::TABLE,
        destination: everything(family),
        way: Way::Router { device, source: None },
    });
    let overlay = path.routes.iter().flat_map(|(destination, source)| {
        let way = Way::Router { device, source: Some(*source) };
        [way, Way::Nowhere].map(|way| Entry { table: main, destination: *destination, way })
    });
    steered.chain(overlay).collect()
}

fn everything(family: Family) -> IpNet {
    match family {
        Family::V4 => ipnet::Ipv4Net::default().into(),
        Family::V6 => ipnet::Ipv6Net::default().into(),
    }
}

/// Our routes in the two tables.
async fn read(netlink: &Handle) -> Result<Vec<Held>, HostPathError> {
    let mut held = Vec::new();
    for family in Family::spoken() {
        for table in [RouteHeader::RT_TABLE_MAIN.into(), marks::TABLE] {
            let mut ours = RouteMessage::default();
            ours.header.address_family = family.number();
            ours.header.protocol = RouteProtocol::Other(marks::PROTOCOL);
            ours.attributes.push(RouteAttribute::Table(table));
            let found: Result<Vec<_>, _> = netlink.route().get(ours).execute().try_collect().await;
            match found {
                Ok(messages) => held.extend(
                    messages.into_iter().map(|message| Held { entry: Entry::recognise(&message), message }),
                ),
                // A table without routes is none.
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(HostPathError::kernel("routes", "reading them")(error)),
            }
        }
    }
    Ok(held)
}

impl Entry {
    /// Whether, when it is made, the other is no more.
    fn replaces(self, other: Self) -> bool {
        (self.table, self.destination, self.metric()) == (other.table, other.destination, other.metric())
    }

    fn metric(self) -> u32 {
        match self.way {
            Way::Router { .. } => METRIC,
            Way::Nowhere => LAST_METRIC,
        }
    }

    fn message(&self) -> RouteMessage {
        let mut builder = RouteMessageBuilder::<IpAddr>::new()
            .table_id(self.table)
            .protocol(RouteProtocol::Other(marks::PROTOCOL));
        let message = builder.get_mut();
        message.header.address_family = Family::of(self.destination.addr()).number();
        message.header.destination_prefix_length = self.destination.prefix_len();
        message.attributes.push(RouteAttribute::Destination(self.destination.addr().into()));
        match self.way {
            Way::Router { device, source } => {
                let gateway = Family::of(self.destination.addr()).gateway();
                message.header.flags |= RouteFlags::Onlink;
                message.attributes.push(RouteAttribute::Gateway(gateway.into()));
                message.attributes.push(RouteAttribute::Oif(device));
                let source = source.map(|source| RouteAttribute::PrefSource(source.into()));
                message.attributes.extend(source);
            }
            Way::Nowhere => message.header.kind = RouteType::Unreachable,
        }
        message.attributes.push(RouteAttribute::Priority(self.metric()));
        builder.build()
    }

    /// What a route of ours is, if it is as we make them.
    fn recognise(message: &RouteMessage) -> Option<Self> {
        let (mut table, mut destination) = (message.header.table.into(), None);
        let (mut device, mut source, mut metric) = (None, None, 0);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Destination(address) => destination = ip(address),
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::PrefSource(address) => source = ip(address),
                RouteAttribute::Priority(number) => metric = *number,
                _ => {}
            }
        }
        let family =
            Family::ALL.into_iter().find(|family| family.number() == message.header.address_family)?;
        let address = destination.unwrap_or(everything(family).addr());
        let destination = IpNet::new(address, message.header.destination_prefix_length).ok()?;
        let way = match message.header.kind {
            RouteType::Unicast => Way::Router { device: device?, source },
            RouteType::Unreachable => Way::Nowhere,
            _ => return None,
        };
        let entry = Self { table, destination, way };
        (entry.metric() == metric).then_some(entry)
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {} in table {}", self.destination, self.table)
    }
}
