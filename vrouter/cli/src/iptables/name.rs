//! What kube-proxy calls chains: a name has 28 letters at most, so the service's is hashed.

use std::fmt;
use std::net::SocketAddr;

use data_encoding::BASE32;
use ring::digest::{SHA256, digest};
use vrouter_objects::{Listener, ServiceProtocol};

pub(super) const SERVICES: &str = "KUBE-SERVICES";
pub(super) const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
pub(super) const NODE_PORTS: &str = "KUBE-NODEPORTS";
pub(super) const FORWARD: &str = "KUBE-FORWARD";
pub(super) const FIREWALL: &str = "KUBE-PROXY-FIREWALL";
pub(super) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";

/// The letters of a hash that are in a name: 80 bits.
const HASHED_BYTES: usize = 10;

/// One port of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServicePortName {
    text: String,
    protocol: ServiceProtocol,
}

impl ServicePortName {
    pub(super) fn new(service: &str, listener: &Listener) -> Self {
        let colon = if listener.name.is_empty() { "" } else { ":" };
        Self { text: format!("{service}{colon}{}", listener.name), protocol: listener.protocol }
    }

    /// The protocol, as iptables writes it.
    pub(super) fn protocol(&self) -> &'static str {
        match self.protocol {
            ServiceProtocol::Tcp => "tcp",
            ServiceProtocol::Udp => "udp",
            ServiceProtocol::Sctp => "sctp",
        }
    }

    /// The chain that leads to members of all the cluster.
    pub(super) fn cluster_chain(&self) -> String {
        self.chain("KUBE-SVC-")
    }

    /// The chain that leads to members of this node.
    pub(super) fn local_chain(&self) -> String {
        self.chain("KUBE-SVL-")
    }

    /// The chain that packets to external addresses and node ports go to.
    pub(super) fn external_chain(&self) -> String {
        self.chain("KUBE-EXT-")
    }

    /// The chain that looks at who may come.
    pub(super) fn firewall_chain(&self) -> String {
        self.chain("KUBE-FW-")
    }

    /// The chain that translates to one member.
    pub(super) fn endpoint_chain(&self, endpoint: SocketAddr) -> String {
        format!("KUBE-SEP-{}", hash(&format!("{}{}{endpoint}", self.text, self.protocol())))
    }

    fn chain(&self, prefix: &str) -> String {
        format!("{prefix}{}", hash(&format!("{}{}", self.text, self.protocol())))
    }
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn hash(text: &str) -> String {
    BASE32.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..HASHED_BYTES])
}

#[cfg(test)]
mod tests {
    use vrouter_objects::{ListenerId, Port};

    use super::*;

    fn name(service: &str, port: &str, protocol: ServiceProtocol) -> ServicePortName {
        let listener = Listener {
            id: ListenerId::new(1).unwrap(),
            name: port.to_owned(),
            protocol,
            port: Port::new(80).unwrap(),
            node_port: None,
            members: vec![],
        };
        ServicePortName::new(service, &listener)
    }

    /// As they are on every cluster.
    #[test]
    fn chains_are_named_as_kube_proxy_names_them() {
        use ServiceProtocol::{Tcp, Udp};
        for (service, port, protocol, expected) in [
            ("default/kubernetes", "https", Tcp, "KUBE-SVC-NPX46M4PTMTKRN6Y"),
            ("kube-system/kube-dns", "dns", Udp, "KUBE-SVC-TCOU7JCQXEZGVUNU"),
            ("kube-system/kube-dns", "dns-tcp", Tcp, "KUBE-SVC-ERIFXISQEP7F7OF4"),
            ("default/nginx", "", Tcp, "KUBE-SVC-2CMXP7HKUVJN7L6M"),
        ] {
            assert_eq!(name(service, port, protocol).cluster_chain(), expected);
        }
        let named = name("ns4/svc4", "p80", Tcp);
        assert_eq!(named.external_chain(), "KUBE-EXT-4SW47YFZTEDKD3PK");
        assert_eq!(named.endpoint_chain("10.180.0.5:80".parse().unwrap()), "KUBE-SEP-C6EBXVWJJZMIWKLZ");
        assert_eq!(named.to_string(), "ns4/svc4:p80");
        assert_eq!(name("ns5/svc5", "p80", Tcp).firewall_chain(), "KUBE-FW-NUKIZ6OKUXPJNT4C");
        let unnamed = name("default/nginx", "", Tcp);
        assert_eq!(unnamed.endpoint_chain("10.244.2.5:80".parse().unwrap()), "KUBE-SEP-XW6I7J74P22Q2AZM");
        assert_eq!(unnamed.local_chain(), "KUBE-SVL-2CMXP7HKUVJN7L6M");
    }
}
