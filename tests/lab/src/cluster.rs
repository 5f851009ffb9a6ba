//! What only the controller knows: which addresses it gave to services and nodes.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::controller::{self, Inspector};
use crate::kernel_node::Peer;
use crate::lab;
use crate::name::LabName;
use crate::object::Name;

/// The Services among the manifests.
pub fn services(name: &LabName) -> Result<Vec<Value>> {
    let directory = lab::manifests(name);
    let mut files: Vec<_> = fs::read_dir(&directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("Service_")));
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            serde_yaml_ng::from_str(&text).with_context(|| path.display().to_string())
        })
        .collect()
}

/// The cluster addresses of each Service, IPv4 first.
pub fn addresses(name: &LabName) -> Result<BTreeMap<Name, Vec<IpAddr>>> {
    let mut found: BTreeMap<Name, Vec<IpAddr>> = BTreeMap::new();
    for object in Inspector::connect(&controller::socket(name))?.objects("floating-ip")? {
        if let (Some(service), Some(address)) = (service_of(&object), address_of(&object)) {
            found.entry(service).or_default().push(address);
        }
    }
    for addresses in found.values_mut() {
        addresses.sort_by_key(|address| (address.is_ipv6(), *address));
        addresses.dedup();
    }
    Ok(found)
}

/// The other ends of a kernel node's tunnels: every node the controller knows, by name.
pub fn peers(name: &LabName) -> Result<BTreeMap<String, Peer>> {
    let objects = Inspector::connect(&controller::socket(name))?.objects("virtual-router")?;
    Ok(objects.iter().filter_map(peer).collect())
}

fn service_of(object: &Value) -> Option<Name> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    Some(Name::new(text("/metadata/namespace")?, text("/metadata/labels/service")?))
}

fn address_of(object: &Value) -> Option<IpAddr> {
    object.pointer("/spec/address")?.as_str()?.parse().ok()
}

fn peer(object: &Value) -> Option<(String, Peer)> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let blocks = object.pointer("/status/blocks")?.as_array()?;
    let peer = Peer {
        address: text("/spec/address")?.parse().ok()?,
        mac: text("/spec/mac")?.to_owned(),
        blocks: blocks.iter().filter_map(|block| block.as_str()?.parse().ok()).collect(),
    };
    Some((text("/metadata/name")?.to_owned(), peer))
}
