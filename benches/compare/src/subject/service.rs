//! The services that subjects translate: the measured ones, and as many others as are wanted.

use std::net::{Ipv4Addr, SocketAddrV4};

use vrouter_lab::iperf;
use vrouter_lab::kube_proxy::ServicePort;
use vrouter_lab::ports::Transport;

use super::Services;

/// How many servers stand behind a service.
pub const MEMBERS: u8 = 3;

/// What listens on every server, each behind a service of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPort {
    /// iperf3, TCP and UDP. Its service has the first server alone: a client's connections must meet at one.
    Iperf,
    /// sockperf.
    PingPong,
    /// A web server.
    Http,
}

impl ServerPort {
    /// The port number on the server.
    pub fn number(self) -> u16 {
        match self {
            Self::Iperf => iperf::PORT,
            Self::PingPong => 11111,
            Self::Http => 8080,
        }
    }

    /// The address and port of its service.
    pub fn frontend(self) -> SocketAddrV4 {
        let (last, port) = match self {
            Self::Iperf => (11, iperf::PORT),
            Self::PingPong => (12, 11111),
            Self::Http => (13, 80),
        };
        SocketAddrV4::new(Ipv4Addr::new(10, 96, 0, last), port)
    }
}

/// All of them for these servers, the measured ones in the middle: what walks through all meets them neither early nor late.
pub fn all(servers: &[Ipv4Addr], others: Services) -> Vec<ServicePort> {
    let at = |port: ServerPort, servers: &[Ipv4Addr]| -> Vec<_> {
        servers.iter().map(|&server| SocketAddrV4::new(server, port.number())).collect()
    };
    let measured = [
        ("default/iperf/tcp", ServerPort::Iperf, Transport::Tcp),
        ("default/iperf/udp", ServerPort::Iperf, Transport::Udp),
        ("default/pingpong/tcp", ServerPort::PingPong, Transport::Tcp),
        ("default/http/tcp", ServerPort::Http, Transport::Tcp),
    ];
    let other = |number| ServicePort {
        name: format!("default/{}/http", other_name(number)),
        frontend: SocketAddrV4::new(other_address(number), 80),
        transport: Transport::Tcp,
        endpoints: at(ServerPort::Http, servers),
    };
    let measured = measured.map(|(name, port, transport)| ServicePort {
        name: name.to_owned(),
        frontend: port.frontend(),
        transport,
        endpoints: at(port, if port == ServerPort::Iperf { &servers[..1] } else { servers }),
    });
    let middle = others.0 / 2;
    (0..middle).map(other).chain(measured).chain((middle..others.0).map(other)).collect()
}

/// The name of one of the others.
pub fn other_name(number: usize) -> String {
    format!("other-{number}")
}

/// The address of one of the others, from the upper half of the service network on.
pub fn other_address(number: usize) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::new(10, 104, 0, 1));
    // The network ends long before a number this large.
    Ipv4Addr::from(first + u32::try_from(number).unwrap_or(u32::MAX - first))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_measured_stand_in_the_middle_and_no_frontend_comes_twice() {
        let servers = [2, 3, 4].map(|last| Ipv4Addr::new(10, 244, 1, last));
        let services = all(&servers, Services(10_000));
        assert_eq!(services.len(), 10_004);
        let frontends: BTreeSet<_> =
            services.iter().map(|service| (service.frontend, service.protocol())).collect();
        assert_eq!(frontends.len(), services.len());
        assert_eq!(services[9_999].endpoints.len(), 3);
        let measured: Vec<_> = services[5_000..5_004]
            .iter()
            .map(|service| (service.name.as_str(), service.endpoints.len()))
            .collect();
        let wanted = [
            ("default/iperf/tcp", 1),
            ("default/iperf/udp", 1),
            ("default/pingpong/tcp", 3),
            ("default/http/tcp", 3),
        ];
        assert_eq!(measured, wanted);
    }
}
