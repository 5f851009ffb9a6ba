//! One pod's interface, attached to this node.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vrouter_forward::frame::PortId;
use vrouter_objects::{LinkLocal, MacAddress, PodName, Vmi, VmiId, VmiKind, VrfId};
use vrouter_proto::convert::mac_to_bytes;
use vrouter_proto::v1;

/// What is remembered of an interface for as long as it is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The interface.
    pub vmi: VmiId,
    /// Whose it is.
    pub pod: PodName,
    /// The pod's UID, empty where the runtime gave none.
    pub uid: String,
    /// What the container runtime calls it.
    pub interface: ContainerInterface,
    /// Where its device is.
    pub netns: NetworkNamespace,
    /// The name of the CNI network configuration that it was attached by.
    pub configuration: String,
    /// The network it is in.
    pub vrf: VrfId,
    /// Whose addresses it has: those of its network, or of the one that this shares its subnets with. It is kept here, as
    /// the network may be gone from the tables before the interface is.
    pub address_space: VrfId,
    /// Who said that it is to be so.
    pub assigned_by: AssignedBy,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its addresses, at most one per family.
    pub addresses: Vec<IpAddr>,
    /// Its addresses for this node alone; `None`: it has none.
    pub link_local: Option<LinkLocal>,
    /// Its port of the data path.
    pub port: PortId,
    /// The largest IP packet it takes.
    pub mtu: u16,
}

/// Who said what an interface gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssignedBy {
    /// The controller, by the pod's binding, which names its policies too.
    Controller,
    /// The node itself, while no controller could be asked.
    #[default]
    Node,
}

/// What the container runtime calls an interface: unique for as long as it lives, and the same in every later call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerInterface {
    /// The sandbox's id.
    pub container_id: String,
    /// The interface's name inside it.
    pub name: String,
}

impl fmt::Display for ContainerInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of container {}", self.name, self.container_id)
    }
}

/// A network namespace that is bound to a path. The inode tells it from a later one at the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkNamespace {
    /// Where it is bound.
    pub path: PathBuf,
    /// The namespace's own number.
    pub inode: u64,
}

impl NetworkNamespace {
    /// The namespace that is bound to this path now.
    pub fn at(path: &Path) -> io::Result<Self> {
        let inode = fs::metadata(path)?.ino();
        Ok(Self { path: path.to_owned(), inode })
    }

    /// The one that this process is in.
    pub fn own() -> io::Result<Self> {
        Self::at(Path::new("/proc/self/ns/net"))
    }

    /// Whether it is still the one at its path.
    pub fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode)
    }
}

impl Attachment {
    /// The addresses by which this node reaches it.
    pub fn link_local_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.link_local.iter().flat_map(|own| own.addresses.iter().copied())
    }

    /// As the forwarding tables hold it.
    pub fn vmi(&self) -> Vmi {
        Vmi {
            id: self.vmi,
            name: self.pod.to_string(),
            uid: self.uid.clone(),
            kind: VmiKind::Pod,
            vrf: self.vrf,
            mac: self.mac,
            addresses: self.addresses.clone(),
            link_local: self.link_local.clone(),
            mtu: self.mtu,
        }
    }
}

impl From<&Attachment> for v1::Attachment {
    fn from(attachment: &Attachment) -> Self {
        Self {
            vmi: attachment.vmi.get(),
            pod: Some((&attachment.pod).into()),
            uid: attachment.uid.clone(),
            container_id: attachment.interface.container_id.clone(),
            interface: attachment.interface.name.clone(),
            vrf: attachment.vrf.get(),
            mac: mac_to_bytes(attachment.mac),
            addresses: attachment.addresses.iter().map(|address| (*address).into()).collect(),
            link_local: attachment.link_local_addresses().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The attachment of pod `default/web-N`.
    pub(crate) fn attachment(number: u8) -> Attachment {
        Attachment {
            vmi: VmiId::new(number.into()).unwrap(),
            pod: format!("default/web-{number}").parse().unwrap(),
            uid: format!("uid-{number}"),
            interface: ContainerInterface {
                container_id: format!("container-{number}"),
                name: "eth0".to_owned(),
            },
            netns: NetworkNamespace { path: "/proc/self/ns/net".into(), inode: 1 },
            configuration: "pods".to_owned(),
            vrf: VrfId::new(1).unwrap(),
            address_space: VrfId::new(1).unwrap(),
            assigned_by: AssignedBy::Node,
            mac: MacAddress::local(0x50, number.into()),
            addresses: vec![IpAddr::from([10, 244, 0, number])],
            link_local: None,
            port: PortId(number.into()),
            mtu: 1450,
        }
    }

    #[test]
    fn a_namespace_is_known_by_its_inode() {
        let now = NetworkNamespace::at(Path::new("/proc/self/ns/net")).unwrap();
        assert!(now.is_there());
        assert!(!NetworkNamespace { inode: now.inode + 1, ..now.clone() }.is_there());
        assert!(!NetworkNamespace { path: "/proc/self/ns/none".into(), ..now }.is_there());
    }
}
