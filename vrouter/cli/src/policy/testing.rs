//! Policies for tests.

use vrouter_objects::{
    NamedPort, Peer, PeerSetId, Peers, Policy, PolicyAction, PolicyId, PolicyRule, Port, PortMatch, Ports,
    ServiceProtocol, Tier,
};
use vrouter_proto::v1;

use super::{PeerSets, PolicyView};

fn rule(name: &str, action: PolicyAction, peers: Peers, ports: Ports) -> PolicyRule {
    PolicyRule { name: name.to_owned(), action, peers, ports }
}

fn set(id: u32) -> Peer {
    Peer::Set(PeerSetId::new(id).unwrap())
}

fn range(protocol: ServiceProtocol, first: u16, last: u16) -> PortMatch {
    PortMatch::Range { protocol, first, last }
}

fn front() -> Policy {
    use ServiceProtocol::{Tcp, Udp};
    let block = Peer::Block {
        prefix: "10.0.0.0/8".parse().unwrap(),
        except: vec!["10.1.0.0/16".parse().unwrap(), "10.2.0.0/16".parse().unwrap()],
    };
    let named = PortMatch::Own { protocol: Tcp, name: "http".to_owned() };
    let ports = Ports::These(vec![named, range(Tcp, 8000, 8100), range(Udp, 53, 53), range(Udp, 1, 65535)]);
    let allow = |name, peers, ports| rule(name, PolicyAction::Allow, Peers::These(peers), ports);
    Policy {
        id: PolicyId::new(7).unwrap(),
        name: "NetworkPolicy shop/front".to_owned(),
        tier: Tier::Namespace,
        ingress: Some(vec![
            allow("ingress[0]", vec![set(1), block], ports),
            allow("ingress[1]", vec![set(9)], Ports::Any),
            allow("ingress[2]", vec![], Ports::These(vec![])),
        ]),
        egress: Some(vec![]),
    }
}

fn baseline() -> Policy {
    let peer = Ports::These(vec![PortMatch::Peer { protocol: ServiceProtocol::Tcp }]);
    Policy {
        id: PolicyId::new(8).unwrap(),
        name: "ClusterNetworkPolicy last-word".to_owned(),
        tier: Tier::Baseline(20),
        ingress: None,
        egress: Some(vec![
            rule("database", PolicyAction::Pass, Peers::These(vec![set(1)]), peer),
            rule("rest", PolicyAction::Deny, Peers::Any, Ports::Any),
        ]),
    }
}

/// One policy of a namespace, one of the administrator's, and one that is missing.
pub(crate) fn view() -> PolicyView {
    let pod = |name: &str| v1::SelectedPod {
        pod: Some(v1::PodName { namespace: "shop".to_owned(), name: name.to_owned() }),
        ports: vec![],
    };
    let http =
        NamedPort { name: "http".to_owned(), protocol: ServiceProtocol::Tcp, port: Port::new(8080).unwrap() };
    let web = v1::SelectedPod { ports: vec![(&http).into()], ..pod("web") };
    let uses = |rules: &[u64], unmatched| Some(v1::DirectionUse { rules: rules.to_vec(), unmatched });
    let table = v1::PolicyTable {
        policies: vec![
            v1::HeldPolicy {
                policy: Some((&front()).into()),
                pods: vec![web, pod("api")],
                ingress: uses(&[12, 1, 0], 4),
                egress: uses(&[], 1),
            },
            v1::HeldPolicy {
                policy: Some((&baseline()).into()),
                egress: uses(&[1, 70], 0),
                ..Default::default()
            },
        ],
        missing: vec![v1::MissingPolicy { policy: 11, pods: vec![pod("api")] }],
    };
    let web = v1::PeerSet { id: 1, name: "pods app=web in namespace shop".to_owned() };
    let sets = vec![v1::HeldPeerSet { set: Some(web), addresses: 3, policies: vec![7, 8] }];
    PolicyView::read(table, PeerSets::of(sets)).unwrap()
}
