//! TAP interfaces, in a namespace of their own.

mod support;

use support::{Namespace, are_we_root};
use vrouter_io::{Tap, TapSpec};
use vrouter_objects::MacAddress;

fn spec(namespace: &Namespace) -> TapSpec {
    TapSpec {
        netns: Some(namespace.path()),
        name: "tap0".to_owned(),
        queues: 2,
        mac: MacAddress::local(0x50, 7),
        mtu: 1430,
    }
}

#[test]
fn a_tap_is_made_kept_attached_to_and_removed() {
    if !are_we_root() {
        return;
    }
    let namespace = Namespace::new("tap");
    let spec = spec(&namespace);
    let setting = |name: &str| {
        let path = format!("/sys/class/net/tap0/{name}");
        let output = namespace.output(&format!("cat {path}"));
        output.trim().to_owned()
    };
    let tap = Tap::open(&spec).unwrap();
    assert_eq!((tap.name(), tap.queues()), ("tap0", 2));
    assert_eq!((setting("address"), setting("mtu")), (spec.mac.to_string(), "1430".to_owned()));
    namespace.ip("link set tap0 up");
    namespace.ip("addr add 10.0.0.1/24 dev tap0");

    drop(tap);
    assert!(namespace.output("ip addr show tap0").contains("10.0.0.1"), "it went with its descriptors");
    let again = Tap::open(&spec).unwrap();
    assert!(namespace.output("ip addr show tap0").contains("10.0.0.1"), "it was made anew");

    Tap::remove(&spec).unwrap();
    drop(again);
    assert!(!namespace.succeeds("ip link show tap0"));
    Tap::remove(&spec).unwrap();
    assert!(!namespace.succeeds("ip link show tap0"));
}

#[test]
fn what_goes_wrong_is_named() {
    if !are_we_root() {
        return;
    }
    let namespace = Namespace::new("tap");
    let spec = spec(&namespace);
    let of_another_kind = "ip link add tap0 type dummy";
    // Some kernels have no dummy devices; a veth is no TAP either.
    if !namespace.succeeds(of_another_kind) {
        namespace.ip("link add tap0 type veth peer name tap1");
    }
    let error = Tap::open(&spec).unwrap_err().to_string();
    assert!(error.starts_with("TAP tap0: opening a queue: "), "{error}");

    let gone = TapSpec { netns: Some("/run/netns/vrio-not-there".into()), ..spec };
    let error = Tap::open(&gone).unwrap_err().to_string();
    assert!(error.contains("/run/netns/vrio-not-there"), "{error}");
    Tap::remove(&gone).unwrap();
}
