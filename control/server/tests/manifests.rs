//! The folder of YAML and what tools see of it.
#![allow(missing_docs)]

mod common;

use common::{Controller, FakeNode, NODES, Table, service};
use tonic::transport::Endpoint;
use vrouter_proto::v1;
use vrouter_proto::v1::inspect_client::InspectClient;

async fn services(controller: &Controller) -> Vec<String> {
    let request = v1::ObjectsRequest { kind: "lb".to_owned(), name: String::new() };
    let reply = controller.inspect().await.objects(request).await.unwrap().into_inner();
    reply.objects.into_iter().map(|object| object.name).collect()
}

fn problems(status: &v1::ControllerStatus) -> Vec<String> {
    let line = |problem: &v1::Problem| {
        format!("{} | {} | {} | {}", problem.source, problem.object, problem.field, problem.message)
    };
    status.problems.iter().map(line).collect()
}

#[tokio::test]
async fn every_fault_is_named_and_everything_else_is_applied() {
    let controller = Controller::start(&format!("{NODES}{}", service("good", 80))).await;
    controller
        .write("a-syntax.yaml", &format!("{}---\nkind: Service\n  metadata: {{\n", service("before", 80)));
    controller.write("b-unknown.yml", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n");
    controller.write("c-port.yaml", &format!("{}{}", service("high", 80800), service("after", 80)));
    let typed = "apiVersion: v1\nkind: Service\nmetadata: {name: typed}\nspec: {ports: [{port: eighty}]}\n";
    controller.write("d-typed.yaml", typed);
    controller.write("e-double.yaml", &service("good", 81));
    let nameless =
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {}}\n- 7\n";
    controller.write("f-list.yaml", nameless);
    let quiet = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {labels: {a: b}}}}\n";
    controller.write("g-quiet.yaml", quiet);
    controller.write("ignored.txt", "{");
    let status = controller.settle().await;
    assert!(status.settled);
    assert_eq!(
        services(&controller).await,
        ["default/after", "default/before", "default/good", "default/high"]
    );
    let problems = problems(&status);
    let expected = [
        "a-syntax.yaml (document 2) |  |  | is not YAML: ",
        "b-unknown.yml | Gadget default/g | kind | Gadget in example.com/v1 is unknown",
        "c-port.yaml (document 1) | Service default/high | spec.ports[0].port | port 80800 is not in 1-65535",
        "d-typed.yaml | Service default/typed | spec.ports[0].port | invalid type: string \"eighty\", expected i32",
        "e-double.yaml | Service default/good | metadata.name | is defined in all.yaml (document 3) already",
        "f-list.yaml | Service items[0] | metadata.name | is missing",
        "f-list.yaml | items[1] |  | is no object",
    ];
    for part in expected {
        assert!(problems.iter().any(|line| line.starts_with(part)), "{part}\nin {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

/// An object of a kind, with this spec.
fn object(api_version: &str, kind: &str, name: &str, spec: &str) -> String {
    format!("---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

#[tokio::test]
async fn what_is_wrong_with_policies_and_networks_is_named() {
    let controller = Controller::start(NODES).await;
    let (policies, cluster) = ("networking.k8s.io/v1", "policy.networking.k8s.io/v1alpha2");
    let contrail = "core.contrail.juniper.net/v1alpha1";
    let unreadable = [
        (
            object(policies, "NetworkPolicy", "labels", "{podSelector: {matchLabels: {version: 1}}}"),
            "NetworkPolicy default/labels | spec.podSelector.matchLabels.version | invalid type: integer `1`",
        ),
        (
            object(
                policies,
                "NetworkPolicy",
                "from",
                "{podSelector: {}, ingress: [{from: [{podSelector: web}]}]}",
            ),
            "NetworkPolicy default/from | spec.ingress[0].from[0].podSelector | invalid type: string \"web\"",
        ),
        (
            object(
                policies,
                "NetworkPolicy",
                "end",
                "{podSelector: {}, egress: [{ports: [{port: 1, endPort: nine}]}]}",
            ),
            "NetworkPolicy default/end | spec.egress[0].ports[0].endPort | invalid type: string \"nine\"",
        ),
        (
            object("networking.k8s.io/v2", "NetworkPolicy", "future", "{podSelector: {}}"),
            "NetworkPolicy default/future | apiVersion | networking.k8s.io/v2 is unknown; NetworkPolicy is read in networking.k8s.io/v1",
        ),
        (
            object(cluster, "ClusterNetworkPolicy", "first", "{tier: Admin, priority: high, subject: {}}"),
            "ClusterNetworkPolicy first | spec.priority | invalid type: string \"high\"",
        ),
        (
            object("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", "older", "{}"),
            "AdminNetworkPolicy default/older | kind | AdminNetworkPolicy in policy.networking.k8s.io/v1alpha1 is unknown",
        ),
        (
            object("projectcalico.org/v3", "NetworkPolicy", "other", "{}"),
            "NetworkPolicy default/other | kind | NetworkPolicy in projectcalico.org/v3 is unknown",
        ),
        (
            object(contrail, "VirtualNetwork", "blue", "{v4SubnetReference: blue}"),
            "VirtualNetwork default/blue | spec.v4SubnetReference | invalid type: string \"blue\"",
        ),
        (
            object(contrail, "Subnet", "blue", "{cidr: 10}"),
            "Subnet default/blue | spec.cidr | invalid type: integer `10`",
        ),
        (
            object(contrail, "VirtualNetworkRouter", "mesh", "{type: [mesh]}"),
            "VirtualNetworkRouter default/mesh | spec.type | invalid type: sequence",
        ),
        (
            object(contrail, "BGPRouter", "edge", "{}"),
            "BGPRouter default/edge | kind | BGPRouter in core.contrail.juniper.net/v1alpha1 is unknown",
        ),
    ];
    for (i, (text, _)) in unreadable.iter().enumerate() {
        controller.write(&format!("{i:02}.yaml"), text);
    }
    // What these say beyond what is read is left alone, as of other kinds; and versions that say the same are read.
    let fine = [
        object("extensions/v1beta1", "NetworkPolicy", "old", "{podSelector: {}, ingress: ~}"),
        object(
            "core.contrail.juniper.net/v3",
            "Subnet",
            "green",
            "{cidr: 10.9.0.0/24, disableBGPaaSVIP: true}",
        ),
        object(
            "core.contrail.juniper.net/v3",
            "VirtualNetwork",
            "green",
            "{podNetwork: true, v4SubnetReference: {apiVersion: core.contrail.juniper.net/v3, kind: Subnet, namespace: default, name: green}}",
        ),
        // A spec that is null is as good as none.
        object(contrail, "VirtualNetwork", "default-podnetwork", ""),
        object(
            cluster,
            "ClusterNetworkPolicy",
            "nulls",
            "{tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: null, egress: ~}",
        ),
    ];
    controller.write("fine.yaml", &fine.concat());
    let problems = problems(&controller.settle().await);
    for (i, (_, message)) in unreadable.iter().enumerate() {
        let line = format!("{i:02}.yaml | {message}");
        assert!(problems.iter().any(|problem| problem.starts_with(&line)), "{line}\nin {problems:#?}");
    }
    assert_eq!(problems.len(), unreadable.len(), "{problems:#?}");
}

#[tokio::test]
async fn a_policy_that_cannot_be_read_any_more_stays_as_it_was() {
    let controller = Controller::start(&format!(
        "{NODES}{}",
        object("v1", "Pod", "web", "{nodeName: n1, containers: []}")
    ))
    .await;
    let policy = |api_version, types| {
        object(api_version, "NetworkPolicy", "deny", &format!("{{podSelector: {{}}, policyTypes: {types}}}"))
    };
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    controller.write("deny.yaml", &policy("networking.k8s.io/v1", "[Ingress]"));
    n1.settle(&controller).await;
    let guarded = n1.table.clone();
    assert_eq!(guarded.policies().len(), 1);
    for wrong in [policy("networking.k8s.io/v1", "Ingress"), policy("networking.k8s.io/v2", "[Ingress]")] {
        controller.write("deny.yaml", &wrong);
        assert_eq!(n1.settle(&controller).await.problems.len(), 1);
        assert_eq!(n1.table, guarded, "{wrong}");
    }
}

/// The controller that starts next does not know what the policy was; it knows that there is one.
#[tokio::test]
async fn a_policy_that_is_broken_when_the_controller_starts_opens_nothing() {
    let pod = object("v1", "Pod", "web", "{nodeName: n1, containers: []}");
    let mut controller = Controller::start(&format!("{NODES}{pod}")).await;
    let policy = |types| {
        let spec = format!("{{podSelector: {{}}, policyTypes: {types}}}");
        object("networking.k8s.io/v1", "NetworkPolicy", "deny", &spec)
    };
    controller.write("deny.yaml", &policy("[Ingress]"));
    let mut n1 = FakeNode::connect(&controller, "n1", Table::default()).await;
    n1.settle(&controller).await;
    let id = n1.table.policies()[0].id;
    controller.write("deny.yaml", &policy("Ingress"));
    controller.stop().await;
    controller.resume().await;
    let mut n1 = FakeNode::connect(&controller, "n1", n1.table).await;
    let status = n1.settle(&controller).await;
    assert_eq!(status.problems.len(), 1);
    let policies = n1.table.policies();
    assert_eq!(policies.iter().map(|policy| policy.id).collect::<Vec<_>>(), [id]);
    for rules in [&policies[0].ingress, &policies[0].egress] {
        assert!(rules.as_ref().is_some_and(|rules| rules.rules.is_empty()), "{policies:?}");
    }
}

#[tokio::test]
async fn a_half_written_file_wipes_nothing() {
    let controller = Controller::start(NODES).await;
    let whole = format!("{}{}", service("a", 80), service("b", 80));
    controller.write("web.yaml", &whole);
    controller.settle().await;
    for half in ["", &format!("{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: b", service("a", 80))]
    {
        controller.write("web.yaml", half);
        let status = controller.settle().await;
        assert_eq!(services(&controller).await, ["default/a", "default/b"], "{half:?}");
        assert!(status.problems.iter().any(|problem| problem.source.starts_with("web.yaml")), "{status:?}");
    }
    let refused = format!("{}{}", service("a", 80), service("b", 80).replace("80", "x"));
    controller.write("web.yaml", &refused);
    assert_eq!(controller.settle().await.problems[0].object, "Service default/b");
    assert_eq!(services(&controller).await, ["default/a", "default/b"]);
    controller.write("web.yaml", &service("b", 80));
    assert!(controller.settle().await.problems.is_empty());
    assert_eq!(services(&controller).await, ["default/b"]);
    std::fs::remove_file(controller.path("manifests/web.yaml")).unwrap();
    controller.settle().await;
    assert!(services(&controller).await.is_empty());
}

#[tokio::test]
async fn the_folder_is_read_again_at_once_when_somebody_settles() {
    let controller = Controller::start(NODES).await;
    for i in 0..10 {
        // Rewritten in place, as long as before, within the grain of the file's time.
        controller.write("web.yaml", &service(&format!("s{i}"), 80));
        controller.settle().await;
        assert_eq!(services(&controller).await, [format!("default/s{i}")]);
    }
}

#[tokio::test]
async fn older_slices_are_read_as_current_ones() {
    let old = "---\napiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: e, labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [192.0.2.1], topology: {kubernetes.io/hostname: n1}}]\n";
    let controller = Controller::start(&format!("{NODES}{}{old}", service("web", 80))).await;
    controller.settle().await;
    let request = v1::ObjectsRequest { kind: "member".to_owned(), name: String::new() };
    let members = controller.inspect().await.objects(request).await.unwrap().into_inner().objects;
    assert_eq!(members.len(), 1);
    assert!(members[0].json.contains("192.0.2.1"));
}

#[tokio::test]
async fn tools_ask_over_the_socket_too() {
    let controller = Controller::start(&format!("{NODES}{}", service("web", 80))).await;
    controller.settle().await;
    let socket = controller.path("control.sock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
        }))
        .await
        .unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();
    let mut inspect = InspectClient::new(channel);
    let request = v1::ObjectsRequest { kind: "fip".to_owned(), name: "default/web-clusterip-v4".to_owned() };
    let objects = inspect.objects(request).await.unwrap().into_inner().objects;
    assert_eq!(objects.len(), 1);
    assert!(objects[0].json.contains(
        "\"floatingIpPortMappings\":{\"portMappings\":[{\"srcPort\":80,\"dstPort\":80,\"protocol\":\"TCP\"}]}"
    ));
    let unknown = v1::ObjectsRequest { kind: "pods".to_owned(), name: String::new() };
    assert_eq!(inspect.objects(unknown).await.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn it_says_when_it_is_healthy() {
    let controller = Controller::start(NODES).await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(controller.channel().await);
    for service in ["", "vrouter.v1.Control", "vrouter.v1.Inspect"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        let reply = health.check(request).await.unwrap().into_inner();
        assert_eq!(
            reply.status(),
            tonic_health::pb::health_check_response::ServingStatus::Serving,
            "{service}"
        );
    }
}

#[tokio::test]
async fn settling_waits_for_nodes_that_are_named_and_gives_up_in_time() {
    let controller = Controller::start(NODES).await;
    let request = v1::SettleRequest { timeout_ms: 50, nodes: vec!["n1".to_owned()] };
    assert!(!controller.inspect().await.settle(request).await.unwrap().into_inner().settled);
}
