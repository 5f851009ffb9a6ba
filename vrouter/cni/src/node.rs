//! The vRouter's local API, as the plugin calls it.

use std::path::Path;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use vrouter_proto::convert::mac_from_bytes;
use vrouter_proto::v1;
use vrouter_proto::v1::node_client::NodeClient;

use crate::error::CniError;
use crate::invocation::{Interface, Pod};
use crate::pod::PodInterface;

/// Longer than the vRouter itself waits for its controller, shorter than any runtime waits for a plugin.
const PATIENCE: Duration = Duration::from_secs(30);

/// The vRouter of this node.
pub struct Node {
    client: NodeClient<Channel>,
}

impl Node {
    /// Connects to the socket.
    pub async fn connect(socket: &Path) -> Result<Self, CniError> {
        let channel = vrouter_proto::connect(socket).await.map_err(|error| CniError::NotRunning {
            socket: socket.display().to_string(),
            problem: error.to_string(),
        })?;
        Ok(Self { client: NodeClient::new(channel) })
    }

    /// Makes and attaches the interface.
    pub async fn attach(
        &mut self,
        network: &str,
        interface: &Interface,
        netns: &Path,
        pod: &Pod,
    ) -> Result<PodInterface, CniError> {
        let request = v1::AttachRequest {
            pod: Some((&pod.name).into()),
            uid: pod.uid.clone(),
            container_id: interface.container_id.clone(),
            interface: interface.name.clone(),
            netns: netns.display().to_string(),
            configuration: network.to_owned(),
        };
        read(self.client.attach(patient(request)).await?.into_inner())
    }

    /// Undoes that.
    pub async fn detach(&mut self, interface: &Interface) -> Result<(), CniError> {
        self.client.detach(patient(named(interface))).await?;
        Ok(())
    }

    /// What is attached.
    pub async fn check(&mut self, interface: &Interface) -> Result<PodInterface, CniError> {
        read(self.client.check_attachment(patient(named(interface))).await?.into_inner())
    }

    /// Detaches everything else of a network.
    pub async fn collect_garbage(&mut self, network: &str, valid: &[Interface]) -> Result<u32, CniError> {
        let valid = valid.iter().map(named).collect();
        let request = v1::CollectGarbageRequest { valid, configuration: network.to_owned() };
        Ok(self.client.collect_garbage(patient(request)).await?.into_inner().removed)
    }

    /// How the vRouter is.
    pub async fn status(&mut self) -> Result<v1::NodeReport, CniError> {
        Ok(self.client.status(patient(v1::NodeStatusRequest {})).await?.into_inner())
    }
}

fn patient<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(PATIENCE);
    request
}

fn named(interface: &Interface) -> v1::DetachRequest {
    v1::DetachRequest { container_id: interface.container_id.clone(), interface: interface.name.clone() }
}

impl From<Status> for CniError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted => {
                Self::TryLater(message)
            }
            Code::NotFound => Self::Unknown(message),
            _ => Self::Refused(message),
        }
    }
}

/// Reads what was attached.
fn read(reply: v1::AttachReply) -> Result<PodInterface, CniError> {
    let wrong = |field: &str, problem: &str| CniError::Answer(format!("{field} {problem}"));
    let attachment = reply.attachment.ok_or_else(|| wrong("attachment", "is missing"))?;
    if attachment.addresses.is_empty() || attachment.addresses.len() != reply.gateways.len() {
        return Err(wrong("gateways", "are not one for each address"));
    }
    let address = |field: &'static str, address: &v1::Address| {
        std::net::IpAddr::try_from(address).map_err(|error| wrong(field, &error.to_string()))
    };
    let addresses = attachment.addresses.iter().zip(&reply.gateways);
    let addresses =
        addresses.map(|(own, gateway)| Ok((address("addresses", own)?, address("gateways", gateway)?)));
    Ok(PodInterface {
        name: attachment.interface,
        mac: mac_from_bytes(&attachment.mac).map_err(|error| wrong("mac", &error.to_string()))?,
        mtu: reply.mtu,
        addresses: addresses.collect::<Result<_, CniError>>()?,
        gateway_mac: mac_from_bytes(&reply.gateway_mac)
            .map_err(|error| wrong("gateway_mac", &error.to_string()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_makes_no_sense_is_refused() {
        let address = v1::Address { octets: vec![10, 244, 0, 2] };
        let attachment = v1::Attachment {
            addresses: vec![address.clone()],
            mac: vec![2, 0x50, 0, 0, 0, 1],
            interface: "eth0".to_owned(),
            ..Default::default()
        };
        let good = v1::AttachReply {
            attachment: Some(attachment),
            mtu: 1450,
            gateways: vec![address],
            gateway_mac: vec![0, 0, 0x5e, 0, 1, 0],
        };
        assert_eq!(read(good.clone()).unwrap().addresses.len(), 1);
        type Spoil = fn(&mut v1::AttachReply);
        let table: [(Spoil, &str); 4] = [
            (|m| m.attachment = None, "attachment is missing"),
            (|m| m.gateways.clear(), "gateways are not one for each address"),
            (|m| m.gateway_mac.clear(), "gateway_mac is a MAC address of 0 bytes"),
            (|m| m.gateways[0].octets.clear(), "gateways is an address of 0 bytes"),
        ];
        for (spoil, expected) in table {
            let mut reply = good.clone();
            spoil(&mut reply);
            let error = read(reply).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_the_vrouter_says_has_its_code() {
        for (code, expected) in [
            (Code::Unavailable, 11),
            (Code::ResourceExhausted, 11),
            (Code::NotFound, 3),
            (Code::FailedPrecondition, 100),
            (Code::Internal, 100),
        ] {
            assert_eq!(CniError::from(Status::new(code, "why")).code(), expected, "{code:?}");
        }
    }
}
