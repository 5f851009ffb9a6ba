//! The node's own processes reach pods of whatever network by link-local addresses.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use socket2::SockRef;
use vrouter_objects::{NetworkKind, NextHop, Object, PodBinding, RoutingInstance, Subnet, Vni};
use vrouter_proto::v1;

use crate::controller::Controller;
use crate::support::{Netns, Node, PATIENCE, Pod};
use crate::tenants::{attached, binding, ip, network, reaches, route, vrf, with};
use crate::with_link;

const PORT: u16 = 7000;

/// Both networks' subnets, with the gateways that their pods know.
const SUBNETS: [(&str, &str); 2] = [("10.0.0.0/24", "10.0.0.1"), ("fd00:10::/64", "fd00:10::1")];

fn subnets(subnets: [(&str, &str); 2]) -> Vec<Subnet> {
    subnets.map(|(prefix, gateway)| Subnet { prefix: prefix.parse().unwrap(), gateway: ip(gateway) }).into()
}

/// Two networks with the same addresses and a pod each, both with the same two.
fn twins() -> Vec<Object> {
    let twin = |(number, name)| {
        let [(v4, gateway), (v6, _)] = SUBNETS;
        let tenant = network(number, &format!("t/{name}"), v4, gateway);
        let addresses = ["10.0.0.5", "fd00:10::5"].map(ip).to_vec();
        [
            Object::RoutingInstance(RoutingInstance { subnets: subnets(SUBNETS), ..tenant }),
            route(number, v4, NextHop::Reject),
            route(number, v6, NextHop::Reject),
            Object::PodBinding(PodBinding { addresses, ..binding(name, number, "10.0.0.5") }),
        ]
    };
    [(7, "blue"), (8, "red")].into_iter().flat_map(twin).collect()
}

/// The same with the link-local network.
fn twins_with_names() -> Vec<Object> {
    let prefixes = [("169.254.64.0/18", "169.254.64.1"), ("fd00:169:254::/112", "fd00:169:254::1")];
    let (name, vni) = ("default/link-local", Vni::new(6).unwrap());
    let network = RoutingInstance {
        kind: NetworkKind::LinkLocal,
        ..RoutingInstance::new(vrf(6), name, vni, subnets(prefixes))
    };
    let routes = prefixes.into_iter().flat_map(|(prefix, _)| {
        [route(6, prefix, NextHop::Reject), route(3, prefix, NextHop::VrfTranslate(vrf(6)))]
    });
    twins().into_iter().chain([Object::RoutingInstance(network)]).chain(routes).collect()
}

/// The addresses by which the node says that it reaches a pod.
async fn link_local(node: &Node, name: &str) -> Vec<IpAddr> {
    let table = node.client().await.interfaces(v1::TableRequest {}).await.unwrap().into_inner();
    let interface = table.interfaces.into_iter().find(|interface| interface.name == name).unwrap();
    read(&interface.link_local)
}

fn read(addresses: &[v1::Address]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.try_into().unwrap()).collect()
}

fn within<T: Send>(netns: &Netns, make: impl FnOnce() -> io::Result<T> + Send) -> T {
    vrouter_io::within(Some(&netns.path()), || Ok(make().unwrap())).unwrap()
}

/// The node speaks to a pod by each of these addresses, and it is this very pod that hears it.
fn converse(node: &Netns, pod: &Pod, addresses: &[IpAddr]) {
    let listener = within(&pod.netns, || TcpListener::bind(("::", PORT)));
    let ear = within(&pod.netns, || UdpSocket::bind(("::", PORT)));
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
    ear.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(addresses.len(), SUBNETS.len());
    for (address, (_, gateway)) in addresses.iter().zip(SUBNETS) {
        let to = SocketAddr::new(*address, PORT);
        // The first packet may have to wait until the device is up.
        node.run(&format!("ping -c 1 -W 10 {address}"));

        let mut client = within(node, || TcpStream::connect_timeout(&to, PATIENCE));
        let (mut server, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_canonical(), ip(gateway), "as whom the pod knows it");
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        server.write_all(b"here").unwrap();
        let mut heard = [0; 4];
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"here");

        let mouth = within(node, || UdpSocket::bind(("::", 0)));
        mouth.set_read_timeout(Some(PATIENCE)).unwrap();
        let mapped = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().into(),
            IpAddr::V6(_) => *address,
        };
        mouth.send_to(b"well", (mapped, PORT)).unwrap();
        let (_, peer) = ear.recv_from(&mut heard).unwrap();
        assert_eq!((&heard, peer.ip().to_canonical()), (b"well", ip(gateway)));
        ear.send_to(b"very", peer).unwrap();
        let (_, peer) = mouth.recv_from(&mut heard).unwrap();
        assert_eq!((&heard, peer.ip().to_canonical()), (b"very", *address));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_reaches_pods_of_overlapping_networks_also_after_a_kill() {
    let underlay = with_link("names");
    let mut controller = Controller::with(&underlay, with(&twins_with_names())).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    controller.hello().await;
    let pods = [attached(&mut node, "names", "blue").await, attached(&mut node, "names", "red").await];
    let routes = underlay.run("ip route") + &underlay.run("ip -6 route");
    for prefix in ["169.254.64.0/18 via 169.254.1.1 dev vhost0", "fd00:169:254::/112 via fe80::"] {
        assert!(routes.contains(prefix), "{routes}");
    }
    let blue = link_local(&node, "default/blue").await;
    let red = link_local(&node, "default/red").await;
    assert!(blue.iter().all(|address| !red.contains(address)), "{blue:?} {red:?}");
    for own in [&blue, &red] {
        assert_eq!(read(&controller.attachment().await.link_local), *own);
    }
    converse(&underlay, &pods[0], &blue);
    converse(&underlay, &pods[1], &red);
    assert!(!reaches(&pods[0].netns, &red[0].to_string()), "pods mean nothing by them");
    assert!(!reaches(&pods[0].netns, &blue[0].to_string()));

    node.kill();
    let node = Node::start_again(node).await;
    let kept: Vec<_> = controller.hello().await.attachments;
    let kept: Vec<_> = kept.iter().map(|attachment| read(&attachment.link_local)).collect();
    assert_eq!(kept, [blue.clone(), red.clone()]);
    assert_eq!(link_local(&node, "default/red").await, red);
    converse(&underlay, &pods[1], &red);
    converse(&underlay, &pods[0], &blue);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_were_there_before_the_network_get_their_addresses_with_it() {
    let underlay = with_link("later");
    let mut controller = Controller::with(&underlay, with(&twins())).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let pod = attached(&mut node, "later", "blue").await;
    assert!(controller.attachment().await.link_local.is_empty());
    assert!(!underlay.run("ip route").contains("169.254.64."));

    controller.put(with(&twins_with_names()));
    node.tables(2).await;
    let reported = read(&controller.attachment().await.link_local);
    assert_eq!(link_local(&node, "default/blue").await, reported);
    converse(&underlay, &pod, &reported);

    controller.put(with(&twins()));
    node.tables(3).await;
    assert!(controller.attachment().await.link_local.is_empty());
    node.until(|_| !underlay.run("ip route").contains("169.254.64.")).await;
    assert!(link_local(&node, "default/blue").await.is_empty());
}
