//! Where the controller is and how to speak to it.

use std::time::Duration;

use thiserror::Error;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// A dead controller is noticed within two of these.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The controller.
#[derive(Debug, Clone)]
pub struct Target {
    endpoint: Endpoint,
}

/// How the channel is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Security {
    /// Not at all: for the lab.
    Insecure,
    /// Both ends show certificates. Everything in PEM.
    MutualTls {
        /// Who signs the controller's certificate.
        ca: Vec<u8>,
        /// This node's certificate.
        certificate: Vec<u8>,
        /// Its key.
        key: Vec<u8>,
    },
}

/// Why there is no speaking to a controller at that address.
#[derive(Debug, Error)]
pub enum TargetError {
    /// Neither `http://` nor `https://`, or no address behind it.
    #[error("\"{0}\" is not http://ADDRESS:PORT or https://ADDRESS:PORT")]
    Uri(String),
    /// Plaintext must be asked for.
    #[error("http:// is not encrypted: say so with --insecure, or use https://")]
    Plaintext,
    /// The opposite was asked for.
    #[error("https:// and --insecure contradict each other")]
    InsecureTls,
    /// Certificates that are none.
    #[error("TLS: {0}")]
    Tls(String),
}

impl Target {
    /// The controller at this address.
    pub fn new(uri: &str, security: Security) -> Result<Self, TargetError> {
        let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|_| TargetError::Uri(uri.to_owned()))?;
        if endpoint.uri().authority().is_none() {
            return Err(TargetError::Uri(uri.to_owned()));
        }
        let endpoint = match (endpoint.uri().scheme_str(), security) {
            (Some("http"), Security::Insecure) => endpoint,
            (Some("http"), Security::MutualTls { .. }) => return Err(TargetError::Plaintext),
            (Some("https"), Security::Insecure) => return Err(TargetError::InsecureTls),
            (Some("https"), Security::MutualTls { ca, certificate, key }) => {
                let tls = ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(ca))
                    .identity(Identity::from_pem(certificate, key));
                endpoint.tls_config(tls).map_err(|error| TargetError::Tls(crate::chain(&error)))?
            }
            _ => return Err(TargetError::Uri(uri.to_owned())),
        };
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        Ok(Self { endpoint })
    }

    /// Its address, for people.
    pub fn uri(&self) -> String {
        self.endpoint.uri().to_string()
    }

    pub(super) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        self.endpoint.connect().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_controller_address_is_told() {
        let tls = || Security::MutualTls { ca: vec![], certificate: vec![], key: vec![] };
        let error = |uri, security| Target::new(uri, security).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(error("http://127.0.0.1:7443", Security::Insecure), Ok(()));
        assert!(error("http://127.0.0.1:7443", tls()).unwrap_err().contains("--insecure"));
        assert!(error("https://127.0.0.1:7443", Security::Insecure).unwrap_err().contains("contradict"));
        for uri in ["127.0.0.1:7443", "ftp://127.0.0.1", "", "http://"] {
            assert!(error(uri, Security::Insecure).unwrap_err().contains("is not http://"), "{uri}");
        }
    }
}
