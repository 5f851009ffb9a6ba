//! From messages of nodes to domain types, checked.

use std::net::IpAddr;

use tonic::Status;
use vrouter_control_model::{Attachment, NamespacedName};
use vrouter_objects::{ObjectKey, PodName, Version, VmiId, VrfId};
use vrouter_proto::{Digest, convert, v1};

use crate::core::{Hello, MAX_HELD_VERSION, NodeMessage};

/// What a node says first.
pub fn hello(message: v1::Hello) -> Result<Hello, Status> {
    if message.node.is_empty() {
        return Err(Status::invalid_argument("hello: node: is empty"));
    }
    let version = Version(message.version);
    if version > MAX_HELD_VERSION {
        return Err(Status::invalid_argument(format!("hello: version: {version} was never sent")));
    }
    Ok(Hello {
        node: message.node,
        boot_id: message.boot_id,
        version,
        digest: digest("hello", &message.digest)?,
        attachments: message.attachments.into_iter().map(attachment).collect::<Result<_, _>>()?,
    })
}

/// What a node says later.
pub fn node_message(message: v1::NodeMessage) -> Result<NodeMessage, Status> {
    use v1::node_message::Kind;
    match message.kind {
        Some(Kind::Applied(message)) => Ok(NodeMessage::Applied {
            version: Version(message.version),
            digest: digest("applied", &message.digest)?,
            refusals: message.refusals.into_iter().map(refusal).collect::<Result<_, _>>()?,
        }),
        Some(Kind::Attachment(report)) => {
            let missing = || Status::invalid_argument("attachment report: attachment: is missing");
            attachment(report.attachment.ok_or_else(missing)?).map(NodeMessage::Attached)
        }
        Some(Kind::Detached(message)) => VmiId::new(message.vmi)
            .map(NodeMessage::Detached)
            .map_err(|error| invalid("detached: vmi", error)),
        Some(Kind::Synced(message)) => Ok(NodeMessage::Synced(message.token)),
        Some(Kind::Hello(_)) => Err(Status::invalid_argument("a second hello on one stream")),
        None => Err(Status::invalid_argument("a node message without content")),
    }
}

fn refusal(message: v1::Refusal) -> Result<(ObjectKey, String), Status> {
    let missing = || Status::invalid_argument("refusal: object: is missing");
    let key =
        message.object.ok_or_else(missing)?.try_into().map_err(|error| invalid("refusal: object", error))?;
    Ok((key, message.reason))
}

fn attachment(message: v1::Attachment) -> Result<Attachment, Status> {
    let field = |name: &str| format!("attachment of vmi {}: {name}", message.vmi);
    let missing = |name| Status::invalid_argument(format!("{}: is missing", field(name)));
    let pod: PodName = message
        .pod
        .clone()
        .ok_or_else(|| missing("pod"))?
        .try_into()
        .map_err(|error| invalid(&field("pod"), error))?;
    let addresses = |name, list: &[v1::Address]| {
        let addresses = list.iter().map(IpAddr::try_from).collect::<Result<Vec<_>, _>>();
        addresses.map_err(|error| invalid(&field(name), error))
    };
    Ok(Attachment {
        vmi: VmiId::new(message.vmi).map_err(|error| invalid(&field("vmi"), error))?,
        pod: NamespacedName::from(pod),
        vrf: VrfId::new(message.vrf).map_err(|error| invalid(&field("vrf"), error))?,
        mac: convert::mac_from_bytes(&message.mac).map_err(|error| invalid(&field("mac"), error))?,
        addresses: addresses("addresses", &message.addresses)?,
        link_local: addresses("link_local", &message.link_local)?,
        uid: message.uid,
        container_id: message.container_id,
        interface: message.interface,
    })
}

/// No bytes at all are the digest of nothing.
fn digest(place: &str, bytes: &[u8]) -> Result<Digest, Status> {
    if bytes.is_empty() {
        return Ok(Digest::default());
    }
    Digest::from_bytes(bytes).ok_or_else(|| {
        Status::invalid_argument(format!("{place}: digest: has {} bytes and not 16", bytes.len()))
    })
}

fn invalid(field: &str, error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("{field}: {error}"))
}
