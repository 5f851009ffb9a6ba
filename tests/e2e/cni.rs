//! The CNI plugin, called as a container runtime calls it.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use vrouter_tests::cni::{Failure, Sandbox};
use vrouter_tests::command::eventually;
use vrouter_tests::lab::{Lab, Place, Programs, Shape};
use vrouter_tests::manifest::{idle_pod, with_addresses};

use crate::away::Away;
use crate::group::{Group, cases};

pub const GROUP: Group = Group {
    name: "cni",
    shape: Shape { nodes: 2, kernel_nodes: 0 },
    objects,
    cases: cases![
        versions_are_told,
        status_tells_whether_pods_can_be_attached,
        attached_checked_and_detached,
        check_notices_what_is_missing,
        garbage_is_collected,
        cni_2_no_address_left_leaves_nothing_behind,
        cni_3_killed_at_any_point_frees_everything,
        cni_4_a_late_del_leaves_the_newer_sandbox_alone,
        cni_5_an_address_given_again_leads_to_the_new_pod,
        cni_6_an_address_moves_to_another_node,
        cni_7_an_ipv6_address_is_usable_at_once,
    ],
};

/// A node whose block has two addresses.
const SMALL: &str = "n2";
const SMALL_BLOCK: &str = "10.244.77.0/30";
const STATIC: &str = "10.244.66.6,fd00:10:244:66::6";
const STATIC_V4: &str = "10.244.66.6";

fn objects(_: &Programs) -> Vec<Value> {
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": SMALL},
        "spec": {"podCIDR": SMALL_BLOCK, "podCIDRs": [SMALL_BLOCK]},
    });
    vec![node, idle_pod("client", "n1")]
}

/// A Pod object that the controller sees and the lab does not run, for as long as this lives.
struct Declared<'a> {
    lab: &'a Lab,
    name: &'a str,
}

impl<'a> Declared<'a> {
    fn new(lab: &'a Lab, name: &'a str, node: &str) -> Result<Self> {
        Self::show(lab, name, idle_pod(name, node))
    }

    fn with_static_address(lab: &'a Lab, name: &'a str, node: &str) -> Result<Self> {
        Self::show(lab, name, with_addresses(idle_pod(name, node), STATIC))
    }

    fn show(lab: &'a Lab, name: &'a str, pod: Value) -> Result<Self> {
        let declared = Self { lab, name };
        fs::write(declared.file(), pod.to_string())?;
        lab.settle()?;
        Ok(declared)
    }

    fn file(&self) -> std::path::PathBuf {
        self.lab.manifests().join(format!("declared-{}.yaml", self.name))
    }
}

impl Drop for Declared<'_> {
    fn drop(&mut self) {
        // What cannot be removed now goes with the lab.
        let _ = fs::remove_file(self.file());
        let _ = self.lab.settle();
    }
}

fn address(answer: &Value) -> Result<IpAddr> {
    let text = answer.pointer("/ips/0/address").and_then(Value::as_str);
    let text = text.ok_or_else(|| anyhow!("no address in {answer}"))?;
    Ok(text.split('/').next().unwrap_or(text).parse()?)
}

/// One question from the client, which must be answered.
fn answers(lab: &Lab, address: &str) -> Result<()> {
    let words = ["ping", "-n", "-c", "1", "-W", "1", address];
    lab.exec(Place::Pod("client"), &words)?.success().map(drop)
}

fn container_ids(lab: &Lab, node: &str) -> Result<Vec<String>> {
    let all = lab.interfaces(node)?.into_iter().map(|interface| interface.container_id);
    // The node's own interface belongs to no container.
    Ok(all.filter(|id| !id.is_empty()).collect())
}

fn versions_are_told(lab: &Lab) -> Result<()> {
    let sandbox = Sandbox::new(lab, "n1", "any")?;
    let told: Value = sandbox.call("VERSION", &[])?.success()?.json()?;
    let versions = told["supportedVersions"].as_array().context("supportedVersions")?;
    ensure!(versions.contains(&json!("1.1.0")) && versions.contains(&json!("1.0.0")), "{told}");
    let failure: Failure = sandbox.call("ADD", &[("cniVersion", json!("9.0.0"))])?.json()?;
    ensure!(failure.code == 1, "{failure:?}");
    Ok(())
}

fn status_tells_whether_pods_can_be_attached(lab: &Lab) -> Result<()> {
    let sandbox = Sandbox::new(lab, "n2", "any")?;
    sandbox.call("STATUS", &[])?.success()?;
    let away = Away::begin(lab, "n2", Lab::stop)?;
    let failure: Failure = sandbox.call("STATUS", &[])?.json()?;
    away.back()?;
    ensure!(matches!(failure.code, 50 | 51), "{failure:?}");
    sandbox.call("STATUS", &[])?.success().map(drop)
}

fn attached_checked_and_detached(lab: &Lab) -> Result<()> {
    let _pod = Declared::new(lab, "checked", "n1")?;
    let sandbox = Sandbox::new(lab, "n1", "checked")?;
    let answer = sandbox.add()?;
    ensure!(answer["cniVersion"] == "1.1.0" && answer["interfaces"][0]["name"] == "eth0", "{answer}");
    ensure!(sandbox.add()? == answer, "a repeated ADD answers otherwise");
    answers(lab, &address(&answer)?.to_string())?;
    sandbox.call("CHECK", &[("prevResult", answer)])?.success()?;
    sandbox.del()?;
    ensure!(sandbox.links()? == ["lo"], "left behind: {:?}", sandbox.links()?);
    ensure!(!container_ids(lab, "n1")?.contains(&sandbox.container_id), "its interface is still there");
    sandbox.del().context("a repeated DEL")
}

fn check_notices_what_is_missing(lab: &Lab) -> Result<()> {
    let _pod = Declared::new(lab, "damaged", "n1")?;
    let sandbox = Sandbox::new(lab, "n1", "damaged")?;
    let answer = sandbox.add()?;
    sandbox.exec(&["ip", "-4", "addr", "flush", "dev", "eth0"])?.success()?;
    let checked = sandbox.call("CHECK", &[("prevResult", answer)])?;
    ensure!(!checked.succeeded(), "CHECK finds nothing: {checked:?}");
    let failure: Failure = checked.json()?;
    ensure!(failure.details.contains("address"), "{failure:?}");
    Ok(())
}

fn garbage_is_collected(lab: &Lab) -> Result<()> {
    let _pods = [Declared::new(lab, "kept", "n1")?, Declared::new(lab, "garbage", "n1")?];
    let (kept, garbage) = (Sandbox::new(lab, "n1", "kept")?, Sandbox::new(lab, "n1", "garbage")?);
    let kept_address = address(&kept.add()?)?;
    garbage.add()?;
    let known = container_ids(lab, "n1")?.into_iter().filter(|id| *id != garbage.container_id);
    let valid: Vec<_> = known.map(|id| json!({"containerID": id, "ifname": "eth0"})).collect();
    kept.call("GC", &[("cni.dev/valid-attachments", json!(valid))])?.success()?;
    let left = container_ids(lab, "n1")?;
    ensure!(!left.contains(&garbage.container_id) && left.contains(&kept.container_id), "{left:?}");
    ensure!(garbage.links()? == ["lo"], "left behind: {:?}", garbage.links()?);
    answers(lab, &kept_address.to_string())
}

fn cni_2_no_address_left_leaves_nothing_behind(lab: &Lab) -> Result<()> {
    let _pods = [
        Declared::new(lab, "one", SMALL)?,
        Declared::new(lab, "two", SMALL)?,
        Declared::new(lab, "three", SMALL)?,
    ];
    let (one, two) = (Sandbox::new(lab, SMALL, "one")?, Sandbox::new(lab, SMALL, "two")?);
    let three = Sandbox::new(lab, SMALL, "three")?;
    one.add()?;
    two.add()?;
    let before = lab.interfaces(SMALL)?.len();
    let refused = three.call("ADD", &[])?;
    ensure!(!refused.succeeded(), "it got an address: {refused:?}");
    let failure: Failure = refused.json()?;
    ensure!(format!("{} {}", failure.msg, failure.details).contains(SMALL_BLOCK), "{failure:?}");
    ensure!(three.links()? == ["lo"], "left behind: {:?}", three.links()?);
    ensure!(lab.interfaces(SMALL)?.len() == before, "an interface was left behind");
    one.del()?;
    three.add().map(drop)
}

fn cni_3_killed_at_any_point_frees_everything(lab: &Lab) -> Result<()> {
    let _pods = [Declared::new(lab, "killed", SMALL)?, Declared::new(lab, "other", SMALL)?];
    for milliseconds in [1, 3, 6, 10, 15, 25, 40, 80] {
        let killed = Sandbox::new(lab, SMALL, "killed")?;
        killed.add_killed_after(Duration::from_millis(milliseconds))?;
        killed.del().with_context(|| format!("killed after {milliseconds} ms"))?;
        // What was asked for before the kill may still be on its way through the vRouter.
        eventually(Duration::from_secs(3), || {
            killed.del()?;
            ensure!(killed.links()? == ["lo"], "left behind: {:?}", killed.links()?);
            ensure!(
                !container_ids(lab, SMALL)?.contains(&killed.container_id),
                "its interface is still there"
            );
            Ok(())
        })
        .with_context(|| format!("killed after {milliseconds} ms"))?;
    }
    let (one, two) = (Sandbox::new(lab, SMALL, "killed")?, Sandbox::new(lab, SMALL, "other")?);
    one.add()?;
    two.add().context("the pool is not full again").map(drop)
}

fn cni_4_a_late_del_leaves_the_newer_sandbox_alone(lab: &Lab) -> Result<()> {
    let _pod = Declared::new(lab, "renewed", "n1")?;
    let (old, new) = (Sandbox::new(lab, "n1", "renewed")?, Sandbox::new(lab, "n1", "renewed")?);
    old.add()?;
    let address = address(&new.add()?)?.to_string();
    old.del()?;
    answers(lab, &address)?;
    old.del()?;
    answers(lab, &address)?;
    ensure!(container_ids(lab, "n1")?.contains(&new.container_id), "the newer sandbox is detached");
    Ok(())
}

/// Attaches a pod with the static address on a node, and asks it once.
fn attach_static(lab: &Lab, pod: &str, node: &str) -> Result<String> {
    let _declared = Declared::with_static_address(lab, pod, node)?;
    let sandbox = Sandbox::new(lab, node, pod)?;
    let answer = sandbox.add()?;
    ensure!(address(&answer)? == STATIC_V4.parse::<IpAddr>()?, "{answer}");
    lab.settle()?;
    answers(lab, STATIC_V4)?;
    sandbox.del()?;
    Ok(answer["interfaces"][0]["mac"].to_string())
}

fn cni_5_an_address_given_again_leads_to_the_new_pod(lab: &Lab) -> Result<()> {
    let macs = [attach_static(lab, "former", "n1")?, attach_static(lab, "latter", "n1")?];
    ensure!(macs[0] != macs[1], "both had the MAC address {}", macs[0]);
    Ok(())
}

fn cni_6_an_address_moves_to_another_node(lab: &Lab) -> Result<()> {
    attach_static(lab, "here", "n1")?;
    attach_static(lab, "there", "n2")?;
    attach_static(lab, "here-again", "n1").map(drop)
}

fn cni_7_an_ipv6_address_is_usable_at_once(lab: &Lab) -> Result<()> {
    let _pod = Declared::new(lab, "quick", "n1")?;
    let sandbox = Sandbox::new(lab, "n1", "quick")?;
    let answer = sandbox.add()?;
    let ips = answer["ips"].as_array().context("ips")?;
    let address =
        ips.iter().filter_map(|ip| ip["address"].as_str()?.strip_suffix("/128")).next().context("no IPv6")?;
    let probe = lab.programs().probe().to_string_lossy();
    sandbox.exec(&[&probe, "bind", address])?.success()?;
    let shown = sandbox.exec(&["ip", "-6", "addr", "show", "dev", "eth0", "scope", "global"])?.stdout;
    ensure!(shown.contains("nodad") && !shown.contains("tentative"), "{shown}");
    Ok(())
}
