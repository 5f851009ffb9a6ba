//! Lookups in a snapshot, each of a random entry: routes by how many prefixes there are and of how many lengths, floating
//! IPs by how many services there are.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, criterion_group, criterion_main};
use vrouter_benches::{Layout, Random, SERVICE_PORT, Site};
use vrouter_forward::Address;
use vrouter_objects::{IpNet, IpProtocol, NextHop, Object, Route, RouteKey, RouterId, VrfId};

/// Lookups go round over so many addresses.
const ADDRESSES: usize = 1 << 16;
/// The cluster's network of pods.
const POD_VRF: u32 = 1;
/// Its network of service addresses.
const SERVICE_VRF: u32 = 2;

/// A small site, whose tables are to be filled.
fn site(services: usize) -> Site {
    Site::new(Layout { members: 1, ..Layout::new(services, 1 << 10) })
}

fn vrf(number: u32) -> VrfId {
    VrfId::new(number).expect("it is not zero")
}

/// The prefix with this number, of one of so many lengths from /32 downwards. They lie in 128.0.0.0/1, far from the
/// site's own.
fn prefix(number: usize, lengths: usize) -> IpNet {
    let host_bits = number % lengths;
    let bits = 1 << 31 | (number as u32) << host_bits;
    IpNet::new(IpAddr::from(bits.to_be_bytes()), 32 - host_bits as u8).expect("a length of IPv4")
}

/// Random ones of these addresses, enough of them that no cache learns their order.
fn shuffled(of: usize, address: impl Fn(usize) -> IpAddr) -> Vec<Address> {
    let mut random = Random::new(0);
    (0..ADDRESSES).map(|_| address(random.below(of)).into()).collect()
}

fn routes(criterion: &mut Criterion) {
    for lengths in [2, 8] {
        for prefixes in [1_000, 100_000, 1_000_000] {
            measure_routes(criterion, prefixes, lengths);
        }
    }
}

fn measure_routes(criterion: &mut Criterion, prefixes: usize, lengths: usize) {
    let site = site(1);
    let next_hop = NextHop::Tunnel(RouterId::new(2).expect("it is not zero"));
    let key = |number| RouteKey { vrf: vrf(POD_VRF), prefix: prefix(number, lengths) };
    let route = |number| Object::Route(Route { key: key(number), next_hop: next_hop.clone() });
    site.router.put((0..prefixes).map(route));
    let snapshot = site.router.snapshot();
    let addresses = shuffled(prefixes, |number| prefix(number, lengths).addr());
    let mut turn = addresses.iter().cycle();
    criterion.bench_function(&format!("lookup/routes/{lengths}-lengths/{prefixes}"), |bencher| {
        bencher.iter(|| turn.next().map(|address| black_box(snapshot.next_hop(vrf(POD_VRF), *address))));
    });
}

fn floating_ips(criterion: &mut Criterion) {
    for services in [10, 1_000, 10_000, 50_000] {
        let site = site(services);
        let snapshot = site.router.snapshot();
        let addresses = shuffled(services, |number| site.service_address(number));
        let mut turn = addresses.iter().cycle();
        criterion.bench_function(&format!("lookup/floating-ips/{services}"), |bencher| {
            let fip_at = |address: &Address| {
                snapshot.fip_at(vrf(SERVICE_VRF), *address, IpProtocol::TCP, SERVICE_PORT)
            };
            bencher.iter(|| turn.next().map(|address| black_box(fip_at(address))));
        });
    }
}

criterion_group!(benches, routes, floating_ips);
criterion_main!(benches);
