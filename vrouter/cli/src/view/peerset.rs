//! Peer sets: those whom policies' rules refer to.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Serialize;
use vrouter_objects::{PeerAddress, PeerSetId};
use vrouter_proto::v1;

use crate::client::Client;
use crate::error::CliError;
use crate::names::{self, Names};
use crate::output::{Format, Row, document, fact, lines, print, rows, table};
use crate::words::or_dash;

/// A set in brief.
#[derive(Debug, Serialize)]
struct Brief {
    id: u32,
    /// None: rules refer to it, or addresses are held of it, but not the set itself.
    name: Option<String>,
    addresses: u32,
    /// What the policies are called that refer to it.
    policies: Vec<String>,
}

/// A set with its addresses.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    brief: Brief,
    members: Vec<Member>,
}

/// An address of it.
#[derive(Debug, Serialize)]
struct Member {
    address: IpAddr,
    /// Whose address space it is of.
    vrf: u32,
    network: String,
    /// The port that the set is about.
    port: Option<u16>,
    /// The pod of this node that has it; empty: none.
    pod: String,
}

impl Row for Brief {
    const HEADINGS: &'static [&'static str] = &["SET", "WHOM", "ADDRESSES", "POLICIES"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.name.clone().unwrap_or_else(|| "not held".to_owned()),
            self.addresses.to_string(),
            or_dash(self.policies.join(", ")),
        ]
    }
}

impl Row for Member {
    const HEADINGS: &'static [&'static str] = &["ADDRESS", "NETWORK", "PORT", "POD HERE"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.address.to_string(),
            format!("{} ({})", self.vrf, self.network),
            or_dash(self.port.map(|port| port.to_string()).unwrap_or_default()),
            or_dash(self.pod.clone()),
        ]
    }
}

/// Shows all sets in brief, or one of them, by name or number, with its addresses.
pub async fn show(client: &mut Client, format: Format, wanted: Option<&str>) -> Result<(), CliError> {
    let policies = client.policies().await?.policies.into_iter();
    let policies: HashMap<_, _> =
        policies.filter_map(|held| held.policy).map(|policy| (policy.id, policy.name)).collect();
    let sets: Vec<_> = client.peer_sets().await?.into_iter().map(|set| brief(set, &policies)).collect();
    let Some(wanted) = wanted else { return rows(format, &sets) };
    let set = find(sets, wanted)?;
    let whole = whole(client, set).await?;
    match format {
        Format::Table => print(&text(&whole)),
        Format::Json | Format::Yaml => document(format, &whole),
    }
}

fn brief(held: v1::HeldPeerSet, policies: &HashMap<u32, String>) -> Brief {
    let v1::PeerSet { id, name } = held.set.unwrap_or_default();
    let called = |policy: &u32| policies.get(policy).cloned().unwrap_or_else(|| format!("#{policy}"));
    Brief {
        id,
        name: Some(name).filter(|name| !name.is_empty()),
        addresses: held.addresses,
        policies: held.policies.iter().map(called).collect(),
    }
}

fn find(sets: Vec<Brief>, wanted: &str) -> Result<Brief, CliError> {
    let is_it = |set: &Brief| set.name.as_deref() == Some(wanted) || set.id.to_string() == wanted;
    let unknown = || CliError::Unknown { kind: "peer set", name: wanted.to_owned() };
    sets.into_iter().find(is_it).ok_or_else(unknown)
}

async fn whole(client: &mut Client, brief: Brief) -> Result<Whole, CliError> {
    let id = PeerSetId::new(brief.id).map_err(vrouter_proto::convert::ConvertError::from)?;
    let spaces = Spaces::ask(client).await?;
    let mut members = Vec::new();
    for message in client.peer_addresses(id).await? {
        members.push(spaces.member(PeerAddress::try_from(message)?));
    }
    Ok(Whole { brief, members })
}

/// Which pods of this node have which addresses.
struct Spaces {
    names: Names,
    /// The address space of each network.
    space_of: HashMap<u32, u32>,
    interfaces: Vec<v1::Interface>,
}

impl Spaces {
    async fn ask(client: &mut Client) -> Result<Self, CliError> {
        let networks = client.routing_instances().await?;
        let space_of = networks.iter().map(|network| (network.id, network.address_space)).collect();
        let interfaces = client.interfaces().await?;
        Ok(Self { names: Names::of(vec![], networks, vec![]), space_of, interfaces })
    }

    fn member(&self, peer: PeerAddress) -> Member {
        let space = peer.key.space.get();
        let address = peer.key.address.to_string();
        let has_it = |interface: &&v1::Interface| {
            self.space_of.get(&interface.vrf) == Some(&space)
                && interface.addresses.iter().any(|own| names::address(Some(own)) == address)
        };
        Member {
            address: peer.key.address,
            vrf: space,
            network: self.names.network(space),
            port: peer.port.map(|port| port.get()),
            pod: self.interfaces.iter().find(has_it).map(|own| own.name.clone()).unwrap_or_default(),
        }
    }
}

fn text(whole: &Whole) -> String {
    let Brief { id, name, addresses, policies } = &whole.brief;
    let facts = lines(&[
        fact("set", format!("{}, id {id}", name.as_deref().unwrap_or("not held"))),
        fact("policies", or_dash(policies.join(", "))),
        fact("addresses", addresses),
    ]);
    if whole.members.is_empty() { facts } else { format!("{facts}\n\n{}", table(&whole.members)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> v1::Address {
        v1::Address { octets: vec![10, 244, 1, last] }
    }

    fn sets() -> Vec<Brief> {
        let policies = HashMap::from([(7, "NetworkPolicy shop/front".to_owned())]);
        let set = |id, name: &str, addresses| v1::HeldPeerSet {
            set: Some(v1::PeerSet { id, name: name.to_owned() }),
            addresses,
            policies: vec![7, 8],
        };
        [set(1, "pods app=web in namespace shop", 2), set(2, "", 0)].map(|held| brief(held, &policies)).into()
    }

    #[test]
    fn sets_with_the_policies_that_refer_to_them() {
        let expected = "\
SET  WHOM                            ADDRESSES  POLICIES
1    pods app=web in namespace shop  2          NetworkPolicy shop/front, #8
2    not held                        0          NetworkPolicy shop/front, #8";
        assert_eq!(table(&sets()), expected);
        assert_eq!(find(sets(), "pods app=web in namespace shop").unwrap().id, 1);
        assert_eq!(find(sets(), "2").unwrap().id, 2);
        let error = find(sets(), "web").unwrap_err().to_string();
        assert_eq!(error, "there is no peer set \"web\"");
    }

    #[test]
    fn an_address_is_a_pods_in_its_own_address_space_alone() {
        let network =
            |id, name: &str| v1::RoutingInstance { id, name: name.to_owned(), ..Default::default() };
        let networks = vec![network(1, "default/default-podnetwork"), network(9, "shop/blue")];
        let interface = |name: &str, vrf, last| v1::Interface {
            name: name.to_owned(),
            vrf,
            addresses: vec![address(last)],
            ..Default::default()
        };
        let spaces = Spaces {
            names: Names::of(vec![], networks, vec![]),
            space_of: HashMap::from([(1, 1), (4, 1), (9, 9)]),
            interfaces: vec![interface("shop/blue-web", 9, 2), interface("shop/web", 4, 2)],
        };
        let member = |last, port| {
            let key = v1::PeerAddressKey { set: 1, space: 1, address: Some(address(last)) };
            spaces.member(v1::PeerAddress { key: Some(key), port }.try_into().unwrap())
        };
        let members = vec![member(2, 8080), member(3, 0)];
        let whole = Whole { brief: sets().remove(0), members };
        let expected = "\
set:       pods app=web in namespace shop, id 1
policies:  NetworkPolicy shop/front, #8
addresses: 2

ADDRESS     NETWORK                         PORT  POD HERE
10.244.1.2  1 (default/default-podnetwork)  8080  shop/web
10.244.1.3  1 (default/default-podnetwork)  -     -";
        assert_eq!(text(&whole), expected);
    }
}
