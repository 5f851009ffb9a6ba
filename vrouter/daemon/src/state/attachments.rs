//! The attachments, as a JSON file that people can read too.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vrouter_forward::frame::PortId;
use vrouter_objects::{LinkLocal, ObjectError, PodName, VmiId, VrfId};

use super::{StateError, file};
use crate::attachment::{AssignedBy, Attachment, ContainerInterface, NetworkNamespace};

/// The file of the attachments.
#[derive(Debug, Clone)]
pub struct AttachmentFile {
    path: PathBuf,
}

/// What the file holds.
#[derive(Debug, Default)]
pub struct LoadedAttachments {
    /// The boot of the machine they were made in.
    pub boot_id: String,
    /// The attachments.
    pub attachments: Vec<Attachment>,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    boot_id: String,
    attachments: Vec<Record>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    vmi: u32,
    pod: String,
    uid: String,
    container_id: String,
    interface: String,
    netns: PathBuf,
    netns_inode: u64,
    configuration: String,
    vrf: u32,
    /// `None`: it was attached when every network had addresses of its own.
    #[serde(default)]
    address_space: Option<u32>,
    #[serde(default)]
    assigned_by: AssignedBy,
    mac: String,
    addresses: Vec<IpAddr>,
    /// `None`: it has none, or is from before there were any.
    #[serde(default)]
    link_local: Option<LinkLocalRecord>,
    port: u16,
    mtu: u16,
}

#[derive(Serialize, Deserialize)]
struct LinkLocalRecord {
    vrf: u32,
    addresses: Vec<IpAddr>,
}

impl AttachmentFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Replaces the file.
    pub fn store<'a>(
        &self,
        boot_id: &str,
        attachments: impl Iterator<Item = &'a Attachment>,
    ) -> Result<(), StateError> {
        let contents =
            Contents { boot_id: boot_id.to_owned(), attachments: attachments.map(Record::from).collect() };
        let contents =
            serde_json::to_vec_pretty(&contents).map_err(|e| StateError::corrupt(&self.path, e))?;
        file::replace(&self.path, &contents)
    }

    /// What was stored last; empty where nothing was.
    pub fn load(&self) -> Result<LoadedAttachments, StateError> {
        let Some(contents) = file::read(&self.path)? else { return Ok(LoadedAttachments::default()) };
        let contents: Contents =
            serde_json::from_slice(&contents).map_err(|error| StateError::corrupt(&self.path, error))?;
        let attachments = contents.attachments.into_iter().map(Attachment::try_from);
        let attachments = attachments.collect::<Result<_, _>>();
        let attachments = attachments.map_err(|error| StateError::corrupt(&self.path, error))?;
        Ok(LoadedAttachments { boot_id: contents.boot_id, attachments })
    }
}

impl From<&Attachment> for Record {
    fn from(attachment: &Attachment) -> Self {
        Self {
            vmi: attachment.vmi.get(),
            pod: attachment.pod.to_string(),
            uid: attachment.uid.clone(),
            container_id: attachment.interface.container_id.clone(),
            interface: attachment.interface.name.clone(),
            netns: attachment.netns.path.clone(),
            netns_inode: attachment.netns.inode,
            configuration: attachment.configuration.clone(),
            vrf: attachment.vrf.get(),
            address_space: Some(attachment.address_space.get()),
            assigned_by: attachment.assigned_by,
            mac: attachment.mac.to_string(),
            addresses: attachment.addresses.clone(),
            link_local: attachment.link_local.as_ref().map(LinkLocalRecord::from),
            port: attachment.port.0,
            mtu: attachment.mtu,
        }
    }
}

impl TryFrom<Record> for Attachment {
    type Error = ObjectError;

    fn try_from(record: Record) -> Result<Self, ObjectError> {
        Ok(Self {
            vmi: VmiId::new(record.vmi)?,
            pod: record.pod.parse::<PodName>()?,
            uid: record.uid,
            interface: ContainerInterface { container_id: record.container_id, name: record.interface },
            netns: NetworkNamespace { path: record.netns, inode: record.netns_inode },
            configuration: record.configuration,
            vrf: VrfId::new(record.vrf)?,
            address_space: VrfId::new(record.address_space.unwrap_or(record.vrf))?,
            assigned_by: record.assigned_by,
            mac: record.mac.parse()?,
            addresses: record.addresses,
            link_local: record.link_local.map(LinkLocal::try_from).transpose()?,
            port: PortId(record.port),
            mtu: record.mtu,
        })
    }
}

impl From<&LinkLocal> for LinkLocalRecord {
    fn from(link_local: &LinkLocal) -> Self {
        Self { vrf: link_local.vrf.get(), addresses: link_local.addresses.clone() }
    }
}

impl TryFrom<LinkLocalRecord> for LinkLocal {
    type Error = ObjectError;

    fn try_from(record: LinkLocalRecord) -> Result<Self, ObjectError> {
        Ok(Self { vrf: VrfId::new(record.vrf)?, addresses: record.addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::tests::attachment;

    #[test]
    fn stored_and_loaded() {
        let directory = tempfile::tempdir().unwrap();
        let file = AttachmentFile::new(directory.path().join("attachments.json"));
        assert!(file.load().unwrap().attachments.is_empty());
        let addresses = vec!["169.254.64.1".parse().unwrap(), "fd00:169:254::1".parse().unwrap()];
        let link_local = Some(LinkLocal { vrf: VrfId::new(6).unwrap(), addresses });
        let attachments = [Attachment { link_local, ..attachment(1) }, attachment(2)];
        file.store("boot", attachments.iter()).unwrap();
        let loaded = file.load().unwrap();
        assert_eq!(
            (loaded.boot_id.as_str(), loaded.attachments.as_slice()),
            ("boot", attachments.as_slice())
        );
        std::fs::write(&file.path, "{}").unwrap();
        assert!(file.load().unwrap_err().to_string().contains("attachments.json is corrupt"));
    }

    #[test]
    fn a_file_from_before_there_were_tenants_and_link_local_addresses_is_understood() {
        let directory = tempfile::tempdir().unwrap();
        let file = AttachmentFile::new(directory.path().join("attachments.json"));
        let before = r#"{"boot_id": "boot", "attachments": [{
            "vmi": 1, "pod": "default/web-1", "uid": "uid-1", "container_id": "container-1",
            "interface": "eth0", "netns": "/proc/self/ns/net", "netns_inode": 1, "configuration": "pods",
            "vrf": 1, "mac": "02:50:00:00:00:01", "addresses": ["10.244.0.1"], "port": 1, "mtu": 1450
        }]}"#;
        std::fs::write(&file.path, before).unwrap();
        assert_eq!(file.load().unwrap().attachments, [attachment(1)]);
    }
}
