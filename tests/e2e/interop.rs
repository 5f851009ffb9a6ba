//! A vRouter node and a node that Linux itself forwards on, by a `vxlan` device.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use serde_json::Value;
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, Endpoints, ServicePort, echo_pod, service};
use vrouter_tests::report::{Associations, Datagrams, Echo};

use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "interop",
    shape: Shape { nodes: 1, kernel_nodes: 1 },
    objects,
    cases: cases![
        ping_both_ways,
        tcp_both_ways,
        udp_and_fragments_both_ways,
        sctp_both_ways,
        a_service_served_there
    ],
};

/// The pod on the vRouter node, and the one on the kernel node.
const WAYS: [(&str, &str); 2] = [("ours", "theirs"), ("theirs", "ours")];

fn objects(programs: &Programs) -> Vec<Value> {
    let ports = [ServicePort { protocol: "TCP", port: 80, target: ECHO }];
    vec![
        echo_pod("ours", "n1", programs.probe()),
        echo_pod("theirs", "k1", programs.probe()),
        service("theirs", Endpoints::OfApp("theirs"), &ports),
    ]
}

/// Does something from each pod to the other, in each family.
fn both_ways(lab: &Lab, check: impl Fn(Place, SocketAddr) -> Result<()>) -> Result<()> {
    for (from, to) in WAYS {
        for family in Family::BOTH {
            let target = SocketAddr::new(lab.pod_address(to, family)?, ECHO);
            check(Place::Pod(from), target)
                .map_err(|error| error.context(format!("{from} to {to} at {target}")))?;
        }
    }
    Ok(())
}

fn ping_both_ways(lab: &Lab) -> Result<()> {
    both_ways(lab, |from, target| {
        for size in ["56", "3000"] {
            let words =
                ["ping", "-n", "-c", "5", "-i", "0.05", "-W", "2", "-s", size, &target.ip().to_string()];
            lab.exec(from, &words)?.success()?;
        }
        Ok(())
    })
}

fn tcp_both_ways(lab: &Lab) -> Result<()> {
    both_ways(lab, |from, target| {
        let bytes = 16 << 20;
        let echo: Echo = lab.probe(from, &["bulk", &target.to_string(), "--bytes", &bytes.to_string()])?;
        ensure!(echo == Echo { intact: bytes, damaged_at: None }, "{echo:?}");
        Ok(())
    })
}

fn udp_and_fragments_both_ways(lab: &Lab) -> Result<()> {
    both_ways(lab, |from, target| {
        for size in ["64", "1422", "1423", "8000"] {
            let words = ["datagrams", &target.to_string(), "--size", size, "--count", "40"];
            let report: Datagrams = lab.probe(from, &words)?;
            let all = Datagrams { sent: 40, answered: 40, ..Datagrams::default() };
            ensure!(report == all, "{size} bytes: {report:?}");
        }
        Ok(())
    })
}

fn sctp_both_ways(lab: &Lab) -> Result<()> {
    both_ways(lab, |from, target| {
        let report: Associations = lab.probe(from, &["sctp", &target.to_string(), "--count", "10"])?;
        ensure!(report == Associations { sent: 10, answered: 10 }, "{report:?}");
        Ok(())
    })
}

/// A Service is translated where the client is, so its member need not know.
fn a_service_served_there(lab: &Lab) -> Result<()> {
    for family in Family::BOTH {
        let target = lab.service_address("theirs", family, 80)?.to_string();
        let echo: Echo = lab.probe(Place::Pod("ours"), &["bulk", &target, "--bytes", "1000000"])?;
        ensure!(echo == Echo { intact: 1_000_000, damaged_at: None }, "{target}: {echo:?}");
    }
    Ok(())
}
