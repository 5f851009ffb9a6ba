//! Who is let in over TLS, and what keeps the controller from starting.
#![allow(missing_docs)]

mod common;

use std::fs;

use common::{Controller, FakeNode, NODES, Table};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use vrouter_control::{Running, ServerError, start};
use vrouter_proto::v1;
use vrouter_proto::v1::inspect_client::InspectClient;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn both_sides_show_a_certificate() {
    let controller = Controller::start(NODES).await;
    let other = Controller::start(NODES).await;
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (certificate, key) = authority.sign("localhost");
    for (file, content) in [("ca", authority.0.pem()), ("cert", certificate), ("key", key)] {
        fs::write(controller.path(file), content).unwrap();
    }
    let path = |name| controller.path(name).display().to_string();
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    let running = start(&other.args(&["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key])).await;
    // The other one's files are in use.
    assert!(running.err().unwrap().to_string().starts_with("another controller is running"));
    let fresh = path("fresh.sock");
    let state = path("fresh-state");
    let mut args = controller.args(&["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key]);
    (args.socket, args.state_dir) = (fresh.into(), state.into());
    let running = start(&args).await.unwrap();

    let ask = async |identity: Option<(String, String)>| {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(authority.0.pem()))
            .domain_name("localhost");
        if let Some((certificate, key)) = identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let endpoint =
            Endpoint::from_shared(format!("https://{}", running.address)).unwrap().tls_config(tls).unwrap();
        let channel = endpoint.connect().await.map_err(|error| error.to_string())?;
        let status = InspectClient::new(channel).status(v1::ControllerStatusRequest {}).await;
        status.map_err(|error| error.to_string())
    };
    ask(Some(authority.sign("n1"))).await.unwrap();
    assert!(ask(None).await.is_err());
    assert!(ask(Some(stranger.sign("n1"))).await.is_err());

    // A node speaks for itself only.
    let (certificate, key) = authority.sign("n1");
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.0.pem()))
        .domain_name("localhost")
        .identity(Identity::from_pem(certificate, key));
    let endpoint =
        Endpoint::from_shared(format!("https://{}", running.address)).unwrap().tls_config(tls).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let hello = |node: &str| v1::Hello { node: node.to_owned(), ..v1::Hello::default() };
    FakeNode::greet(channel.clone(), hello("n1"), Table::default()).await.receive().await.unwrap();
    let mut other = FakeNode::greet(channel, hello("n2"), Table::default()).await;
    let status = other.receive().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert!(status.message().contains("and not for n2"), "{status}");
    running.stop().await;
}

#[tokio::test]
async fn what_keeps_it_from_starting_is_said() {
    let mut controller = Controller::start(NODES).await;
    controller.settle().await;
    controller.stop().await;
    let error = |result: Result<Running, ServerError>| result.err().unwrap().to_string();
    assert!(error(start(&controller.args(&[])).await).contains("--insecure"));
    let missing =
        ["--tls-ca", "/nonexistent/ca", "--tls-cert", "/nonexistent/cert", "--tls-key", "/nonexistent/key"];
    assert!(error(start(&controller.args(&missing)).await).contains("/nonexistent/"));
    let state = controller.path("state/state.json");
    let saved = fs::read_to_string(&state).unwrap();
    fs::write(&state, &saved[..saved.len() / 2]).unwrap();
    assert!(error(start(&controller.args(&["--insecure"])).await).contains("state.json"));
    // Ids that were never given out.
    fs::write(&state, saved.replace("\"routers\":2", "\"routers\":1")).unwrap();
    assert!(error(start(&controller.args(&["--insecure"])).await).contains("was never given"));
    fs::write(&state, saved).unwrap();
    controller.resume().await;
}
