//! Services in front of pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::places::{NAMESPACES, PORTS};
use crate::random::Random;
use crate::world::{Name, Protocol, Service, World};

/// Adds a service whose pods are of its namespace.
pub fn add(world: &mut World, random: &mut Random) {
    let number = world.services.len();
    let namespace = random.pick(NAMESPACES);
    let pods = world.pods.iter().filter(|(name, pod)| name.namespace == namespace && pod.is_serving());
    let pods: Vec<&Name> = pods.map(|(name, _)| name).collect();
    // Most have one pod, so that there is no doubt where packets go.
    let count = random.pick(&[1, 1, 1, 2, 3]);
    let port = random.pick(PORTS);
    let endpoint = |name: &Name| {
        let own = if random.percent(60) { port } else { random.pick(PORTS) };
        (name.clone(), own)
    };
    let endpoints: BTreeMap<Name, u16> = pods.into_iter().take(count).map(endpoint).collect();
    let service = Service {
        addresses: vec![
            IpAddr::from([10, 96, 1, 10 + number as u8]),
            IpAddr::from([0xfd00, 0x10, 0x96, 0, 0, 0, 1, 10 + number as u16]),
        ],
        protocol: random.pick(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Udp, Protocol::Sctp]),
        port: random.pick(PORTS),
        node_port: 30_000 + number as u16,
        endpoints,
    };
    world.services.insert(Name::new(namespace, &format!("service-{number}")), service);
}
