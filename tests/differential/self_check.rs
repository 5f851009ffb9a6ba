//! Cases worked out by hand: the kernel's side says of them what everybody knows of kube-proxy.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use libtest_mimic::{Failed, Trial};
use serde_json::json;
use vrouter_tests::lab::Family;

use crate::kernel::{Ruleset, with_kernel};
use crate::objects::Objects;
use crate::packet::{Probe, Protocol};
use crate::place::{Client, NodePortAddresses};
use crate::proxy::rules;
use crate::world::World;

/// What the packets of a case are, and everything that becomes of them.
struct Case {
    client: Client,
    protocol: Protocol,
    destination: &'static str,
    verdicts: &'static [&'static str],
}

/// The hand-written cases.
pub fn trials() -> Vec<Trial> {
    vec![Trial::test("kernel::hand_written_cases", || {
        hand_written_cases().map_err(|error| Failed::from(format!("{error:#}")))
    })]
}

const CASES: &[Case] = &[
    // A pod reaches any ready endpoint by the cluster address, as itself.
    Case {
        client: Client::Caller,
        protocol: Protocol::Tcp,
        destination: "10.96.0.16:80",
        verdicts: &[
            "delivered to Pod(1) as 10.244.1.17:8080 from Client",
            "delivered to Node(2) as 10.244.2.17:8080 from Client",
        ],
    },
    // One that reaches itself sees the node.
    Case {
        client: Client::Pod(1),
        protocol: Protocol::Tcp,
        destination: "10.96.0.16:80",
        verdicts: &[
            "delivered to Pod(1) as 10.244.1.17:8080 from Node",
            "delivered to Node(2) as 10.244.2.17:8080 from Client",
        ],
    },
    // A node port with the policy Cluster: masqueraded.
    Case {
        client: Client::Guest,
        protocol: Protocol::Tcp,
        destination: "172.30.0.1:30080",
        verdicts: &[
            "delivered to Pod(1) as 10.244.1.17:8080 from Node",
            "delivered to Node(2) as 10.244.2.17:8080 from Node",
        ],
    },
    // A port that is none goes out by the default route.
    Case {
        client: Client::Caller,
        protocol: Protocol::Tcp,
        destination: "10.96.0.16:81",
        verdicts: &["delivered to Outside as 10.96.0.16:81 from Client"],
    },
    // Nobody's port of the node is the node's.
    Case {
        client: Client::Guest,
        protocol: Protocol::Sctp,
        destination: "172.30.0.1:22",
        verdicts: &["delivered to Host as 172.30.0.1:22 from Client"],
    },
    // No endpoint anywhere: refused, wherever one comes from.
    Case {
        client: Client::Caller,
        protocol: Protocol::Udp,
        destination: "10.96.0.17:53",
        verdicts: &["refused by PortUnreachable"],
    },
    Case {
        client: Client::Node,
        protocol: Protocol::Tcp,
        destination: "10.96.0.17:53",
        verdicts: &["delivered to Outside as 10.96.0.17:53 from Client"],
    },
    Case {
        client: Client::Node,
        protocol: Protocol::Udp,
        destination: "10.96.0.17:53",
        verdicts: &["refused by PortUnreachable"],
    },
    Case {
        client: Client::Guest,
        protocol: Protocol::Udp,
        destination: "172.30.0.1:30053",
        verdicts: &["refused by PortUnreachable"],
    },
    // The policy Local with endpoints elsewhere only: silence for outsiders, and everything for who is of the cluster.
    Case {
        client: Client::Guest,
        protocol: Protocol::Tcp,
        destination: "192.0.2.7:443",
        verdicts: &["dropped"],
    },
    Case {
        client: Client::Caller,
        protocol: Protocol::Tcp,
        destination: "192.0.2.7:443",
        verdicts: &["delivered to Node(2) as 10.244.2.18:8443 from Client"],
    },
    // Source ranges leave strangers out.
    Case {
        client: Client::Stranger,
        protocol: Protocol::Sctp,
        destination: "192.0.2.8:5678",
        verdicts: &["dropped"],
    },
    Case {
        client: Client::Guest,
        protocol: Protocol::Sctp,
        destination: "192.0.2.8:5678",
        verdicts: &["delivered to Pod(2) as 10.244.1.18:5678 from Node"],
    },
    // Not ready, but the only one that still serves; and the other family.
    Case {
        client: Client::Node,
        protocol: Protocol::Tcp,
        destination: "[fd00:10:96::13]:80",
        verdicts: &["delivered to Pod(3) as [fd00:10:244:1::13]:8080 from Client"],
    },
    Case {
        client: Client::Guest,
        protocol: Protocol::Tcp,
        destination: "[fd00:30::1]:30090",
        verdicts: &["delivered to Pod(3) as [fd00:10:244:1::13]:8080 from Node"],
    },
];

fn hand_written_cases() -> Result<()> {
    let objects = objects()?;
    let [v4, v6] = Family::BOTH.map(|family| rules(&objects, NodePortAddresses::All, family));
    let ruleset = Ruleset { v4, v6 };
    with_kernel(&ruleset, |kernel| {
        for (number, case) in (0..).zip(CASES) {
            let probes: Vec<Probe> = (0..64).map(|port| probe(case, 2000 + number * 100 + port)).collect();
            let found: BTreeSet<String> = kernel.ask(&probes)?.iter().map(ToString::to_string).collect();
            let wanted: BTreeSet<String> = case.verdicts.iter().map(ToString::to_string).collect();
            let Case { client, protocol, destination, .. } = case;
            ensure!(
                found == wanted,
                "{client:?} to {destination} by {protocol:?}: {found:?}, not {wanted:?}\n{}",
                ruleset.v4
            );
        }
        Ok(())
    })
}

fn probe(case: &Case, port: u16) -> Probe {
    let destination: SocketAddr = case.destination.parse().expect("a literal address");
    let family = crate::place::family_of(destination.ip());
    let source = SocketAddr::new(case.client.address(family, 0), port);
    Probe { client: case.client, protocol: case.protocol, source, destination }
}

fn objects() -> Result<Objects> {
    let services = json!([
        { "metadata": { "name": "web" }, "spec": {
            "type": "NodePort", "clusterIPs": ["10.96.0.16"], "ports": [{ "port": 80, "nodePort": 30080 }] } },
        { "metadata": { "name": "empty" }, "spec": {
            "type": "NodePort", "clusterIPs": ["10.96.0.17"],
            "ports": [{ "port": 53, "protocol": "UDP", "nodePort": 30053 }] } },
        { "metadata": { "name": "away" },
          "spec": { "type": "LoadBalancer", "clusterIPs": ["10.96.0.18"], "externalTrafficPolicy": "Local",
                    "ports": [{ "port": 443 }] },
          "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } },
        { "metadata": { "name": "guarded" },
          "spec": { "type": "LoadBalancer", "clusterIPs": ["10.96.0.19"],
                    "loadBalancerSourceRanges": ["198.18.0.0/16"], "ports": [{ "port": 5678, "protocol": "SCTP" }] },
          "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.8" }] } } },
        { "metadata": { "name": "leaving" }, "spec": {
            "type": "NodePort", "clusterIPs": ["fd00:10:96::13"], "ports": [{ "port": 80, "nodePort": 30090 }] } },
    ]);
    let slice = |service: &str, kind: &str, protocol: &str, port: u16, endpoints: serde_json::Value| {
        json!({
            "metadata": { "name": service, "labels": { "kubernetes.io/service-name": service } },
            "addressType": kind, "ports": [{ "port": port, "protocol": protocol }], "endpoints": endpoints,
        })
    };
    let slices = json!([
        slice(
            "web",
            "IPv4",
            "TCP",
            8080,
            json!([
                { "addresses": ["10.244.1.17"], "nodeName": "n1" },
                { "addresses": ["10.244.2.17"], "nodeName": "n2" },
                { "addresses": ["10.244.1.20"], "nodeName": "n1", "conditions": { "ready": false } },
            ])
        ),
        slice("away", "IPv4", "TCP", 8443, json!([{ "addresses": ["10.244.2.18"], "nodeName": "n2" }])),
        slice("guarded", "IPv4", "SCTP", 5678, json!([{ "addresses": ["10.244.1.18"], "nodeName": "n1" }])),
        slice(
            "leaving",
            "IPv6",
            "TCP",
            8080,
            json!([
                { "addresses": ["fd00:10:244:1::13"], "nodeName": "n1",
                  "conditions": { "ready": false, "serving": true, "terminating": true } },
                { "addresses": ["fd00:10:244:1::14"], "nodeName": "n1",
                  "conditions": { "ready": false, "serving": false, "terminating": true } },
            ])
        ),
    ]);
    let services: Vec<Service> = serde_json::from_value(services)?;
    let slices: Vec<EndpointSlice> = serde_json::from_value(slices)?;
    Ok(Objects::new(services, slices))
}
