//! What a bridge is told: connection tracking with NAT, services as select groups, and routes to the pods.
//!
//! Three tables: `TRACK` finds the packet's connection and translates an established one; `SERVICE` sends a new connection
//! to one of its service's endpoints, where it is to one, and commits it; `ROUTE` forwards. The switch remembers what the
//! tables came to, so established packets go by two lookups in its cache, before and after connection tracking.

use std::fmt::Write;
use std::net::Ipv4Addr;

use vrouter_lab::kube_proxy::ServicePort;
use vrouter_lab::text::written;

const TRACK: u8 = 0;
const SERVICE: u8 = 1;
const ROUTE: u8 = 2;
const ZONE: u16 = 1;

/// A pod and the way to it.
#[derive(Debug, Clone)]
pub struct Route {
    /// The pod's address.
    pub address: Ipv4Addr,
    /// The pod's MAC.
    pub mac: String,
    /// The bridge's port that leads there.
    pub port: u16,
}

/// What `ovs-ofctl add-groups` loads: one select group per service, numbered from 1.
pub fn groups(services: &[ServicePort]) -> String {
    written(|text| {
        for (service, group) in services.iter().zip(1..) {
            write!(text, "group_id={group},type=select")?;
            for endpoint in &service.endpoints {
                write!(text, ",bucket=actions=ct(commit,zone={ZONE},nat(dst={endpoint}),table={ROUTE})")?;
            }
            text.push('\n');
        }
        Ok(())
    })
}

/// What `ovs-ofctl add-flows` loads.
pub fn flows(services: &[ServicePort], routes: &[Route]) -> String {
    written(|text| {
        writeln!(text, "table={TRACK},priority=10,ip,actions=ct(zone={ZONE},nat,table={SERVICE})")?;
        for (service, group) in services.iter().zip(1..) {
            let (address, port, protocol) =
                (service.frontend.ip(), service.frontend.port(), service.protocol());
            writeln!(
                text,
                "table={SERVICE},priority=30,ct_state=+trk+new,{protocol},nw_dst={address},tp_dst={port},actions=group:{group}"
            )?;
        }
        writeln!(
            text,
            "table={SERVICE},priority=20,ct_state=+trk+new,ip,actions=ct(commit,zone={ZONE},table={ROUTE})"
        )?;
        for state in ["+est", "+rel"] {
            writeln!(
                text,
                "table={SERVICE},priority=10,ct_state=+trk-inv{state},ip,actions=resubmit(,{ROUTE})"
            )?;
        }
        for Route { address, mac, port } in routes {
            writeln!(
                text,
                "table={ROUTE},priority=10,ip,nw_dst={address},actions=mod_dl_dst:{mac},dec_ttl,output:{port}"
            )?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::{Services, service};
    use super::*;

    #[test]
    fn every_service_has_its_flow_and_its_group() {
        let servers = [2, 3, 4].map(|last| Ipv4Addr::new(10, 244, 254, last));
        let services = service::all(&servers, Services(10));
        let routes = [Route { address: servers[0], mac: "02:00:00:00:00:02".into(), port: 2 }];
        let (groups, flows) = (groups(&services), flows(&services, &routes));
        assert_eq!(groups.lines().count(), 14);
        assert_eq!(groups.matches("bucket=").count(), 10 * 3 + 2 + 2 * 3);
        assert_eq!(flows.matches("group:").count(), 14);
        assert!(groups.lines().last().unwrap().starts_with("group_id=14,"));
        assert!(flows.contains("nw_dst=10.96.0.13,tp_dst=80,actions=group:9\n"));
    }
}
