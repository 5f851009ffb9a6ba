//! Services as kube-proxy lays them out for the kernel, in its nftables mode.
//!
//! The rules are those that kube-proxy writes for ClusterIP services with its default settings: the same tables, base
//! chains, priorities and checks, one chain per service and one per endpoint.

use std::collections::BTreeSet;
use std::fmt::{Result, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

use ipnet::Ipv4Net;

use crate::ports::Transport;
use crate::text::written;

/// Set on packets whose source must become the node's.
pub const MASQUERADE_MARK: u32 = 0x4000;

/// One port of a Service, with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// `namespace/name/port`.
    pub name: String,
    /// The ClusterIP and the port.
    pub frontend: SocketAddrV4,
    /// TCP or UDP.
    pub transport: Transport,
    /// Where its connections go.
    pub endpoints: Vec<SocketAddrV4>,
}

impl ServicePort {
    /// The transport protocol, as rules name it.
    pub fn protocol(&self) -> &'static str {
        match self.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Sctp => "sctp",
        }
    }
}

/// The addresses by which a node tells what is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Networks {
    /// The node's own address, which takes NodePort traffic.
    pub node: Ipv4Addr,
    /// All pods' addresses.
    pub pods: Ipv4Net,
    /// All ClusterIPs.
    pub services: Ipv4Net,
}

impl Networks {
    /// As a node of a lab with this address has them, which are the controller's defaults.
    pub fn of_lab(node: Ipv4Addr) -> Self {
        let network = |address: [u8; 4], length| Ipv4Net::new_assert(address.into(), length);
        Self { node, pods: network([10, 244, 0, 0], 16), services: network([10, 96, 0, 0], 12) }
    }
}

/// How many services one transaction brings: what the kernel does for each set grows with the transaction it is in.
const BATCH: usize = 500;

/// What `nft -f` loads for these services, one transaction after the other.
pub fn nftables(networks: &Networks, services: &[ServicePort]) -> impl Iterator<Item = String> {
    let batch = |(number, batch)| written(|rules| write_services(rules, networks, number * BATCH, batch));
    let base = written(|rules| write_base(rules, networks));
    std::iter::once(base).chain(services.chunks(BATCH).enumerate().map(batch))
}

/// What is there without any service.
fn write_base(rules: &mut String, networks: &Networks) -> Result {
    let Networks { node, services, .. } = networks;
    let mark = MASQUERADE_MARK;
    write!(
        rules,
        "table ip kube-proxy {{
         set cluster-ips {{ type ipv4_addr; }}
         set nodeport-ips {{ type ipv4_addr; elements = {{ {node} }}; }}
         map firewall-ips {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
         map no-endpoint-nodeports {{ type inet_proto . inet_service : verdict; }}
         map no-endpoint-services {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
         map service-ips {{ type ipv4_addr . inet_proto . inet_service : verdict; }}
         map service-nodeports {{ type inet_proto . inet_service : verdict; }}
         chain filter-prerouting-pre-dnat {{
             type filter hook prerouting priority -110;
             ct state new jump firewall-check
         }}
         chain filter-output-pre-dnat {{
             type filter hook output priority -110;
             ct state new jump firewall-check
         }}
         chain filter-forward {{
             type filter hook forward priority 0;
             ct state new jump service-endpoints-check
             ct state new jump cluster-ips-check
         }}
         chain filter-input {{
             type filter hook input priority 0;
             ct state new jump nodeport-endpoints-check
             ct state new jump service-endpoints-check
         }}
         chain filter-output {{
             type filter hook output priority 0;
             ct state new jump service-endpoints-check
             ct state new jump cluster-ips-check
         }}
         chain nat-prerouting {{
             type nat hook prerouting priority -100;
             jump services
         }}
         chain nat-output {{
             type nat hook output priority -100;
             jump services
         }}
         chain nat-postrouting {{
             type nat hook postrouting priority 100;
             jump masquerading
         }}
         chain firewall-check {{
             ip daddr . meta l4proto . th dport vmap @firewall-ips
         }}
         chain service-endpoints-check {{
             ip daddr . meta l4proto . th dport vmap @no-endpoint-services
         }}
         chain nodeport-endpoints-check {{
             ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports
         }}
         chain cluster-ips-check {{
             ip daddr @cluster-ips reject
             ip daddr {{ {services} }} drop
         }}
         chain reject-chain {{
             reject
         }}
         chain services {{
             ip daddr . meta l4proto . th dport vmap @service-ips
             ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
         }}
         chain mark-for-masquerade {{
             meta mark set meta mark or {mark:#x}
         }}
         chain masquerading {{
             meta mark and {mark:#x} == 0 return
             meta mark set meta mark xor {mark:#x}
             masquerade fully-random
         }}
         }}\n"
    )
}

/// Their chains, and the elements that lead to them. Numbers run on from the first.
fn write_services(rules: &mut String, networks: &Networks, first: usize, services: &[ServicePort]) -> Result {
    rules.push_str("table ip kube-proxy {\n");
    for (service, number) in services.iter().zip(first..) {
        write_chains(rules, networks, number, service)?;
    }
    rules.push_str("}\n");
    write_elements(rules, first, services)
}

fn write_chains(rules: &mut String, networks: &Networks, number: usize, service: &ServicePort) -> Result {
    let (frontend, pods, protocol) = (service.frontend.ip(), networks.pods, service.protocol());
    let chain = |endpoint| endpoint_chain(number, service, endpoint);
    let choices: Vec<_> = service
        .endpoints
        .iter()
        .enumerate()
        .map(|(place, endpoint)| format!("{place} : goto {}", chain(endpoint)))
        .collect();
    writeln!(
        rules,
        "chain {} {{
             ip daddr {frontend} ip saddr != {pods} jump mark-for-masquerade
             numgen random mod {} vmap {{ {} }}
         }}",
        service_chain(number, service),
        choices.len(),
        choices.join(", "),
    )?;
    for endpoint in &service.endpoints {
        writeln!(
            rules,
            "chain {} {{
                 ip saddr {} jump mark-for-masquerade
                 meta l4proto {protocol} dnat to {endpoint}
             }}",
            chain(endpoint),
            endpoint.ip(),
        )?;
    }
    Ok(())
}

fn write_elements(rules: &mut String, first: usize, services: &[ServicePort]) -> Result {
    let addresses: BTreeSet<_> = services.iter().map(|service| *service.frontend.ip()).collect();
    for address in addresses {
        writeln!(rules, "add element ip kube-proxy cluster-ips {{ {address} }}")?;
    }
    for (service, number) in services.iter().zip(first..) {
        let (address, port) = (service.frontend.ip(), service.frontend.port());
        writeln!(
            rules,
            "add element ip kube-proxy service-ips {{ {address} . {} . {port} : goto {} }}",
            service.protocol(),
            service_chain(number, service),
        )?;
    }
    Ok(())
}

/// kube-proxy tells like names apart by a hash of eight digits, where a running number does as well here.
fn service_chain(number: usize, service: &ServicePort) -> String {
    format!("service-{number:08}-{}", chain_name(service))
}

fn endpoint_chain(number: usize, service: &ServicePort, endpoint: &SocketAddrV4) -> String {
    format!("endpoint-{number:08}-{}__{}/{}", chain_name(service), endpoint.ip(), endpoint.port())
}

fn chain_name(service: &ServicePort) -> String {
    match service.name.rsplit_once('/') {
        Some((name, port)) => format!("{name}/{}/{port}", service.protocol()),
        None => format!("{}/{}", service.name, service.protocol()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, frontend: &str, transport: Transport) -> ServicePort {
        let endpoints = ["10.244.0.2:8080", "10.244.0.3:8080", "10.244.0.4:8080"];
        ServicePort {
            name: name.into(),
            frontend: frontend.parse().unwrap(),
            transport,
            endpoints: endpoints.map(|endpoint| endpoint.parse().unwrap()).to_vec(),
        }
    }

    #[test]
    fn every_port_has_its_element_and_its_chains() {
        let networks = Networks::of_lab("172.30.0.1".parse().unwrap());
        let services = [
            service("default/dns/dns", "10.96.0.10:53", Transport::Udp),
            service("default/dns/dns-tcp", "10.96.0.10:53", Transport::Tcp),
            service("default/web/http", "10.96.0.11:80", Transport::Tcp),
        ];
        let rules: String = nftables(&networks, &services).collect();
        let count = |text: &str| rules.matches(text).count();
        assert_eq!(count("chain service-0"), 3);
        assert_eq!(count("chain endpoint-"), 9);
        assert_eq!(count("add element ip kube-proxy service-ips"), 3);
        assert_eq!(count("add element ip kube-proxy cluster-ips"), 2);
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
        assert!(rules.contains("10.96.0.10 . udp . 53 : goto service-00000000-default/dns/udp/dns }"));
        assert!(rules.contains(
            "numgen random mod 3 vmap { 0 : goto endpoint-00000002-default/web/tcp/http__10.244.0.2/8080, 1 : goto"
        ));
    }

    #[test]
    fn many_services_come_in_batches_and_share_no_chain() {
        let networks = Networks::of_lab("172.30.0.1".parse().unwrap());
        let services = vec![service("default/web/http", "10.96.0.11:80", Transport::Tcp); BATCH + 2];
        let transactions: Vec<_> = nftables(&networks, &services).collect();
        let chains = |rules: &String| rules.matches("chain service-0").count();
        assert_eq!(transactions.iter().map(chains).collect::<Vec<_>>(), [0, BATCH, 2]);
        let names: BTreeSet<_> = transactions
            .iter()
            .flat_map(|rules| rules.lines())
            .filter(|line| line.starts_with("chain service-0"))
            .collect();
        assert_eq!(names.len(), BATCH + 2);
    }
}
