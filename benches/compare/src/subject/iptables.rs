//! Services as kube-proxy's iptables mode lays them out: one chain that every new connection goes down from the top.
//!
//! The rules are those of a cluster with more than a thousand endpoints, where kube-proxy leaves comments out.

use std::fmt::{Result, Write};

use vrouter_lab::kube_proxy::{MASQUERADE_MARK, Networks, ServicePort};
use vrouter_lab::text::written;

/// What `iptables-restore` loads for these services, in this order.
pub fn rules(networks: &Networks, services: &[ServicePort]) -> String {
    written(|rules| {
        write_filter(rules)?;
        write_nat(rules, networks, services)
    })
}

/// Services without endpoints would have their rejections in these chains.
fn write_filter(rules: &mut String) -> Result {
    let mark = MASQUERADE_MARK;
    write!(
        rules,
        "*filter
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A INPUT -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A FORWARD -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark {mark:#x}/{mark:#x} -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
"
    )
}

fn write_nat(rules: &mut String, networks: &Networks, services: &[ServicePort]) -> Result {
    rules.push_str(
        "*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
",
    );
    for (number, service) in services.iter().enumerate() {
        writeln!(rules, ":{} - [0:0]", service_chain(number))?;
        for place in 0..service.endpoints.len() {
            writeln!(rules, ":{} - [0:0]", endpoint_chain(number, place))?;
        }
    }
    let mark = MASQUERADE_MARK;
    write!(
        rules,
        "-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -m mark ! --mark {mark:#x}/{mark:#x} -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark {mark:#x}
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark {mark:#x}
"
    )?;
    for (number, service) in services.iter().enumerate() {
        write_service(rules, networks, number, service)?;
    }
    rules.push_str("-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n");
    Ok(())
}

fn write_service(rules: &mut String, networks: &Networks, number: usize, service: &ServicePort) -> Result {
    let (address, port) = (service.frontend.ip(), service.frontend.port());
    let (protocol, pods, chain) = (service.protocol(), networks.pods, service_chain(number));
    let frontend = format!("-m {protocol} -p {protocol} -d {address} --dport {port}");
    writeln!(rules, "-A KUBE-SERVICES {frontend} -j {chain}")?;
    writeln!(rules, "-A {chain} {frontend} ! -s {pods} -j KUBE-MARK-MASQ")?;
    let count = service.endpoints.len();
    for (place, endpoint) in service.endpoints.iter().enumerate() {
        let choice = match count - place {
            1 => String::new(),
            left => format!("-m statistic --mode random --probability {:.10} ", 1.0 / left as f64),
        };
        let target = endpoint_chain(number, place);
        writeln!(rules, "-A {chain} {choice}-j {target}")?;
        writeln!(rules, "-A {target} -s {} -j KUBE-MARK-MASQ", endpoint.ip())?;
        writeln!(rules, "-A {target} -m {protocol} -p {protocol} -j DNAT --to-destination {endpoint}")?;
    }
    Ok(())
}

/// kube-proxy's names end in a hash of sixteen digits, where a running number does as well here.
fn service_chain(number: usize) -> String {
    format!("KUBE-SVC-{number:016}")
}

fn endpoint_chain(number: usize, place: usize) -> String {
    format!("KUBE-SEP-{number:014}{place:02}")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::{Services, service};
    use super::*;

    #[test]
    fn the_measured_services_are_met_in_the_middle() {
        let networks = Networks::of_lab(Ipv4Addr::new(172, 30, 0, 1));
        let servers = [2, 3, 4].map(|last| Ipv4Addr::new(10, 244, 254, last));
        let rules = rules(&networks, &service::all(&servers, Services(100)));
        let walked: Vec<_> = rules.lines().filter(|line| line.starts_with("-A KUBE-SERVICES")).collect();
        assert_eq!(walked.len(), 100 + 4 + 1);
        assert!(walked[53].contains("-d 10.96.0.13 --dport 80 -j KUBE-SVC-"), "{}", walked[53]);
        assert!(walked[104].ends_with("-j KUBE-NODEPORTS"));
        assert_eq!(rules.matches("-j DNAT").count(), 100 * 3 + 2 + 2 * 3);
        assert_eq!(rules.matches("--probability").count(), 100 * 2 + 2 * 2);
        assert_eq!(rules.matches(":KUBE-SEP-").count(), rules.matches("-j KUBE-SEP-").count());
    }
}
