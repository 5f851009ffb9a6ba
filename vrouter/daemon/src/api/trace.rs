//! Where a connection would lead, as the local API tells it: by the data path's own answers.

use std::net::IpAddr;

use tonic::Status;
use vrouter_forward::policy::{Lead, Question};
use vrouter_forward::{Address, Snapshot};
use vrouter_objects::{IpProtocol, MemberId, NextHop, VrfId};
use vrouter_proto::v1;

use super::opinions::opinions;
use crate::agent::Agent;

/// Through so many networks a way is followed.
const MAX_NETWORKS: usize = 4;

/// The connection that a request is about.
pub(super) fn question(request: &v1::TraceRequest) -> Result<Question, Status> {
    let wrong = |field: &str, problem: &str| Status::invalid_argument(format!("{field}: {problem}"));
    let address = |field: &str, message: &Option<v1::Address>| {
        let message = message.as_ref().ok_or_else(|| wrong(field, "is missing"))?;
        IpAddr::try_from(message).map_err(|error| wrong(field, &error.to_string()))
    };
    let question = Question {
        vrf: VrfId::new(request.vrf).map_err(|error| wrong("vrf", &error.to_string()))?,
        source: address("source", &request.source)?,
        destination: address("destination", &request.destination)?,
        protocol: u8::try_from(request.protocol)
            .map(IpProtocol)
            .map_err(|_| wrong("protocol", "is out of range"))?,
        port: u16::try_from(request.port).map_err(|_| wrong("port", "is out of range"))?,
    };
    if question.source.is_ipv4() != question.destination.is_ipv4() {
        return Err(wrong("destination", "is of another address family than the source"));
    }
    Ok(question)
}

/// Where it would lead by the tables that the workers forward by.
pub(super) fn trace(agent: &Agent, question: &Question) -> Result<v1::TraceReply, Status> {
    let snapshot = agent.state().snapshot.clone();
    let snapshot = snapshot.ok_or_else(|| Status::unavailable("the node has no tables yet"))?;
    let way_back = way(&snapshot, question.vrf, question.source.into()).map(Into::into);
    let (leads, nowhere) = match snapshot.judge(question) {
        Ok(leads) => (leads.into_iter().map(lead).collect(), String::new()),
        Err(reason) => (Vec::new(), reason.name().to_owned()),
    };
    Ok(v1::TraceReply { way_back, leads, nowhere })
}

fn lead(lead: Lead) -> v1::Lead {
    v1::Lead {
        member: lead.member.map_or(0, MemberId::get),
        destination: Some(lead.destination.into()),
        port: lead.port.into(),
        egress_vrf: lead.egress_vrf.get(),
        next_hop: Some((&lead.next_hop).into()),
        opinions: Some(opinions(lead.opinions)),
    }
}

/// The way to an address of a network, whatever services there are.
fn way(snapshot: &Snapshot, mut vrf: VrfId, address: Address) -> Option<&NextHop> {
    for _ in 0..MAX_NETWORKS {
        match snapshot.next_hop(vrf, address)? {
            NextHop::VrfTranslate(next) => vrf = *next,
            next_hop => return Some(next_hop),
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use vrouter_objects::{Object, PodBinding, Policy, PolicyId, Route, RouteKey, RouterId, Tier};
    use vrouter_proto::v1::opinion::Kind;

    use super::*;
    use crate::testing::{TestNode, anywhere, basics, ip, lease, pod, request, router, vrf};

    /// Node 1 with pod `default/web`, which a policy isolates, at 10.244.0.2.
    pub(in crate::api) fn node() -> TestNode {
        let node = TestNode::new();
        let isolating = Policy {
            id: PolicyId::new(7).unwrap(),
            name: "NetworkPolicy default/deny-all".to_owned(),
            tier: Tier::Namespace,
            ingress: Some(vec![]),
            egress: None,
        };
        let binding =
            PodBinding { policies: vec![isolating.id], ..PodBinding::new(pod("web"), "web", vrf()) };
        let mut objects = basics();
        objects.extend([
            router(2, "172.30.0.2"),
            lease(1, "10.244.0.0/29"),
            Object::Policy(isolating),
            Object::PodBinding(binding),
            Object::Route(Route {
                key: RouteKey { vrf: vrf(), prefix: ip("10.244.2.5").into() },
                next_hop: NextHop::Tunnel(RouterId::new(2).unwrap()),
            }),
        ]);
        node.apply(1, &objects).unwrap();
        let web = node.attach(request("web", "c1"), &anywhere()).unwrap();
        assert_eq!(web.addresses, [ip("10.244.0.2")]);
        node
    }

    fn asked(source: &str, destination: &str) -> v1::TraceRequest {
        v1::TraceRequest {
            vrf: 1,
            source: Some(ip(source).into()),
            destination: Some(ip(destination).into()),
            protocol: IpProtocol::TCP.0.into(),
            port: 80,
        }
    }

    fn traced(node: &TestNode, source: &str, destination: &str) -> v1::TraceReply {
        trace(&node.agent, &question(&asked(source, destination)).unwrap()).unwrap()
    }

    fn said(lead: &v1::Lead) -> [Kind; 2] {
        let v1::Opinions { egress, ingress } = lead.opinions.clone().unwrap();
        [egress, ingress].map(|opinion| opinion.unwrap().kind.unwrap())
    }

    #[test]
    fn a_connection_is_traced_by_the_tables_in_force() {
        let node = node();
        let reply = traced(&node, "10.244.2.5", "10.244.0.2");
        assert_eq!(reply.way_back.unwrap().kind, Some(v1::next_hop::Kind::Tunnel(2)));
        let policies = vec!["NetworkPolicy default/deny-all".to_owned()];
        let isolated = Kind::Isolated(v1::Isolation { policies });
        assert_eq!(said(&reply.leads[0]), [Kind::Elsewhere(v1::Empty {}), isolated]);

        let reply = traced(&node, "10.244.0.2", "10.244.2.5");
        let lead = &reply.leads[0];
        assert_eq!((lead.port, lead.egress_vrf, lead.member), (80, 1, 0));
        assert_eq!(lead.next_hop.clone().unwrap().kind, Some(v1::next_hop::Kind::Tunnel(2)));
        assert_eq!(said(lead), [Kind::Ungoverned(v1::Empty {}), Kind::Elsewhere(v1::Empty {})]);

        let reply = traced(&node, "10.244.0.2", "203.0.113.1");
        assert_eq!((reply.leads.as_slice(), reply.nowhere.as_str()), (&[][..], "no-route"));
    }

    #[test]
    fn requests_are_checked_field_by_field() {
        type Spoil = fn(&mut v1::TraceRequest);
        let table: [(Spoil, &str); 6] = [
            (|request| request.vrf = 0, "vrf: vrf id 0 is not an id"),
            (|request| request.source = None, "source: is missing"),
            (|request| request.destination = Some(v1::Address::default()), "destination: "),
            (|request| request.protocol = 256, "protocol: is out of range"),
            (|request| request.port = 65_536, "port: is out of range"),
            (
                |request| request.destination = Some(ip("fd00::1").into()),
                "destination: is of another address family than the source",
            ),
        ];
        for (spoil, expected) in table {
            let mut request = asked("10.244.0.2", "10.244.2.5");
            spoil(&mut request);
            let status = question(&request).unwrap_err();
            assert!(status.message().starts_with(expected), "{}", status.message());
        }
    }
}
