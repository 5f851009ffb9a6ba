//! What people write wrongly is said clearly, and costs nothing else.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};
use vrouter_tests::command::{Finished, eventually};
use vrouter_tests::lab::{Family, Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{ECHO, Endpoints, ServicePort, echo_pod, service, stream, with_addresses};
use vrouter_tests::report::Echo;

use crate::group::{Group, cases};
use crate::load::ask;

pub const GROUP: Group = Group {
    name: "input",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        malformed_yaml,
        malformed_yaml_in_the_controllers_folder,
        an_unknown_kind,
        one_address_for_two_pods,
        a_port_out_of_range,
        a_cluster_address_out_of_range,
        an_older_api_version_is_read_with_a_note,
    ],
};

fn objects(programs: &Programs) -> Vec<Value> {
    vec![echo_pod("client", "n1", programs.probe()), echo_pod("server", "n2", programs.probe())]
}

/// A Service that is in order, to stand beside one that is not.
fn good(name: &str) -> Value {
    service(name, Endpoints::OfApp("server"), &[ServicePort { protocol: "TCP", port: 80, target: ECHO }])
}

/// Applies a file with something wrong in it, and `good` services beside: the complaint must hold all these words, on one
/// line, and the others must serve.
fn complained(lab: &Lab, file: &str, text: &str, words: &[&str], good: &[&str]) -> Result<()> {
    let path = lab.write(file, text)?;
    let finished = lab.try_apply(&path)?;
    let outcome =
        names_all(&finished, &[&[&*path.to_string_lossy()], words].concat()).and_then(|()| serve(lab, good));
    for name in good {
        lab.delete("service", &format!("default/{name}"))?;
    }
    outcome
}

fn names_all(finished: &Finished, words: &[&str]) -> Result<()> {
    ensure!(!finished.succeeded(), "it was taken without complaint: {finished:?}");
    let found = finished.stderr.lines().any(|line| words.iter().all(|word| line.contains(word)));
    ensure!(found, "no line with all of {words:?} in:\n{}", finished.stderr);
    Ok(())
}

fn serve(lab: &Lab, services: &[&str]) -> Result<()> {
    for name in services {
        let target = lab.service_address(name, Family::V4, 80)?.to_string();
        let echo: Echo = lab.probe(Place::Pod("client"), &["bulk", &target, "--bytes", "1000"])?;
        ensure!(echo.intact == 1000, "service {name}: {echo:?}");
    }
    Ok(())
}

fn malformed_yaml(lab: &Lab) -> Result<()> {
    let text = format!("{}\n---\nkind: Service\nmetadata: [\n---\n{}\n", good("before"), good("after"));
    complained(lab, "broken.yaml", &text, &["malformed YAML", "line 3"], &["before", "after"])
}

/// The lab sorts out what it cannot read; here the controller itself must.
fn malformed_yaml_in_the_controllers_folder(lab: &Lab) -> Result<()> {
    let file = lab.manifests().join("broken.yaml");
    let mut named = good("beside");
    named["spec"]["type"] = json!("ClusterIP");
    fs::write(&file, format!("{named}\n---\nkind: Service\nmetadata: [\n"))?;
    let outcome = lab.settle().and_then(|()| {
        let problems = lab.controller_status()?.problems;
        let named = problems.iter().any(|problem| problem.source.contains("broken.yaml"));
        ensure!(named, "no problem names the file: {problems:?}");
        let target = lab.floating_ips("n1")?.into_iter().find(|fip| fip.name == "default/beside");
        let address = target.ok_or_else(|| anyhow!("what stands beside is not applied"))?.address;
        let target = SocketAddr::new(address, 80).to_string();
        let echo: Echo = lab.probe(Place::Pod("client"), &["bulk", &target, "--bytes", "1000"])?;
        ensure!(echo.intact == 1000, "{target}: {echo:?}");
        Ok(())
    });
    fs::remove_file(&file)?;
    lab.settle()?;
    outcome?;
    ensure!(lab.controller_status()?.problems.is_empty(), "problems stay when their file is gone");
    Ok(())
}

fn an_unknown_kind(lab: &Lab) -> Result<()> {
    let gadget =
        json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "default"}});
    let text = stream(&[good("before"), gadget.clone(), good("after")]);
    let outcome = complained(lab, "gadget.yaml", &text, &["Gadget default/g", "kind"], &["before", "after"]);
    lab.delete("Gadget", "default/g")?;
    outcome
}

fn one_address_for_two_pods(lab: &Lab) -> Result<()> {
    let wanted = "10.244.7.7,fd00:10:244:7::7";
    let pod = |name, node| with_addresses(echo_pod(name, node, lab.programs().probe()), wanted);
    let text = stream(&[pod("first", "n1"), pod("second", "n2"), good("beside")]);
    let words = ["Pod default/second", "vrouter.dev/ip-addresses", "10.244.7.7", "default/first"];
    let outcome = complained(lab, "twice.yaml", &text, &words, &["beside"]).and_then(|()| {
        ensure!(lab.pod("first")?.ips.contains(&"10.244.7.7".parse()?), "{:?}", lab.pod("first")?);
        let echo: Echo = lab.probe(Place::Pod("server"), &["bulk", "10.244.7.7:7000", "--bytes", "1000"])?;
        ensure!(echo.intact == 1000, "{echo:?}");
        Ok(())
    });
    for name in ["first", "second"] {
        lab.delete("pod", &format!("default/{name}"))?;
    }
    outcome
}

fn a_port_out_of_range(lab: &Lab) -> Result<()> {
    let mut bad = good("bad");
    bad["spec"]["ports"][0]["port"] = json!(70_000);
    let text = stream(&[good("before"), bad, good("after")]);
    let words = ["Service default/bad", "spec.ports[0].port", "70000"];
    let outcome = complained(lab, "port.yaml", &text, &words, &["before", "after"]);
    lab.delete("service", "default/bad")?;
    outcome
}

fn a_cluster_address_out_of_range(lab: &Lab) -> Result<()> {
    let mut bad = good("bad");
    bad["spec"]["clusterIP"] = json!("192.0.2.1");
    let text = stream(&[bad, good("beside")]);
    let words = ["Service default/bad", "spec.clusterIP", "192.0.2.1"];
    let outcome = complained(lab, "address.yaml", &text, &words, &["beside"]);
    lab.delete("service", "default/bad")?;
    eventually(Duration::from_secs(5), || {
        let problems = lab.controller_status()?.problems;
        ensure!(problems.is_empty(), "problems stay when their object is gone: {problems:?}");
        Ok(())
    })?;
    outcome
}

/// As tutorials still have it: no selector, and a version that API servers no longer serve.
fn an_older_api_version_is_read_with_a_note(lab: &Lab) -> Result<()> {
    let text = "
apiVersion: apps/v1beta1
kind: Deployment
metadata: {name: redis}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: redis}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: redis, image: redis, ports: [{containerPort: 6379, name: redis}]}]
---
apiVersion: v1
kind: Service
metadata: {name: redis}
spec:
  ports: [{port: 6379}]
  selector: {app: redis}
";
    let file = lab.write("redis.yaml", text)?;
    let finished = lab.try_apply(&file)?.success()?;
    let outcome = ask(lab, "client", lab.service_address("redis", Family::V4, 6379)?, 50);
    lab.delete_file(&file)?;
    let noted = finished.stderr.lines().find(|line| line.starts_with("note:"));
    let noted =
        noted.is_some_and(|line| line.contains("Deployment default/redis") && line.contains("apps/v1"));
    ensure!(noted, "no note in {:?}", finished.stderr);
    ensure!(outcome?.members.len() == 2, "not both pods serve");
    Ok(())
}
