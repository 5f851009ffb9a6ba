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
