//! What ADD answers, in the shape of the version asked for.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::configuration::Configuration;
use crate::pod::PodInterface;
use crate::version::SpecVersion;

/// The answer to ADD.
pub fn document(configuration: &Configuration, interface: &PodInterface, netns: &str) -> Value {
    let version = configuration.version;
    let ips: Vec<_> =
        interface.addresses.iter().map(|(address, gateway)| ip(version, *address, *gateway)).collect();
    let routes: Vec<_> = interface
        .addresses
        .iter()
        .map(|(address, gateway)| {
            let everything = if address.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            json!({ "dst": everything, "gw": gateway })
        })
        .collect();
    let mut made = json!({ "name": interface.name, "mac": interface.mac.to_string(), "sandbox": netns });
    if version >= SpecVersion::V1_1_0 {
        made["mtu"] = interface.mtu.into();
    }
    json!({
        "cniVersion": version.text(),
        "interfaces": [made],
        "ips": ips,
        "routes": routes,
        "dns": configuration.dns,
    })
}

fn ip(version: SpecVersion, address: IpAddr, gateway: IpAddr) -> Value {
    let (family, prefix) = if address.is_ipv4() { ("4", 32) } else { ("6", 128) };
    let mut ip = json!({ "address": format!("{address}/{prefix}"), "gateway": gateway, "interface": 0 });
    if version < SpecVersion::V1_0_0 {
        ip["version"] = family.into();
    }
    ip
}

/// The addresses that an earlier answer gave to this interface, as text.
pub fn addresses(previous: &Value, interface: &str) -> Vec<String> {
    let interfaces = previous["interfaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_ours = |ip: &Value| {
        let index = ip["interface"].as_u64().and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| interfaces.get(index)).is_none_or(|made| made["name"] == interface)
    };
    let ips = previous["ips"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = ips.iter().filter(|ip| is_ours(ip));
    ours.filter_map(|ip| ip["address"].as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use vrouter_objects::MacAddress;

    use super::*;

    fn interface() -> PodInterface {
        PodInterface {
            name: "eth0".to_owned(),
            mac: MacAddress::local(0x50, 1),
            mtu: 1450,
            addresses: vec![
                ("10.244.0.2".parse().unwrap(), "10.244.0.1".parse().unwrap()),
                ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap()),
            ],
            gateway_mac: MacAddress::GATEWAY,
        }
    }

    fn answer(version: &str) -> Value {
        let text =
            format!(r#"{{"cniVersion":"{version}","name":"pods","dns":{{"nameservers":["10.96.0.10"]}}}}"#);
        document(&Configuration::read(&text).unwrap(), &interface(), "/run/netns/web")
    }

    #[test]
    fn answers_have_the_shape_of_their_version() {
        assert_eq!(
            answer("1.1.0"),
            json!({
                "cniVersion": "1.1.0",
                "interfaces": [
                    {"name": "eth0", "mac": "02:50:00:00:00:01", "sandbox": "/run/netns/web", "mtu": 1450}
                ],
                "ips": [
                    {"address": "10.244.0.2/32", "gateway": "10.244.0.1", "interface": 0},
                    {"address": "fd00::2/128", "gateway": "fd00::1", "interface": 0},
                ],
                "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.0.1"}, {"dst": "::/0", "gw": "fd00::1"}],
                "dns": {"nameservers": ["10.96.0.10"]},
            })
        );
        let old = answer("0.4.0");
        assert_eq!((&old["ips"][0]["version"], &old["ips"][1]["version"]), (&json!("4"), &json!("6")));
        assert_eq!(old["interfaces"][0].get("mtu"), None);
        assert_eq!(answer("1.0.0")["ips"][0].get("version"), None);
    }

    #[test]
    fn an_earlier_answer_is_read_again() {
        assert_eq!(addresses(&answer("1.1.0"), "eth0"), ["10.244.0.2/32", "fd00::2/128"]);
        assert!(addresses(&answer("1.1.0"), "eth1").is_empty());
        assert!(addresses(&json!({}), "eth0").is_empty());
    }
}
