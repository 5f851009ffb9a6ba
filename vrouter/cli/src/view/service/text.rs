//! A journey, for people.

use super::journey::{Endpoint, Frontend, Journey, Outcome, Port};
use crate::output::{Row, fact, lines, table};
use crate::words::or_dash;

/// A journey as text: what is said of the service as a whole, and two tables for each of its ports.
pub(super) fn text(journey: &Journey) -> String {
    let ports = journey.listeners.iter().map(port);
    std::iter::once(lines(&facts(journey))).chain(ports).collect::<Vec<_>>().join("\n\n")
}

fn facts(journey: &Journey) -> Vec<(String, String)> {
    let mut facts = vec![
        fact("service", format!("{}, {}, floating IP {}", journey.name, journey.family, journey.id)),
        fact("cluster IP", format!("{} in {}", journey.address, journey.network)),
    ];
    for external in &journey.external {
        facts.push(fact(external.kind, external.address));
    }
    if journey.listeners.iter().any(|listener| listener.node_port.is_some()) {
        facts.push(fact("node ports at", node_ports(journey)));
    }
    let policies = format!("internal {}, external {}", journey.internal_policy, journey.external_policy);
    facts.push(fact("policies", policies));
    let affinity = journey.affinity_seconds;
    facts.push(fact(
        "affinity",
        affinity.map_or_else(|| "none".to_owned(), |seconds| format!("client IP, {seconds} s")),
    ));
    if !journey.source_ranges.is_empty() {
        let ranges: Vec<_> = journey.source_ranges.iter().map(ToString::to_string).collect();
        let whom = "alone reach the load balancer's addresses";
        facts.push(fact("source ranges", format!("{} {whom}", ranges.join(", "))));
    }
    if let Some(port) = journey.health_check_port {
        facts.push(fact("health check", format!("HTTP on node port {port}")));
    }
    facts
}

fn node_ports(journey: &Journey) -> String {
    let own: Vec<_> = journey.node_addresses.iter().map(ToString::to_string).collect();
    let own = if own.is_empty() { "none here".to_owned() } else { format!("{} here", own.join(", ")) };
    match journey.other_node_addresses.len() {
        0 => own,
        1 => format!("{own}, and 1 address of another node"),
        others => format!("{own}, and {others} addresses of other nodes"),
    }
}

fn port(port: &Port) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!(" ({})", port.name) };
    let heading = format!("{} {}{name}", port.protocol, port.port);
    let members = if port.members.is_empty() { "no members".to_owned() } else { table(&port.members) };
    format!("{heading}\n\n{}\n\n{members}", table(&port.frontends))
}

impl Row for Frontend {
    const HEADINGS: &'static [&'static str] =
        &["FRONTEND", "KIND", "FROM PODS AND THIS NODE", "FROM OUTSIDE"];

    fn cells(&self) -> Vec<String> {
        vec![self.at.to_string(), self.kind.to_owned(), outcome(self.inside), outcome(self.outside)]
    }
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Translate { scope, members: 1 } => format!("{scope}: 1 member"),
        Outcome::Translate { scope, members } => format!("{scope}: {members} members"),
        Outcome::Reject => "rejected: no member anywhere".to_owned(),
        Outcome::Drop => "dropped: no member here".to_owned(),
    }
}

impl Row for Endpoint {
    const HEADINGS: &'static [&'static str] =
        &["MEMBER", "NAME", "NODE", "STATE", "CLUSTER", "LOCAL", "HITS", "FLOWS"];

    fn cells(&self) -> Vec<String> {
        let here = if self.local { " (this node)" } else { "" };
        vec![
            self.at.to_string(),
            self.name.clone(),
            or_dash(format!("{}{here}", self.node)),
            self.state.to_owned(),
            share(self.cluster_share),
            share(self.local_share),
            self.hits.to_string(),
            self.flows.to_string(),
        ]
    }
}

fn share(share: Option<f64>) -> String {
    match share {
        None => "-".to_owned(),
        Some(share) if share == 0.0 || share == 1.0 => format!("{:.0}%", share * 100.0),
        Some(share) => format!("{:.1}%", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use vrouter_objects::MemberState::{Leaving, Ready, Serving};
    use vrouter_objects::{ExternalAddress, ExternalKind, MacAddress, TrafficPolicy, VirtualRouter};
    use vrouter_proto::v1;

    use super::*;
    use crate::names::Names;
    use crate::service::testing::{ip, listener, member, node, number, router, service};
    use crate::service::{HeldService, ServiceView};

    fn view(held: HeldService) -> (ServiceView, Names) {
        let routers: Vec<_> = [(1, "n1", "172.30.0.1"), (2, "n2", "172.30.0.2")]
            .map(|(id, name, address)| {
                VirtualRouter::new(router(id), name, ip(address), MacAddress::local(0x56, id))
            })
            .into();
        let network =
            v1::RoutingInstance { id: 2, name: "default/services".to_owned(), ..Default::default() };
        let names = Names::of(vec![], vec![network], routers.iter().map(Into::into).collect());
        (ServiceView { services: vec![held], node: node(), routers }, names)
    }

    fn shop() -> HeldService {
        let members = vec![
            member(1, "10.244.1.2", 1, Serving),
            member(2, "10.244.2.2", 2, Ready),
            member(3, "10.244.2.3", 2, Ready),
            member(4, "10.244.1.9", 1, Leaving),
        ];
        let mut http = listener("http", 80, members);
        http.node_port = Some(number(30_080));
        let mut shop = service("shop/front", "10.96.0.20", vec![http, listener("admin", 81, vec![])]);
        let address = ip("198.51.100.20");
        shop.external = vec![ExternalAddress { address, kind: ExternalKind::LoadBalancer }];
        shop.external_policy = TrafficPolicy::Local;
        shop.source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
        shop.health_check_port = Some(number(32_000));
        let used = v1::MemberUse { member: 2, hits: 70, flows: 3 };
        let held = v1::HeldService { floating_ip: Some((&shop).into()), members: vec![used] };
        HeldService::try_from(held).unwrap()
    }

    #[test]
    fn a_journey_says_who_gets_what_by_which_way() {
        let (view, names) = view(shop());
        let text = text(&Journey::of(&view.services[0], &view, &names));
        let expected = "\
service:       shop/front, IPv4, floating IP 1
cluster IP:    10.96.0.20 in default/services
load balancer: 198.51.100.20
node ports at: 172.30.0.1 here, and 1 address of another node
policies:      internal Cluster, external Local
affinity:      none
source ranges: 192.0.2.0/24 alone reach the load balancer's addresses
health check:  HTTP on node port 32000

TCP 80 (http)

FRONTEND          KIND           FROM PODS AND THIS NODE  FROM OUTSIDE
10.96.0.20:80     cluster IP     Cluster: 2 members       Cluster: 2 members
198.51.100.20:80  load balancer  Cluster: 2 members       Local: 1 member
172.30.0.1:30080  node port      Cluster: 2 members       Local: 1 member

MEMBER           NAME        NODE            STATE    CLUSTER  LOCAL  HITS  FLOWS
10.244.1.2:8080  10.244.1.2  n1 (this node)  serving  0%       100%   0     0
10.244.2.2:8080  10.244.2.2  n2              ready    50.0%    0%     70    3
10.244.2.3:8080  10.244.2.3  n2              ready    50.0%    0%     0     0
10.244.1.9:8080  10.244.1.9  n1 (this node)  leaving  0%       0%     0     0

TCP 81 (admin)

FRONTEND          KIND           FROM PODS AND THIS NODE       FROM OUTSIDE
10.96.0.20:81     cluster IP     rejected: no member anywhere  rejected: no member anywhere
198.51.100.20:81  load balancer  rejected: no member anywhere  rejected: no member anywhere

no members";
        assert_eq!(text, expected);
    }

    #[test]
    fn documents_bear_verdicts_and_shares() {
        let mut held = shop();
        held.floating_ip.listeners[0].members.remove(0);
        let (view, names) = view(held);
        let journey = Journey::of(&view.services[0], &view, &names);
        let document = serde_json::to_value(&journey).unwrap();
        let http = &document["listeners"][0];
        assert_eq!(http["frontends"][1]["at"], "198.51.100.20:80");
        assert_eq!(http["frontends"][1]["inside"]["verdict"], "translate");
        assert_eq!(http["frontends"][1]["outside"]["verdict"], "drop");
        assert_eq!(http["members"][0]["cluster_share"], 0.5);
        assert_eq!(http["members"][0]["hits"], 70);
        assert_eq!(document["listeners"][1]["frontends"][0]["outside"]["verdict"], "reject");
    }

    #[test]
    fn an_unknown_service_is_told_with_those_near_to_it() {
        let (view, _) = view(shop());
        let error = view.only("shop/fron").unwrap_err().to_string();
        assert_eq!(error, "this node holds no service \"shop/fron\"; near to it: shop/front");
        let (view, _) = self::view(shop());
        let error = view.only("default/database").unwrap_err().to_string();
        let hint = "those without an address of their own are held nowhere";
        assert_eq!(error, format!("this node holds no service \"default/database\"; {hint}"));
    }
}
