//! Random services, loaded into a real kernel: what `iptables-save` prints then is what was rendered, letter by letter.
//! Needs root, and iptables 1.8 with its nft backend.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use vrouter_objects::{
    AffinityTimeout, ExternalAddress, ExternalKind, FloatingIp, IpNet, Listener, Member, MemberId,
    MemberState, ServiceProtocol, TopologyHints, TrafficPolicy,
};

use super::super::{Family, rules};
use crate::service::testing::{listener, member, node, number, router, service};

const SERVICES: usize = 150;

fn address(family: Family, network: u16, host: u16) -> IpAddr {
    let [high, low] = host.to_be_bytes();
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, u8::try_from(network).unwrap(), high, low).into(),
        Family::Ipv6 => Ipv6Addr::new(0xfd00, network, 0, 0, 0, 0, 0, host).into(),
    }
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    prop_oneof![Just(TrafficPolicy::Cluster), Just(TrafficPolicy::Local)]
}

fn any_member(family: Family) -> impl Strategy<Value = Member> {
    let state = prop_oneof![
        4 => Just(MemberState::Ready),
        1 => Just(MemberState::Serving),
        1 => Just(MemberState::Leaving)
    ];
    let zones = prop::collection::vec(prop_oneof![Just("a".to_owned()), Just("b".to_owned())], 0..2);
    (1..4_u32, state, zones, prop::collection::vec((1..4_u32).prop_map(router), 0..2)).prop_map(
        move |(on, state, zones, routers)| Member {
            hints: TopologyHints { zones, routers },
            // Who it is is told by its place in the pool.
            ..member(1, &address(family, 244, 1).to_string(), on, state)
        },
    )
}

fn any_listener(family: Family, position: u16) -> impl Strategy<Value = Listener> {
    let protocol =
        prop_oneof![Just(ServiceProtocol::Tcp), Just(ServiceProtocol::Udp), Just(ServiceProtocol::Sctp)];
    let members = prop::collection::vec(any_member(family), 0..6);
    (protocol, prop::option::of(30_000..32_768_u16), members).prop_map(
        move |(protocol, node_port, members)| {
            let members = (1_u16..).zip(members).map(|(host, found)| Member {
                id: MemberId::new(host.into()).unwrap(),
                address: address(family, 244, host * 100 + position),
                ..found
            });
            Listener {
                protocol,
                node_port: node_port.map(number),
                ..listener(&format!("p{position}"), 80 + position, members.collect())
            }
        },
    )
}

fn any_external(family: Family) -> impl Strategy<Value = ExternalAddress> {
    let kind = prop_oneof![Just(ExternalKind::ExternalIp), Just(ExternalKind::LoadBalancer)];
    (any::<u16>(), kind)
        .prop_map(move |(host, kind)| ExternalAddress { address: address(family, 200, host), kind })
}

fn any_range(family: Family) -> impl Strategy<Value = IpNet> {
    let longest: u8 = if family == Family::Ipv4 { 32 } else { 128 };
    (any::<u16>(), 0..=longest)
        .prop_map(move |(host, length)| IpNet::new(address(family, 100, host), length).unwrap().trunc())
}

fn any_service(family: Family, host: u16) -> impl Strategy<Value = FloatingIp> {
    let listeners = (0..3_u16).prop_flat_map(move |count| {
        (0..=count).map(|position| any_listener(family, position)).collect::<Vec<_>>()
    });
    let external = prop::collection::vec(any_external(family), 0..4);
    let ranges = prop::collection::vec(any_range(family), 0..3);
    let affinity = prop::option::of(1..=86_400_u32);
    let health_check = prop::option::of(30_000..32_768_u16);
    (listeners, external, ranges, (policy(), policy()), affinity, health_check).prop_map(
        move |(listeners, external, source_ranges, (internal_policy, external_policy), affinity, health)| {
            FloatingIp {
                external,
                source_ranges,
                internal_policy,
                external_policy,
                affinity: affinity.map(|seconds| AffinityTimeout::new(seconds).unwrap()),
                health_check_port: health.map(number),
                ..service(&format!("some/service-{host}"), &address(family, 96, host).to_string(), listeners)
            }
        },
    )
}

/// What the kernel has once it was given these rules, in a network namespace that lasts no longer than this.
fn loaded(family: Family, text: &str) -> String {
    let (restore, save) = match family {
        Family::Ipv4 => ("iptables-restore", "iptables-save"),
        Family::Ipv6 => ("ip6tables-restore", "ip6tables-save"),
    };
    let script = format!(
        "rules=$(cat) && echo \"$rules\" | {restore} --test && echo \"$rules\" | {restore} && {save}"
    );
    let mut shell = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success(), "{restore}: {}", output.status);
    let saved = String::from_utf8(output.stdout).unwrap();
    saved.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect()
}

/// Why the kernel cannot be asked.
fn obstacle() -> Option<String> {
    let tried = Command::new("unshare").args(["--net", "iptables-save", "--version"]).output();
    match tried {
        Err(error) => Some(format!("unshare: {error}")),
        Ok(output) if !output.status.success() => {
            Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(output) if !String::from_utf8_lossy(&output.stdout).contains("nf_tables") => {
            Some("iptables is not the one with the nft backend".to_owned())
        }
        Ok(_) => None,
    }
}

#[test]
fn random_services_come_out_of_the_kernel_as_they_were_rendered() {
    if let Some(obstacle) = obstacle() {
        eprintln!("skipped: {obstacle}");
        return;
    }
    let mut runner = TestRunner::deterministic();
    for family in Family::ALL {
        let hosts = 1..=u16::try_from(SERVICES).unwrap();
        let any = hosts.map(|host| any_service(family, host)).collect::<Vec<_>>();
        let services = any.new_tree(&mut runner).unwrap().current();
        let text = rules(&services, &node(), family);
        let loaded = loaded(family, &text);
        for (rendered, found) in text.lines().zip(loaded.lines()) {
            assert_eq!(rendered, found);
        }
        assert_eq!(text.lines().count(), loaded.lines().count());
    }
}
