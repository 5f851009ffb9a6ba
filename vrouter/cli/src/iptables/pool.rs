//! From a service's port to one of its members.

use vrouter_objects::{Member, TrafficPolicy};

use super::name::MARK_MASQ;
use super::rule::Rule;
use super::service_port::{ServicePort, endpoint};
use super::table::Table;

/// In how many parts the kernel counts chance.
const CHANCE_PARTS: f64 = (1_u32 << 31) as f64;

/// The chains of the members that take new flows, and those that choose among them.
pub(super) fn write(port: &ServicePort, nat: &mut Table) {
    let scopes = [TrafficPolicy::Cluster, TrafficPolicy::Local];
    let mut reached: Vec<&Member> = Vec::new();
    for policy in scopes {
        let members = in_order(port.scopes.by(policy));
        if !members.is_empty() {
            choose(port, &port.policy_chain(policy), &members, nat);
        }
        reached.extend(members);
    }
    // Many are in both scopes, and have one chain.
    let reached = in_order(&reached);
    for member in reached {
        translate(port, member, nat);
    }
}

/// Each once, in kube-proxy's order: that of the text of address and port.
fn in_order<'a>(members: &[&'a Member]) -> Vec<&'a Member> {
    let mut members = members.to_vec();
    members.sort_by_cached_key(|member| endpoint(member).to_string());
    members.dedup_by_key(|member| member.id);
    members
}

/// The member that the client was given last, else any with the same chance.
fn choose(port: &ServicePort, chain: &str, members: &[&Member], nat: &mut Table) {
    let rule = |member: &Member| Rule::new().comment(format!("{} -> {}", port.name, endpoint(member)));
    if let Some(timeout) = port.service.affinity {
        for member in members {
            let target = port.name.endpoint_chain(endpoint(member));
            let mask = port.family().mask();
            let recent = format!(
                "recent --rcheck --seconds {} --reap --name {target} --mask {mask} --rsource",
                timeout.seconds()
            );
            nat.append(chain, rule(member).matching(recent).then(target));
        }
    }
    for (position, member) in members.iter().enumerate() {
        let left = members.len() - position;
        let rule = if left > 1 { rule(member).matching(chance(left)) } else { rule(member) };
        nat.append(chain, rule.then(port.name.endpoint_chain(endpoint(member))));
    }
}

/// One of so many. kube-proxy tells the kernel ten digits, which it counts in its own parts and prints as such: of
/// three, 0.33333333349.
fn chance(of: usize) -> String {
    const DIGITS: f64 = 1e10;
    let told = (DIGITS / of as f64).round() / DIGITS;
    let counted = (told * CHANCE_PARTS).round() / CHANCE_PARTS;
    format!("statistic --mode random --probability {counted:.11}")
}

/// One member. A client that is the member itself must see another source, or it would answer itself directly.
fn translate(port: &ServicePort, member: &Member, nat: &mut Table) {
    let chain = port.name.endpoint_chain(endpoint(member));
    let rule = || Rule::new().comment(&port.name);
    nat.append(&chain, rule().from(member.address.into()).then(MARK_MASQ));
    let remembered = match port.service.affinity {
        Some(_) => {
            let mask = port.family().mask();
            rule().matching(format!("recent --set --name {chain} --mask {mask} --rsource"))
        }
        None => rule(),
    };
    let target = format!("DNAT --to-destination {}", endpoint(member));
    nat.append(&chain, remembered.protocol(port.name.protocol()).then(target));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_printed_as_the_kernel_counts_them() {
        let printed: Vec<_> = (2..=7).map(|of| chance(of).rsplit(' ').next().unwrap().to_owned()).collect();
        assert_eq!(
            printed,
            [
                "0.50000000000",
                "0.33333333349",
                "0.25000000000",
                "0.20000000019",
                "0.16666666651",
                "0.14285714272"
            ]
        );
    }
}
