//! Who is at the other end of a stream, as far as TLS tells.

use tonic::{Request, Status};
use webpki::EndEntityCert;

/// The other end of a stream.
#[derive(Debug)]
pub enum Peer {
    /// It was let in without a certificate: whatever it says it is, is believed.
    Unknown,
    /// It showed a certificate for these DNS names.
    Certified(Vec<String>),
}

impl Peer {
    /// Who sent a request.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let Some(chain) = request.peer_certs() else { return Ok(Self::Unknown) };
        let own = chain.first().ok_or_else(|| Status::unauthenticated("an empty certificate chain"))?;
        let certificate = EndEntityCert::try_from(own)
            .map_err(|error| Status::unauthenticated(format!("certificate: {error}")))?;
        Ok(Self::Certified(certificate.valid_dns_names().map(str::to_owned).collect()))
    }

    /// Whether it may speak for a node: its certificate must be for the node's name.
    pub fn check(&self, node: &str) -> Result<(), Status> {
        match self {
            Self::Certified(names) if !names.iter().any(|name| name == node) => {
                Err(Status::permission_denied(format!(
                    "hello: node: the certificate is for DNS names {names:?} and not for {node}"
                )))
            }
            Self::Certified(_) | Self::Unknown => Ok(()),
        }
    }
}
