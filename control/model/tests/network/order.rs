//! The tables follow from what there is, and not from what came first.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use vrouter_control_model::Kind;
use vrouter_objects::{MemberState, NextHop, Object, RoutingInstance, VrfId};

use crate::common::{Cluster, made, object, reference, running, service};
use crate::support::{
    NETWORK, annotated, bare, isolated, labelled, namespace, network, plain_pod, router, subnet, two_nodes,
};

/// One state of one of a few objects that have to do with each other, with its kind and name. Nothing is picked out of many:
/// pods name their addresses, and services theirs.
fn a_manifest() -> impl Strategy<Value = (Kind, &'static str, Option<Value>)> {
    prop_oneof![
        (any::<bool>(), prop::option::of(Just("a/net"))).prop_map(|(is_isolated, asks)| {
            let plain = if is_isolated { isolated("a") } else { namespace("a") };
            let asking = match asks {
                Some(network) => annotated(plain.clone(), NETWORK, network),
                None => plain,
            };
            (Kind::Namespace, "a", Some(asking))
        }),
        any::<bool>().prop_map(|is_isolated| {
            let plain = if is_isolated { isolated("b") } else { namespace("b") };
            (Kind::Namespace, "b", Some(plain))
        }),
        prop::option::of(prop::sample::select(vec!["10.0.0.0/24", "10.0.0.0/16", "10.5.0.0/24", "bad"]))
            .prop_map(|cidr| (Kind::Subnet, "a/net-v4", cidr.map(|cidr| subnet("a/net-v4", cidr)))),
        prop::option::of(prop::sample::select(vec!["10.0.0.0/24", "10.6.0.0/24"])).prop_map(|cidr| (
            Kind::Subnet,
            "b/net-v4",
            cidr.map(|cidr| subnet("b/net-v4", cidr))
        )),
        prop::option::of((prop::sample::select(vec!["x", "y"]), prop::option::of(Just(700)))).prop_map(
            |state| {
                let made = state
                    .map(|(label, vni)| with_vni(labelled(network("a/net", &["v4"]), &[("vn", label)]), vni));
                (Kind::VirtualNetwork, "a/net", made)
            }
        ),
        prop::option::of((2020..2022_u32, prop::option::of(Just(700)))).prop_map(|state| {
            let labels = [("vn", "x")];
            let state = state
                .map(|(year, vni)| made(year, with_vni(labelled(network("b/net", &["v4"]), &labels), vni)));
            (Kind::VirtualNetwork, "b/net", state)
        }),
        any::<bool>().prop_map(|is_there| {
            let name = "a/default-podnetwork";
            (Kind::VirtualNetwork, name, is_there.then(|| labelled(bare(name), &[("vn", "x")])))
        }),
        prop::option::of((prop::sample::select(vec!["mesh", "hub"]), 2020..2022_u32)).prop_map(|state| {
            let state = state
                .map(|(kind, year)| made(year, router("a/r", kind, json!({ "vn": "x" }), &[("b", "r")])));
            (Kind::VirtualNetworkRouter, "a/r", state)
        }),
        prop::option::of(prop::sample::select(vec!["mesh", "spoke"])).prop_map(|kind| {
            let state = kind.map(|kind| made(2021, router("b/r", kind, json!({ "vn": "x" }), &[("a", "r")])));
            (Kind::VirtualNetworkRouter, "b/r", state)
        }),
        prop::option::of((prop::option::of(prop::sample::select(vec!["a/net", "b/net"])), 2..4_u8))
            .prop_map(|state| (Kind::Pod, "a/p", state.map(|(asks, host)| a_pod("a/p", asks, host)))),
        prop::option::of((prop::option::of(Just("b/net")), 2..4_u8)).prop_map(|state| (
            Kind::Pod,
            "b/p",
            state.map(|(asks, host)| a_pod("b/p", asks, host))
        )),
        prop::option::of(prop::option::of(Just("b/net")))
            .prop_map(|state| { (Kind::Service, "a/p", state.map(|asks| a_service("a/p", asks))) }),
        Just((Kind::Service, "b/p", Some(a_service("b/p", None)))),
    ]
}

fn with_vni(mut network: Value, vni: Option<u32>) -> Value {
    if let Some(vni) = vni {
        network["spec"]["virtualNetworkNetworkId"] = vni.into();
    }
    network
}

/// A pod that names its address, so that none is picked, and has it by its status.
fn a_pod(name: &str, asks: Option<&str>, host: u8) -> Value {
    let mut pod = made(2020, plain_pod(name, "n1"));
    let address = format!("10.0.0.{host}");
    pod["status"] = running(&address, true);
    let pod = annotated(pod, "vrouter.dev/ip-addresses", &address);
    match asks {
        Some(network) => annotated(pod, NETWORK, network),
        None => pod,
    }
}

fn a_service(name: &str, asks: Option<&str>) -> Value {
    // Of two that name one address, the one that has it keeps it: so they name others.
    let address = if name == "a/p" { "10.96.0.9" } else { "10.96.0.10" };
    let spec = json!({ "clusterIP": address, "selector": { "app": "p" }, "ports": [{ "port": 80 }] });
    let service = service(name, spec);
    match asks {
        Some(network) => annotated(service, NETWORK, network),
        None => service,
    }
}

/// What is in the tables, with networks by their names: their numbers tell who came first.
fn shown(cluster: &Cluster) -> Vec<String> {
    let objects = || cluster.tables.values().map(|object| &**object);
    let names: BTreeMap<VrfId, String> = objects()
        .filter_map(|object| match object {
            Object::RoutingInstance(instance) => Some((instance.id, instance.name.clone())),
            _ => None,
        })
        .collect();
    let name = |vrf: &VrfId| names.get(vrf).cloned().unwrap_or_else(|| "none".to_owned());
    let sorted = |list: &[VrfId]| {
        let mut names: Vec<_> = list.iter().map(name).collect();
        names.sort();
        names
    };
    let mut all: Vec<String> = objects()
        .map(|object| match object {
            Object::RoutingInstance(RoutingInstance {
                name: own,
                vni,
                subnets,
                address_space,
                known_in,
                ..
            }) => {
                let vni = if vni.get() < 4096 { vni.get() } else { 0 };
                format!("{own} {vni} {subnets:?} {} {:?}", name(address_space), sorted(known_in))
            }
            Object::Route(route) => {
                let next_hop = match &route.next_hop {
                    NextHop::VrfTranslate(vrf) => name(vrf),
                    other => other.to_string(),
                };
                format!("{} {} {next_hop}", name(&route.key.vrf), route.key.prefix)
            }
            Object::PodBinding(binding) => {
                format!(
                    "{} {} {:?} {:?}",
                    binding.pod,
                    name(&binding.vrf),
                    binding.addresses,
                    binding.refusal
                )
            }
            Object::FloatingIp(floating_ip) => {
                let members = floating_ip.listeners.iter().flat_map(|listener| &listener.members);
                // Who leaves tells who was there.
                let ready = members.filter(|member| member.state == MemberState::Ready);
                let members: Vec<_> =
                    ready.map(|member| format!("{} {}", name(&member.vrf), member.address)).collect();
                format!("{} {} {} {members:?}", floating_ip.name, name(&floating_ip.vrf), floating_ip.address)
            }
            other => format!("{other:?}"),
        })
        .collect();
    all.sort();
    all
}

/// Problems but those that tell which number was picked.
fn problems(cluster: &Cluster) -> Vec<String> {
    let cut = |problem: String| problem.split(": it has ").next().unwrap_or_default().to_owned();
    cluster.problems().into_iter().map(cut).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_order_of_events_gives_the_same_tables(
        history in prop::collection::vec(a_manifest(), 1..40),
        settles in any::<u64>(),
        order in any::<prop::sample::Index>(),
    ) {
        let mut last: BTreeMap<(Kind, &str), Option<Value>> = BTreeMap::new();
        let mut wandered = two_nodes();
        for (i, (kind, name, state)) in history.into_iter().enumerate() {
            match &state {
                Some(state) => wandered.record(state.clone()),
                None => wandered.model.delete(&reference(kind, name)),
            }
            last.insert((kind, name), state);
            if settles >> (i % 64) & 1 == 1 {
                wandered.settle();
            }
        }
        wandered.settle();
        let mut direct = two_nodes();
        let mut present: Vec<Value> = last.into_values().flatten().collect();
        if !present.is_empty() {
            let first = order.index(present.len());
            present.rotate_left(first);
        }
        for state in present {
            let object = object(state);
            let origin = format!("{}.yaml", object.reference().name);
            direct.model.apply(&object, origin.into());
        }
        direct.settle();
        prop_assert_eq!(shown(&wandered), shown(&direct));
        prop_assert_eq!(problems(&wandered), problems(&direct));
    }
}
