//! Files as people write them.

use super::*;

fn names(contents: &Contents) -> Vec<String> {
    contents.objects.iter().map(|(reference, ..)| reference.to_string()).collect()
}

#[test]
fn documents_are_taken_apart() {
    let text = "# a comment\n%YAML 1.2\n---\nkind: Service\napiVersion: v1\nmetadata: {name: a}\n--- # another\n{\"kind\": \"Service\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"b\"}}\n...\n---\n# nothing\n---\nnull\n";
    let contents = Contents::read("f", text, None);
    assert_eq!(names(&contents), ["Service default/a", "Service default/b"]);
    assert!(contents.problems.is_empty(), "{:?}", contents.problems);
}

#[test]
fn a_message_names_the_line_of_the_file() {
    let contents = Contents::read("f", "kind: Service\n---\n\n\na: [\n", None);
    let syntax = contents.problems.iter().find(|problem| problem.source == "f (document 2)").unwrap();
    assert!(syntax.message.contains("line 6"), "{}", syntax.message);
}

#[test]
fn lists_of_any_kind_are_taken_apart() {
    let text = "apiVersion: v1\nkind: ServiceList\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- apiVersion: v1\n  kind: List\n  items: [{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}, 7]\n";
    let contents = Contents::read("f", text, None);
    assert_eq!(names(&contents), ["Service default/a", "Pod x/b"]);
    assert_eq!(contents.problems.len(), 1);
    assert_eq!(contents.problems[0].object, "items[1].items[1]");
}

#[test]
fn anchors_and_merge_keys_work() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - &one {name: x, port: 80}\n  - {<<: *one, name: y, port: 81}\n";
    let contents = Contents::read("f", text, None);
    assert_eq!(names(&contents), ["Service default/a"]);
    assert!(contents.problems.is_empty(), "{:?}", contents.problems);
}

#[test]
fn names_that_are_none_are_refused() {
    for (metadata, field) in [
        ("{name: Upper}", "metadata.name"),
        ("{name: a/b}", "metadata.name"),
        ("{name: -a}", "metadata.name"),
        ("{generateName: a-}", "metadata.name"),
        ("{name: a, namespace: ''}", "metadata.namespace"),
        ("{name: a, labels: {version: 1}}", "metadata.labels.version"),
    ] {
        let text = format!("apiVersion: v1\nkind: Service\nmetadata: {metadata}\n");
        let contents = Contents::read("f", &text, None);
        assert_eq!(contents.problems.len(), 1, "{metadata}");
        assert_eq!(contents.problems[0].field, field, "{metadata}: {:?}", contents.problems);
    }
}

#[test]
fn a_wrong_version_of_a_known_kind_is_said() {
    let contents = Contents::read("f", "apiVersion: v2\nkind: Service\nmetadata: {name: a}\n", None);
    assert_eq!(contents.problems[0].field, "apiVersion");
    let contents = Contents::read("f", "kind: Service\nmetadata: {name: a}\n", None);
    assert_eq!(
        (contents.problems[0].field.as_str(), contents.problems[0].message.as_str()),
        ("apiVersion", "is missing")
    );
}

/// A NetworkPolicy with this text as its spec.
fn policy(spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    )
}

fn spec(contents: &Contents) -> serde_json::Value {
    match &*contents.objects[0].1 {
        KubeObject::NetworkPolicy(policy) => serde_json::to_value(&policy.spec).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_policy_that_never_could_be_read_isolates_its_namespace() {
    let closed = serde_json::json!({ "policyTypes": ["Ingress", "Egress"] });
    let labels = policy("{podSelector: {matchLabels: {version: 1}}}");
    for text in [
        labels.clone(),
        policy("{podSelector: web}"),
        labels.replace("networking.k8s.io/v1", "networking.k8s.io/v2"),
        labels.replace("networking.k8s.io/v1", "v1"),
    ] {
        let contents = Contents::read("f", &text, None);
        assert_eq!(
            (names(&contents), spec(&contents)),
            (vec!["NetworkPolicy shop/p".to_owned()], closed.clone()),
            "{text}"
        );
        let message = &contents.problems[0].message;
        assert!(
            message.ends_with("; until it can be read, all pods of its namespace are isolated"),
            "{message}"
        );
        // It still cannot.
        let again = Contents::read("f", &labels, Some(&contents));
        assert_eq!(spec(&again), closed);
        assert!(again.problems[0].message.contains("; until it can be read"), "{:?}", again.problems);
        // Now it can, and then it cannot once more.
        let good = Contents::read("f", &policy("{podSelector: {}}"), Some(&again));
        assert!(good.problems.is_empty());
        let stays = Contents::read("f", &text, Some(&good));
        assert_eq!(spec(&stays), spec(&good));
        assert!(stays.problems[0].message.ends_with("; it stays as it was"), "{:?}", stays.problems);
    }
    // Whose it would be cannot be told.
    for text in [labels.replace("namespace: shop", "namespace: 5"), labels.replace("name: p", "name: Upper")]
    {
        let contents = Contents::read("f", &text, None);
        assert_eq!((contents.objects.len(), contents.problems.len()), (0, 1), "{text}");
    }
}

#[test]
fn a_field_that_there_is_not_is_a_slip_which_opens_nothing() {
    for (spec, field) in [
        ("{podSelector: {}, ingress: [{}, {form: [{podSelector: {}}]}]}", "spec.ingress[1].form"),
        (
            "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabel: {app: a}}}]}]}",
            "spec.ingress[0].from[0].podSelector.matchLabel",
        ),
        ("{podSelector: {}, policyType: [Egress]}", "spec.policyType"),
        ("{podSelector: {}, egress: [{ports: [{portt: 80}]}]}", "spec.egress[0].ports[0].portt"),
    ] {
        let contents = Contents::read("f", &policy(spec), None);
        assert_eq!(contents.problems.len(), 1);
        assert_eq!(contents.problems[0].field, field);
        assert!(contents.problems[0].message.starts_with("is no field of a NetworkPolicy"));
    }
    let misspelt = policy("{podSelector: {}, policyTypes: [Egress]}").replace("spec:", "sepc:");
    let contents = Contents::read("f", &misspelt, None);
    assert_eq!(contents.problems.len(), 1, "it would leave egress open");
    assert_eq!(contents.problems[0].field, "sepc");
    let fine = "{podSelector: {matchLabels: {}}, ingress: [{from: [], ports: [{port: http}, {port: 80, endPort: 90}]}, {}], egress: null}";
    let exported = format!("{}status: {{}}\n", policy(fine));
    let contents = Contents::read("f", &exported, None);
    assert!(contents.problems.is_empty(), "{:?}", contents.problems);
}

#[test]
fn what_was_good_stays_where_nobody_can_tell_what_it_is_now() {
    let good = Contents::read("f", &policy("{podSelector: {}}"), None);
    let whole = policy("{podSelector: {}}");
    for text in [
        whole.replace("kind: ", "knd: "),
        whole.replace("NetworkPolicy", "NetworkPolcy"),
        whole.replace("{name: p, namespace: shop}", "{namespace: shop}"),
        whole.replace("{name: p, namespace: shop}", "p"),
        "apiVersion: v1\nkind: List\nitems: {}\n".to_owned(),
        "- 7\n".to_owned(),
    ] {
        let now = Contents::read("f", &text, Some(&good));
        assert_eq!((names(&now), now.problems.len()), (names(&good), 1), "{text}");
    }
    // It is another kind, which nobody knows, and it is gone.
    let other = Contents::read("f", &whole.replace("networking.k8s.io", "projectcalico.org"), Some(&good));
    assert!(other.objects.is_empty() && other.problems.len() == 1);
}
