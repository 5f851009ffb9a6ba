//! Tenants' networks on a real node: who hears whom, and who does not.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vrouter_objects::{
    NextHop, Object, PodBinding, Policy, PolicyId, Route, RouteKey, RoutingInstance, Subnet, Tier, Vni, VrfId,
};
use vrouter_proto::v1;

use crate::controller::{Controller, objects};
use crate::support::{Netns, Node, Pod};
use crate::with_link;

const PORT: u16 = 7000;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn vrf(number: u32) -> VrfId {
    VrfId::new(number).unwrap()
}

pub fn network(number: u32, name: &str, prefix: &str, gateway: &str) -> RoutingInstance {
    let subnet = Subnet { prefix: prefix.parse().unwrap(), gateway: ip(gateway) };
    RoutingInstance::new(vrf(number), name, Vni::new(number).unwrap(), vec![subnet])
}

pub fn route(number: u32, prefix: &str, next_hop: NextHop) -> Object {
    Object::Route(Route { key: RouteKey { vrf: vrf(number), prefix: prefix.parse().unwrap() }, next_hop })
}

pub fn binding(name: &str, number: u32, address: &str) -> PodBinding {
    let pod = format!("default/{name}").parse().unwrap();
    PodBinding { addresses: vec![ip(address)], ..PodBinding::new(pod, "", vrf(number)) }
}

/// The tables that all tests begin with, and these.
pub fn with(more: &[Object]) -> Vec<v1::Object> {
    objects().into_iter().chain(more.iter().map(v1::Object::from)).collect()
}

/// Two networks with the same addresses and a pair of pods each.
fn two_tenants() -> Vec<Object> {
    let networks = [(7, "blue"), (8, "red")];
    networks
        .into_iter()
        .flat_map(|(number, name)| {
            [
                Object::RoutingInstance(network(number, &format!("t/{name}"), "10.0.0.0/24", "10.0.0.1")),
                route(number, "10.0.0.0/24", NextHop::Reject),
                route(number, "0.0.0.0/0", NextHop::VrfTranslate(vrf(3))),
                Object::PodBinding(binding(&format!("{name}-a"), number, "10.0.0.5")),
                Object::PodBinding(binding(&format!("{name}-b"), number, "10.0.0.6")),
            ]
        })
        .collect()
}

/// A network of an isolated namespace, and the pods that are known in it.
fn isolated(pods: &[(&str, &str)]) -> Vec<Object> {
    let network = RoutingInstance {
        address_space: vrf(1),
        known_in: vec![vrf(1), vrf(3)],
        ..network(9, "shop/default-podnetwork", "10.244.0.0/16", "10.244.0.1")
    };
    let mut objects = vec![
        Object::RoutingInstance(network),
        route(1, "10.244.0.0/16", NextHop::Reject),
        route(9, "10.244.0.0/16", NextHop::Reject),
        route(9, "0.0.0.0/0", NextHop::VrfTranslate(vrf(3))),
    ];
    for (name, address) in pods {
        objects.push(Object::PodBinding(binding(name, 9, address)));
        objects.push(route(3, &format!("{address}/32"), NextHop::VrfTranslate(vrf(9))));
    }
    objects
}

pub async fn attached(node: &mut Node, role: &str, name: &str) -> Pod {
    let pod = Pod::new(&format!("{role}-{name}"));
    let reply = node.attach_as(&pod, name).await.unwrap();
    pod.configure(&reply);
    pod
}

fn socket(netns: &Netns, port: u16) -> UdpSocket {
    vrouter_io::within(Some(&netns.path()), || {
        let socket = UdpSocket::bind(("0.0.0.0", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Ok(socket)
    })
    .unwrap()
}

fn say(pod: &Pod, to: &str, word: &str) {
    socket(&pod.netns, 0).send_to(word.as_bytes(), (to, PORT)).unwrap();
}

/// The next that comes.
fn heard(socket: &UdpSocket) -> String {
    let mut payload = [0; 64];
    let length = socket.recv(&mut payload).unwrap();
    String::from_utf8(payload[..length].to_vec()).unwrap()
}

/// Takes what has come, and says how much that was.
fn empty(socket: &UdpSocket) -> usize {
    socket.set_nonblocking(true).unwrap();
    let count = std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count();
    socket.set_nonblocking(false).unwrap();
    count
}

pub fn reaches(from: &Netns, address: &str) -> bool {
    let ping = format!("ip netns exec {} ping -c 1 -W 1 {address}", from.name());
    let ping = std::process::Command::new("sh").args(["-c", &ping]).output().unwrap();
    ping.status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_with_the_same_addresses_hear_their_own_alone() {
    let underlay = with_link("twins");
    let controller = Controller::with(&underlay, with(&two_tenants())).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let mut pods = Vec::new();
    for name in ["blue-a", "blue-b", "red-a", "red-b"] {
        pods.push(attached(&mut node, "twins", name).await);
    }
    let [blue_a, blue_b, red_a, red_b] = pods.as_slice() else { panic!("four pods") };
    let ears = [blue_b, red_b].map(|pod| socket(&pod.netns, PORT));
    let speak = || {
        for (from, word) in [(blue_a, "blue"), (red_a, "red")] {
            say(from, "10.0.0.6", word);
        }
        assert_eq!(ears.each_ref().map(heard), ["blue", "red"]);
    };
    speak();
    let routes = underlay.run("ip route show table all");
    assert!(!routes.contains("10.0.0."), "the node itself knows nothing of them: {routes}");

    drop(controller);
    node.kill();
    let mut node = Node::start_again(node).await;
    speak();
    for pod in &pods {
        node.check(pod).await.unwrap();
    }
    node.detach(red_b).await;
    assert!(!reaches(&red_a.netns, "10.0.0.6"));
    say(blue_a, "10.0.0.6", "still there");
    assert_eq!(heard(&ears[0]), "still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_reaches_isolated_pods_and_others_do_not() {
    let underlay = with_link("isolated");
    let tables = with(&isolated(&[("till", "10.244.0.9"), ("shelf", "10.244.0.10")]));
    let _controller = Controller::with(&underlay, tables).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let till = attached(&mut node, "isolated", "till").await;
    let shelf = attached(&mut node, "isolated", "shelf").await;
    let web = attached(&mut node, "isolated", "web").await;
    underlay.run("ping -c 1 -W 10 10.244.0.9");
    till.netns.run("ping -c 1 -W 10 10.244.0.10");
    till.netns.run("ping -c 1 -W 10 172.30.0.1");
    assert!(!reaches(&web.netns, "10.244.0.9"));
    let ear = socket(&web.netns, PORT);
    let own = own_address(&web);
    assert!(!reaches(&shelf.netns, &own));
    say(&web, &own, "itself");
    assert_eq!(heard(&ear), "itself");
    let routes = underlay.run("ip route");
    assert!(routes.contains("10.244.0.0/16 via 169.254.1.1 dev vhost0"), "{routes}");
    assert!(!routes.contains("10.244.0.9"), "one route leads to all pods: {routes}");
}

fn own_address(pod: &Pod) -> String {
    let address = pod.netns.run("ip -4 -o address show eth0");
    let address = address.split_whitespace().nth(3).unwrap();
    address.split('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_holds_from_the_first_packet_after_a_kill() {
    let underlay = with_link("policy");
    let policy = Policy {
        id: PolicyId::new(1).unwrap(),
        name: "NetworkPolicy default/nobody".to_owned(),
        tier: Tier::Namespace,
        ingress: Some(Vec::new()),
        egress: None,
    };
    let shut = PodBinding { policies: vec![policy.id], ..binding("shut", 1, "10.244.0.7") };
    let bindings = [shut, binding("open", 1, "10.244.0.8"), binding("client", 1, "10.244.0.9")];
    let bindings = bindings.into_iter().map(Object::PodBinding);
    let objects: Vec<_> = bindings.chain([Object::Policy(policy)]).collect();
    let controller = Controller::with(&underlay, with(&objects)).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let shut = attached(&mut node, "policy", "shut").await;
    let open = attached(&mut node, "policy", "open").await;
    let client = attached(&mut node, "policy", "client").await;
    node.tables_on_disk(controller.version()).await;
    drop(controller);

    let [shut_ear, open_ear] = [&shut, &open].map(|pod| socket(&pod.netns, PORT));
    let mouth = socket(&client.netns, 0);
    let stop = Arc::new(AtomicBool::new(false));
    let speaker = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                for address in ["10.244.0.7", "10.244.0.8"] {
                    // While the interface has no carrier there is no way.
                    let _ = mouth.send_to(b"word", (address, PORT));
                }
            }
        }
    });
    assert_eq!(heard(&open_ear), "word");
    node.kill();
    empty(&open_ear);
    let _node = Node::start_again(node).await;
    assert_eq!(heard(&open_ear), "word", "this one may be spoken to");
    stop.store(true, Ordering::Relaxed);
    speaker.join().unwrap();
    assert_eq!(empty(&shut_ear), 0, "nobody may speak to this one");
    underlay.run("ping -c 1 -W 10 10.244.0.7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_network_changes_is_cut_off_until_it_is_attached_anew() {
    let underlay = with_link("moved");
    let controller = Controller::with(&underlay, with(&two_tenants())).await;
    let mut node = Node::start(&underlay).await;
    node.tables(1).await;
    let blue_a = attached(&mut node, "moved", "blue-a").await;
    let blue_b = attached(&mut node, "moved", "blue-b").await;
    let red_b = attached(&mut node, "moved", "red-b").await;
    assert!(reaches(&blue_a.netns, "10.0.0.6"));

    let mut objects = two_tenants();
    objects.retain(|object| !matches!(object, Object::PodBinding(binding) if binding.pod.name == "blue-a"));
    objects.push(Object::PodBinding(binding("blue-a", 8, "10.0.0.77")));
    controller.put(with(&objects));
    let report = node.until(|report| !report.problems.is_empty()).await;
    let problem = "pod default/blue-a is cut off until it is attached anew: it is in network t/blue and belongs to t/red";
    assert_eq!(report.problems, [problem]);
    let [old, new] = [&blue_b, &red_b].map(|pod| socket(&pod.netns, PORT));
    say(&blue_a, "10.0.0.6", "from the old network");
    assert!(!reaches(&blue_a.netns, "10.0.0.6"));

    let reply = node.attach_as(&blue_a, "blue-a").await.unwrap();
    blue_a.configure(&reply);
    say(&blue_a, "10.0.0.6", "from the new network");
    assert_eq!(heard(&new), "from the new network");
    assert_eq!(empty(&old), 0);
    assert!(node.report().await.problems.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_have_devices_for_as_long_as_they_are_held() {
    let underlay = with_link("devices");
    let controller = Controller::start(&underlay).await;
    let node = Node::start_with(&underlay, &["--vxlan", "device"]).await;
    node.tables(1).await;
    let devices = || {
        let links = underlay.run("ip -o link show type vxlan");
        let names = links.lines().filter_map(|line| line.split(": ").nth(1));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    // A version counts as applied from when its tables are in force; its devices follow before it is acknowledged.
    node.until(|_| devices() == ["vxlan-1", "vxlan-3"]).await;
    controller.put(with(&two_tenants()));
    node.until(|_| devices() == ["vxlan-1", "vxlan-3", "vxlan-7", "vxlan-8"]).await;
    let about = underlay.run("ip -d link show vxlan-7");
    assert!(about.contains("vxlan id 7 local 172.30.0.1") && about.contains(",UP"), "{about}");
    let mut one = two_tenants();
    one.retain(|object| match object {
        Object::RoutingInstance(network) => network.id == vrf(8),
        Object::Route(route) => route.key.vrf == vrf(8),
        _ => false,
    });
    controller.put(with(&one));
    node.until(|_| devices() == ["vxlan-1", "vxlan-3", "vxlan-8"]).await;
    assert!(node.report().await.problems.is_empty());
}
