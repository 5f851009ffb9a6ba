//! The control channel, from both ends.
#![allow(missing_docs)]

mod common;

use common::{Controller, FakeNode, NODES, Table, attachment, service};
use vrouter_proto::{CHUNK_BYTES, v1};

#[tokio::test]
async fn a_new_node_gets_everything_and_then_what_changes() {
    let controller = Controller::start(NODES).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    let first = n1.update().await;
    assert!(first.is_full() && n1.table.floating_ips().is_empty());

    controller.write("web.yaml", &service("web", 80));
    let second = n1.update().await;
    assert!(!second.is_full());
    assert_eq!((second.put.len(), second.remove.len()), (1, 0));
    assert_eq!(n1.table.floating_ips()[0].name, "default/web");

    std::fs::remove_file(controller.path("manifests/web.yaml")).unwrap();
    let third = n1.update().await;
    assert_eq!((third.put.len(), third.remove.len()), (0, 1));

    let status = n1.settle(&controller).await;
    assert!(status.settled);
    let node = &status.nodes[0];
    assert_eq!((node.name.as_str(), node.connected), ("n1", true));
    assert_eq!((node.applied_version, node.sent_version), (n1.table.version, n1.table.version));
    assert_eq!(node.digest, node.expected_digest);
}

#[tokio::test]
async fn one_version_is_in_flight_and_what_comes_meanwhile_is_merged() {
    let controller = Controller::start(NODES).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    let first = n1.receive().await.unwrap();
    for i in 0..5 {
        controller.write(&format!("s{i}.yaml"), &service(&format!("s{i}"), 80));
        // Published, while the node has not acknowledged anything.
        let request = v1::SettleRequest { timeout_ms: 50, nodes: Vec::new() };
        let status = controller.inspect().await.settle(request).await.unwrap().into_inner();
        assert!(!status.settled);
        assert_eq!(status.nodes[0].sent_version, first.begin.version);
    }
    n1.apply(&first, |_| None).await;
    let merged = n1.update().await;
    assert_eq!(merged.put.len(), 5);
    assert!(n1.settle(&controller).await.settled);
}

#[tokio::test]
async fn a_refusal_is_kept_and_shown_and_the_rest_goes_on() {
    let controller = Controller::start(&format!("{NODES}{}", service("bad", 81))).await;
    let refuse = |object: &v1::Object| match &object.kind {
        Some(v1::object::Kind::FloatingIp(fip)) if fip.name == "default/bad" => Some("no room for it"),
        _ => None,
    };
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    let update = n1.receive().await.unwrap();
    n1.apply(&update, refuse).await;
    controller.write("web.yaml", &service("web", 80));
    let next = n1.receive().await.unwrap();
    assert!(!next.is_full(), "a refusal is no drift");
    assert_eq!(next.put.len(), 1);
    n1.apply(&next, refuse).await;
    assert!(n1.settle(&controller).await.settled);
    let refusals = controller.status().await.nodes[0].refusals.clone();
    assert_eq!((refusals.len(), refusals[0].reason.as_str()), (1, "no room for it"));
    // The same table again: it is known what is missing in it and why.
    let table = n1.table.clone();
    drop(n1);
    let mut n1 = FakeNode::connect(&controller, "n1", table).await;
    controller.write("web2.yaml", &service("web2", 80));
    assert!(!n1.receive().await.unwrap().is_full());
}

#[tokio::test]
async fn drift_is_repaired_by_everything() {
    let controller = Controller::start(NODES).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.update().await;
    let lost = n1.table.objects.pop_first().unwrap();
    controller.write("web.yaml", &service("web", 80));
    let update = n1.receive().await.unwrap();
    for object in &update.put {
        let key = vrouter_proto::convert::key_of(object).unwrap();
        n1.table.objects.insert(prost::Message::encode_to_vec(&key), object.clone());
    }
    n1.table.version = update.begin.version;
    let (version, digest) = (n1.table.version, n1.table.digest().to_bytes());
    n1.say(v1::node_message::Kind::Applied(v1::Applied { version, digest, refusals: Vec::new() })).await;
    assert!(n1.update().await.is_full());
    assert_eq!(n1.table.objects.first_key_value().unwrap().0, &lost.0);
}

#[tokio::test]
async fn who_comes_back_with_the_same_is_sent_nothing() {
    let controller = Controller::start(&format!("{NODES}{}", service("web", 80))).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.update().await;
    let table = n1.table.clone();
    drop(n1);
    let mut n1 = FakeNode::connect(&controller, "n1", table.clone()).await;
    assert!(n1.settle(&controller).await.settled);
    assert_eq!(n1.table, table, "nothing came");

    // What changed in between comes as a difference, also where the acknowledgement was lost.
    drop(n1);
    controller.write("other.yaml", &service("other", 80));
    controller.settle().await;
    let mut n1 = FakeNode::connect(&controller, "n1", table.clone()).await;
    let delta = n1.receive().await.unwrap();
    assert!(!delta.is_full());
    drop(n1);
    let mut n1 = FakeNode::connect(&controller, "n1", table).await;
    assert!(!n1.update().await.is_full());
    assert_eq!(n1.table.floating_ips().len(), 2);

    // Something nobody knows is replaced as a whole, above the version it claims.
    let mut odd = Table { version: 1_000_000, ..Table::default() };
    odd.objects.insert(vec![1], v1::Object::default());
    drop(n1);
    let mut n1 = FakeNode::connect(&controller, "n1", odd).await;
    assert!(n1.update().await.is_full());
}

#[tokio::test]
async fn ctrl_14_a_table_larger_than_any_message() {
    let mut slices = String::from(NODES);
    let mut addresses = (0..20_000_u32).map(|i| format!("10.200.{}.{}", i / 250, i % 250 + 1));
    for i in 0..20 {
        slices += &service(&format!("large{i}"), 80);
        slices += &format!(
            "---\nkind: EndpointSlice\napiVersion: discovery.k8s.io/v1\naddressType: IPv4\nmetadata: {{name: e{i}, labels: {{kubernetes.io/service-name: large{i}}}}}\nports: [{{port: 80}}]\nendpoints:\n"
        );
        for address in addresses.by_ref().take(1000) {
            let pod = format!("a-pod-with-a-rather-long-name-as-they-have-them-{address}").replace('.', "-");
            slices +=
                &format!("- {{addresses: [{address}], targetRef: {{kind: Pod, name: {pod}-{pod}-{pod}}}}}\n");
        }
    }
    let controller = Controller::start(&slices).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    let update = n1.update().await;
    let total: usize = update.put.iter().map(prost::Message::encoded_len).sum();
    assert!(total > 4 << 20, "{total} bytes");
    assert!(
        update.largest <= CHUNK_BYTES + 1024 && update.messages > 4,
        "{} bytes in one message",
        update.largest
    );
    let members: usize = n1
        .table
        .floating_ips()
        .iter()
        .flat_map(|fip| &fip.listeners)
        .map(|listener| listener.members.len())
        .sum();
    assert_eq!(members, 20_000);
    let status = n1.settle(&controller).await;
    assert!(status.settled);
    assert_eq!(status.nodes[0].digest, status.nodes[0].expected_digest);
}

#[tokio::test]
async fn ctrl_15_the_end_of_an_old_stream_takes_nothing_from_the_new_one() {
    let controller = Controller::start(NODES).await;
    let mut old = FakeNode::connect(&controller, "n1", Table::default()).await;
    old.update().await;
    let mut new = FakeNode::connect(&controller, "n1", old.table.clone()).await;
    assert!(new.settle(&controller).await.settled);
    let status = old.receive().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Aborted, "{status}");
    // What the old one still says does not count.
    old.say(v1::node_message::Kind::Attachment(v1::AttachmentReport {
        attachment: Some(attachment(7, "default/web-0", [10, 244, 9, 9])),
    }))
    .await;
    drop(old);
    controller.write("web.yaml", &service("web", 80));
    new.update().await;
    assert_eq!(new.table.floating_ips().len(), 1);
    let status = new.settle(&controller).await;
    assert!(status.settled && status.nodes[0].connected);
    let request = v1::ObjectsRequest { kind: "vmi".to_owned(), name: String::new() };
    assert!(controller.inspect().await.objects(request).await.unwrap().into_inner().objects.is_empty());
}

#[tokio::test]
async fn a_restart_changes_nothing_and_goes_on_above() {
    let web = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-0, labels: {app: web}}\nspec: {nodeName: n1, containers: []}\n";
    let mut controller = Controller::start(&format!("{NODES}{web}")).await;
    let link_local = vec![v1::Address { octets: vec![169, 254, 64, 7] }];
    let attached = vec![v1::Attachment { link_local, ..attachment(1, "default/web-0", [10, 244, 1, 5]) }];
    let mut n1 = FakeNode::connect_with(&controller, "n1", Table::default(), attached.clone()).await;
    assert!(n1.settle(&controller).await.settled);
    assert_eq!(n1.table.floating_ips()[0].listeners[0].members[0].vmi, 1);
    let table = n1.table.clone();
    drop(n1);
    controller.stop().await;
    controller.resume().await;
    // Another node must not see a table without what n1 had attached, although n1 is not back yet.
    let mut n2 = FakeNode::connect(&controller, "n2", Table::default()).await;
    n2.update().await;
    assert_eq!(n2.table.floating_ips()[0].listeners[0].members[0].vmi, 1);
    let (kind, name) = ("iip".to_owned(), "default/web-0-eth0-link-local-v4".to_owned());
    let found = controller.inspect().await.objects(v1::ObjectsRequest { kind, name }).await.unwrap();
    assert_eq!(found.into_inner().objects.len(), 1);
    let mut n1 = FakeNode::connect_with(&controller, "n1", table.clone(), attached).await;
    assert!(controller.status().await.version >= table.version);
    controller.write("other.yaml", &service("other", 80));
    let update = n1.update().await;
    assert!(!update.is_full() && update.put.len() == 1, "only what is new since: {update:?}");
    assert!(n1.table.version > table.version);
}

#[tokio::test]
async fn attachments_reach_the_tables_of_others() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-0, annotations: {vrouter.dev/ip-addresses: 10.244.9.9}}\nspec: {nodeName: n1, containers: []}\n";
    let controller = Controller::start(&format!("{NODES}{pod}")).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.update().await;
    let has_binding = |table: &Table| {
        table.objects.values().any(|object| matches!(&object.kind, Some(v1::object::Kind::PodBinding(_))))
    };
    let mut n2 = FakeNode::connect(&controller, "n2", Table::default()).await;
    n2.update().await;
    assert!(has_binding(&n1.table) && !has_binding(&n2.table), "a binding is its node's business");
    let report = v1::AttachmentReport { attachment: Some(attachment(1, "default/web-0", [10, 244, 7, 7])) };
    n1.say(v1::node_message::Kind::Attachment(report)).await;
    let update = n2.update().await;
    let route = update.put.iter().find_map(|object| match &object.kind {
        Some(v1::object::Kind::Route(route)) => route.key.as_ref()?.prefix.as_ref(),
        _ => None,
    });
    assert_eq!(route.map(|prefix| prefix.length), Some(32));
}

#[tokio::test]
async fn bad_messages_end_the_stream_with_their_fault() {
    let controller = Controller::start(NODES).await;
    let short = vec![v1::Address { octets: vec![169, 254, 64] }];
    let odd = v1::Attachment { link_local: short, ..attachment(1, "default/web-0", [10, 244, 7, 7]) };
    for (message, part) in [
        (v1::node_message::Kind::Detached(v1::Detached { vmi: 0 }), "detached: vmi"),
        (
            v1::node_message::Kind::Applied(v1::Applied { version: 1, digest: vec![1], refusals: vec![] }),
            "digest",
        ),
        (
            v1::node_message::Kind::Attachment(v1::AttachmentReport { attachment: None }),
            "attachment: is missing",
        ),
        (
            v1::node_message::Kind::Attachment(v1::AttachmentReport { attachment: Some(odd) }),
            "attachment of vmi 1: link_local: is an address of 3 bytes",
        ),
    ] {
        let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
        n1.update().await;
        n1.say(message).await;
        let status = n1.receive().await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains(part), "{status}");
    }
}

fn hello(boot_id: &str, version: u64) -> v1::Hello {
    let (node, boot_id) = ("n1".to_owned(), boot_id.to_owned());
    v1::Hello { node, boot_id, version, digest: Vec::new(), attachments: Vec::new() }
}

#[tokio::test]
async fn a_version_that_nobody_sent_ends_the_stream() {
    let controller = Controller::start(NODES).await;
    let channel = controller.channel().await;
    let mut odd = FakeNode::greet(channel.clone(), hello("boot", u64::MAX), Table::default()).await;
    let status = odd.receive().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    // The highest that is believed is counted on from.
    let mut high = FakeNode::greet(channel, hello("boot", 1 << 62), Table::default()).await;
    assert!(high.update().await.begin.version > 1 << 62);
    controller.write("web.yaml", &service("web", 80));
    high.update().await;
}

#[tokio::test]
async fn two_machines_cannot_be_one_node() {
    let controller = Controller::start(NODES).await;
    let channel = controller.channel().await;
    let mut first = FakeNode::greet(channel.clone(), hello("first", 0), Table::default()).await;
    first.update().await;
    let mut second = FakeNode::greet(channel.clone(), hello("second", 0), Table::default()).await;
    let status = second.receive().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
    assert!(status.message().contains("boot id first"), "{status}");
    let status = first.settle(&controller).await;
    assert!(status.settled, "the first one is left alone");
    let problem = &status.problems[0];
    assert!(problem.source == "node n1" && problem.message.contains("boot id second"), "{problem:?}");
    // Once the first is gone, as after a reboot, the second is the node.
    drop(first);
    while controller.status().await.nodes[0].connected {
        tokio::task::yield_now().await;
    }
    let mut second = FakeNode::greet(channel, hello("second", 0), Table::default()).await;
    second.update().await;
    assert!(second.settle(&controller).await.problems.is_empty());
}

#[tokio::test]
async fn a_node_that_holds_something_else_is_not_settled() {
    let controller = Controller::start(NODES).await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    for _ in 0..2 {
        let mut update = n1.receive().await.unwrap();
        let lost = update.put.pop().unwrap();
        n1.table = Table { version: update.begin.version, ..Table::default() };
        for object in &update.put {
            let key = vrouter_proto::convert::key_of(object).unwrap();
            n1.table.objects.insert(prost::Message::encode_to_vec(&key), object.clone());
        }
        let (version, digest) = (n1.table.version, n1.table.digest().to_bytes());
        n1.say(v1::node_message::Kind::Applied(v1::Applied { version, digest, refusals: Vec::new() })).await;
        drop(lost);
        // The first update was everything already; the second comes with the next change.
        controller.write("web.yaml", &service("web", 80));
    }
    let request = v1::SettleRequest { timeout_ms: 200, nodes: vec!["n1".to_owned()] };
    let status = controller.inspect().await.settle(request).await.unwrap().into_inner();
    assert!(!status.settled);
    assert!(
        status.problems.iter().any(|problem| problem.source == "node n1"
            && problem.message.starts_with("holds something else than it was sent")),
        "{status:?}"
    );
}

#[tokio::test]
async fn an_attachment_that_cannot_be_right_is_refused() {
    let web = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-0, labels: {app: web}}\nspec: {nodeName: n1, containers: []}\n";
    let controller = Controller::start(&format!("{NODES}{web}")).await;
    let attached = vec![attachment(1, "default/web-0", [0, 0, 0, 0])];
    let mut n1 = FakeNode::connect_with(&controller, "n1", Table::default(), attached).await;
    let status = n1.settle(&controller).await;
    assert!(status.settled);
    assert!(n1.table.floating_ips()[0].listeners[0].members.is_empty());
    let problem = &status.problems[0];
    assert_eq!(
        (problem.source.as_str(), problem.object.as_str(), problem.message.as_str()),
        ("node n1", "Pod default/web-0", "addresses: 0.0.0.0 is no address of the pod network")
    );
}

#[tokio::test]
async fn a_node_that_lost_its_state_gets_other_interface_ids() {
    let first_vmi = |table: &Table| {
        let leases = table.objects.values().filter_map(|object| match &object.kind {
            Some(v1::object::Kind::AddressLease(lease)) => Some(lease.first_vmi),
            _ => None,
        });
        leases.min().unwrap()
    };
    let controller = Controller::start(NODES).await;
    let channel = controller.channel().await;
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.settle(&controller).await;
    let before = first_vmi(&n1.table);
    // Nothing was used yet, so nothing can be given twice.
    let mut n1 = FakeNode::greet(channel.clone(), hello("boot", 0), Table::default()).await;
    n1.settle(&controller).await;
    assert_eq!(first_vmi(&n1.table), before);
    let report =
        v1::AttachmentReport { attachment: Some(attachment(before, "default/web-0", [10, 244, 1, 5])) };
    n1.say(v1::node_message::Kind::Attachment(report)).await;
    n1.settle(&controller).await;
    let mut n1 = FakeNode::greet(channel, hello("boot", 0), Table::default()).await;
    n1.settle(&controller).await;
    assert_ne!(first_vmi(&n1.table), before);
}

#[tokio::test]
async fn what_was_attached_on_a_node_that_never_returns_is_dropped() {
    let n2 = NODES.split("---").nth(1).unwrap();
    let controller = Controller::start(n2).await;
    let attached = vec![attachment(1, "default/web-0", [10, 244, 7, 7])];
    let mut n1 = FakeNode::connect_with(&controller, "n1", Table::default(), attached).await;
    let interfaces = async || {
        let request = v1::ObjectsRequest { kind: "vmi".to_owned(), name: String::new() };
        controller.inspect().await.objects(request).await.unwrap().into_inner().objects.len()
    };
    n1.settle(&controller).await;
    assert_eq!(interfaces().await, 1, "it is there to say what is attached");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {nodeName: n1, containers: []}\n";
    controller.write("pod.yaml", pod);
    n1.settle(&controller).await;
    drop(n1);
    while controller.status().await.nodes.iter().any(|node| node.connected) {
        tokio::task::yield_now().await;
    }
    controller.settle().await;
    assert_eq!(interfaces().await, 1, "its pod may still run");
    std::fs::remove_file(controller.path("manifests/pod.yaml")).unwrap();
    controller.settle().await;
    assert_eq!(interfaces().await, 0);
}
