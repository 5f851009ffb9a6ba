//! Who is sent what: a node holds the networks and the policies that it has a use for, and what these refer to.
#![allow(missing_docs)]

mod common;

use common::{Controller, FakeNode, NODES, Table};
use vrouter_proto::v1;

/// The networks that every node holds.
const EVERYWHERE: [&str; 4] = [
    "default/default-podnetwork",
    "default/default-servicenetwork",
    "default/ip-fabric",
    "default/link-local",
];

/// A namespace whose networks are its own.
const TENANT: &str = "---
apiVersion: v1
kind: Namespace
metadata: {name: tenant, labels: {core.juniper.net/isolated-namespace: 'true'}}
";

/// Pods labelled `app: web` may be spoken to by pods labelled `app: client`.
const POLICY: &str = "---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]
";

/// A pod that runs, labelled with its name up to the dash.
fn pod(name: &str, node: &str, address: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let app = name.split('-').next().unwrap();
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{namespace: {namespace}, name: {name}, labels: {{app: {app}}}}}
spec: {{nodeName: {node}, containers: []}}
status: {{phase: Running, podIP: {address}, conditions: [{{type: Ready, status: 'True'}}]}}
"
    )
}

/// The networks that a node holds beside those that all do.
fn own_networks(table: &Table) -> Vec<&str> {
    table.networks().into_iter().filter(|name| !EVERYWHERE.contains(name)).collect()
}

/// How many policies, sets and addresses in sets a node holds.
fn guarded(table: &Table) -> [usize; 3] {
    [table.policies().len(), table.peer_sets().len(), table.peers().len()]
}

/// Two nodes that have taken what there is.
async fn two_nodes(controller: &Controller) -> [FakeNode; 2] {
    let mut nodes = [
        FakeNode::connect(controller, "n1", Table::default()).await,
        FakeNode::connect(controller, "n2", Table::default()).await,
    ];
    for node in &mut nodes {
        node.update().await;
    }
    nodes
}

#[tokio::test]
async fn a_network_goes_where_its_pods_go() {
    let controller = Controller::start(&format!("{NODES}{TENANT}")).await;
    let [mut n1, mut n2] = two_nodes(&controller).await;
    for node in [&n1, &n2] {
        assert_eq!(node.table.networks(), EVERYWHERE);
    }
    controller.write("pod.yaml", &pod("tenant/web-0", "n1", "10.244.1.5"));
    let gained = n1.update().await;
    assert!(!gained.is_full() && gained.remove.is_empty());
    let own = ["tenant/default-podnetwork", "tenant/default-servicenetwork"];
    assert_eq!(own_networks(&n1.table), own);
    assert!(has_binding(&gained.put), "the pod and its network come in one version");
    assert!(n2.settle(&controller).await.problems.is_empty());
    assert!(own_networks(&n2.table).is_empty());

    controller.write("pod.yaml", &pod("tenant/web-0", "n2", "10.244.2.5"));
    let (lost, gained) = (n1.update().await, n2.update().await);
    assert!(!lost.is_full() && !gained.is_full());
    assert_eq!((own_networks(&n1.table), own_networks(&n2.table)), (vec![], own.to_vec()));
    for node in [&mut n1, &mut n2] {
        assert!(node.settle(&controller).await.settled);
    }
}

fn has_binding(objects: &[v1::Object]) -> bool {
    objects.iter().any(|object| matches!(&object.kind, Some(v1::object::Kind::PodBinding(_))))
}

#[tokio::test]
async fn an_interface_keeps_its_network_until_it_is_gone() {
    let controller = Controller::start(&format!("{NODES}{TENANT}")).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.update().await;
    controller.write("pod.yaml", &pod("tenant/web-0", "n1", "10.244.1.5"));
    n1.update().await;
    let vrf = n1.table.objects.values().find_map(|object| match &object.kind {
        Some(v1::object::Kind::PodBinding(binding)) => Some(binding.vrf),
        _ => None,
    });
    let attached = common::attachment(1, "tenant/web-0", [10, 244, 1, 5]);
    let attachment = Some(v1::Attachment { vrf: vrf.unwrap(), ..attached });
    n1.say(v1::node_message::Kind::Attachment(v1::AttachmentReport { attachment })).await;
    n1.settle(&controller).await;
    // The pod is deleted, and its interface is still there to be taken down.
    std::fs::remove_file(controller.path("manifests/pod.yaml")).unwrap();
    n1.settle(&controller).await;
    assert_eq!(own_networks(&n1.table).len(), 2);
    n1.say(v1::node_message::Kind::Detached(v1::Detached { vmi: 1 })).await;
    n1.settle(&controller).await;
    assert!(own_networks(&n1.table).is_empty());
}

#[tokio::test]
async fn every_node_serves_what_is_reached_at_every_node() {
    let web = "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: tenant, name: web}\nspec: {type: ClusterIP, selector: {app: web}, ports: [{port: 80}]}\n";
    let pod = pod("tenant/web-0", "n1", "10.244.1.5");
    let controller = Controller::start(&format!("{NODES}{TENANT}{pod}{web}")).await;
    let [mut n1, mut n2] = two_nodes(&controller).await;
    assert!(!own_networks(&n1.table).is_empty() && own_networks(&n2.table).is_empty());
    // With a node port: the service, and the network that its member is in.
    controller.write("all.yaml", &format!("{NODES}{TENANT}{pod}{}", web.replace("ClusterIP", "NodePort")));
    n2.settle(&controller).await;
    assert_eq!(own_networks(&n2.table), own_networks(&n1.table));
    assert_eq!(n2.table.floating_ips().len(), 1);
    controller.write("all.yaml", &format!("{NODES}{TENANT}{pod}{web}"));
    n2.settle(&controller).await;
    assert!(own_networks(&n2.table).is_empty() && n2.table.floating_ips().is_empty());
    n1.settle(&controller).await;
    assert_eq!(n1.table.floating_ips().len(), 1);
}

#[tokio::test]
async fn a_policy_and_its_sets_go_where_the_pods_go_that_it_selects() {
    let clients = pod("client-0", "n2", "10.244.2.5");
    let controller = Controller::start(&format!("{NODES}{POLICY}{clients}")).await;
    let [mut n1, mut n2] = two_nodes(&controller).await;
    assert_eq!([guarded(&n1.table), guarded(&n2.table)], [[0; 3]; 2], "nobody is selected");

    controller.write("web.yaml", &pod("web-0", "n1", "10.244.1.5"));
    let gained = n1.update().await;
    assert!(!gained.is_full() && has_binding(&gained.put));
    assert_eq!(guarded(&n1.table), [1, 1, 1]);
    n2.settle(&controller).await;
    assert_eq!(guarded(&n2.table), [0; 3], "whom the policy lets in has no use for it");

    // One more in the set is one object for those that hold it, and nothing for others.
    controller.write("client.yaml", &pod("client-1", "n1", "10.244.1.6"));
    let more = n1.update().await;
    assert_eq!((more.put.len(), more.remove.len()), (2, 0), "the pod's binding and its address in the set");
    let before = n2.table.version;
    n2.settle(&controller).await;
    assert_eq!(n2.table.version, before);

    // Another pod of the policy changes nothing for the one node, and a lot for the other.
    controller.write("web.yaml", &pod("web-1", "n2", "10.244.2.6"));
    for node in [&mut n1, &mut n2] {
        assert!(node.settle(&controller).await.settled);
    }
    assert_eq!([guarded(&n1.table), guarded(&n2.table)], [[0; 3], [1, 1, 2]]);
}

#[tokio::test]
async fn a_node_that_was_away_is_sent_the_difference() {
    let pods = [pod("web-0", "n1", "10.244.1.5"), pod("client-0", "n2", "10.244.2.5")].concat();
    let mut controller = Controller::start(&format!("{NODES}{TENANT}{POLICY}{pods}")).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.update().await;
    assert_eq!(guarded(&n1.table), [1, 1, 1]);
    // While it is away it loses the policy and gains a network.
    let away = n1.table.clone();
    drop(n1);
    controller
        .write("all.yaml", &format!("{NODES}{TENANT}{POLICY}{}", pods.replace("app: web", "app: other")));
    controller.write("tenant.yaml", &pod("tenant/web-0", "n1", "10.244.1.6"));
    controller.settle().await;
    let mut n1 = FakeNode::connect(&controller, "n1", away.clone()).await;
    let difference = n1.update().await;
    assert!(!difference.is_full());
    assert_eq!((guarded(&n1.table), own_networks(&n1.table).len()), ([0; 3], 2));
    // With another controller, too, the same table is the same table.
    let current = n1.table.clone();
    assert!(n1.settle(&controller).await.settled);
    drop(n1);
    controller.stop().await;
    controller.resume().await;
    let mut n1 = FakeNode::connect(&controller, "n1", current.clone()).await;
    assert!(n1.settle(&controller).await.settled);
    assert_eq!(n1.table, current, "nothing came");
    // And an older one is brought up to date, as a whole.
    drop(n1);
    let mut n1 = FakeNode::connect(&controller, "n1", away).await;
    assert!(n1.update().await.is_full());
    assert_eq!(n1.table.objects, current.objects);
}

#[tokio::test]
async fn a_node_without_an_object_takes_part_for_as_long_as_it_is_connected() {
    let controller = Controller::start(NODES).await;
    let mut n3 = FakeNode::connect(&controller, "n3", Table::default()).await;
    n3.update().await;
    assert_eq!(n3.table.networks(), EVERYWHERE);
    let node = NODES.split("---\n").next().unwrap().replace("n1", "n3").replace("0.1", "0.3");
    controller.write("n3.yaml", &node);
    n3.settle(&controller).await;
    std::fs::remove_file(controller.path("manifests/n3.yaml")).unwrap();
    n3.settle(&controller).await;
    assert_eq!(n3.table.networks(), EVERYWHERE);
    assert_eq!(controller.status().await.nodes.len(), 1);
    drop(n3);
    while controller.status().await.nodes.iter().any(|node| node.connected) {
        tokio::task::yield_now().await;
    }
    controller.write("web.yaml", &common::service("web", 80));
    assert!(controller.settle().await.nodes.is_empty());
}
