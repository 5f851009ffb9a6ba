//! Which ports are open in a namespace, told without sending a packet.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// The transport protocols a pod may declare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Transport {
    /// The default, as in Kubernetes.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Declared, but never listened on here.
    Sctp,
}

impl Transport {
    /// The option by which the lab's server is told to answer on a port.
    pub const fn option(self) -> &'static str {
        match self {
            Self::Tcp => "--tcp",
            Self::Udp => "--udp",
            Self::Sctp => "--sctp",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// The ports that something listens on (TCP) or is bound to (UDP) in the namespace of this process.
pub fn open(pid: Pid, transport: Transport) -> BTreeSet<u16> {
    // The state in which a socket waits for peers, in the kernel's numbers.
    let (table, waiting) = match transport {
        Transport::Tcp => ("tcp", "0A"),
        Transport::Udp => ("udp", "07"),
        Transport::Sctp => return BTreeSet::new(),
    };
    ["", "6"]
        .iter()
        .filter_map(|family| fs::read_to_string(format!("/proc/{pid}/net/{table}{family}")).ok())
        .flat_map(|text| listed(&text, waiting))
        .collect()
}

fn listed(table: &str, waiting: &str) -> Vec<u16> {
    let port = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        (*fields.get(3)? == waiting).then(|| u16::from_str_radix(port, 16).ok()).flatten()
    };
    table.lines().skip(1).filter_map(port).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn only_waiting_sockets_count() {
        let table = "  sl  local_address rem_address   st\n\
                     0: 00000000:0050 00000000:0000 0A 0:0\n\
                     1: 0100007F:1F90 0100007F:A000 01 0:0\n";
        assert_eq!(listed(table, "0A"), [80]);
    }

    #[test]
    fn own_sockets_are_seen() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        assert!(open(Pid::this(), Transport::Tcp).contains(&tcp.local_addr().unwrap().port()));
        assert!(open(Pid::this(), Transport::Udp).contains(&udp.local_addr().unwrap().port()));
    }
}
