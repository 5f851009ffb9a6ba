//! The cluster addresses that a Service is to have.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;

use super::ServiceType;
use crate::Family;
use crate::kube::field;
use crate::problem::Findings;

/// Which cluster addresses a Service is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRequest {
    /// The addresses it gives itself, each with its field; at most one per family.
    pub given: Vec<(String, IpAddr)>,
    /// The families it names, in its order of preference.
    pub families: Vec<Family>,
    /// What to do about the family it does not name.
    pub policy: FamilyPolicy,
}

/// `ipFamilyPolicy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// One address.
    #[default]
    Single,
    /// One of each family the cluster has.
    PreferDual,
    /// One of each family.
    RequireDual,
}

impl AddressRequest {
    /// Reads what a Service asks for. `None`: it is headless, or what it asks for cannot be read.
    pub(super) fn read(spec: &ServiceSpec, kind: ServiceType, findings: &mut Findings) -> Option<Self> {
        let listed = spec.cluster_ips.as_deref().unwrap_or_default();
        let single = spec.cluster_ip.iter().filter(|_| listed.is_empty());
        let fields = single
            .map(|text| ("spec.clusterIP".to_owned(), text))
            .chain(listed.iter().enumerate().map(|(i, text)| (format!("spec.clusterIPs[{i}]"), text)));
        let mut given: Vec<(String, IpAddr)> = Vec::new();
        for (field, text) in fields.filter(|(_, text)| !text.is_empty()) {
            if text == "None" {
                if kind != ServiceType::ClusterIp {
                    findings.add(field, format!("a headless Service has no frontend, also as {kind}"));
                }
                return None;
            }
            // A Service whose own address cannot be read gets none: another one is not what its clients know.
            let address = findings.check(&field, field::address(text))?;
            if given.iter().any(|(_, other)| Family::from(*other) == Family::from(address)) {
                findings.add(field, format!("{address} is a second address of its family"));
                return None;
            }
            given.push((field, address));
        }
        let families = families(spec, findings)?;
        let policy = policy(spec, findings, given.len().max(families.len()))?;
        Some(Self { given, families, policy })
    }
}

fn families(spec: &ServiceSpec, findings: &mut Findings) -> Option<Vec<Family>> {
    let mut families = Vec::new();
    for (i, text) in spec.ip_families.iter().flatten().enumerate() {
        let family = findings.check(format!("spec.ipFamilies[{i}]"), text.parse())?;
        if !families.contains(&family) {
            families.push(family);
        }
    }
    Some(families)
}

fn policy(spec: &ServiceSpec, findings: &mut Findings, named: usize) -> Option<FamilyPolicy> {
    match spec.ip_family_policy.as_deref() {
        None if named > 1 => Some(FamilyPolicy::RequireDual),
        None | Some("SingleStack") => Some(FamilyPolicy::Single),
        Some("PreferDualStack") => Some(FamilyPolicy::PreferDual),
        Some("RequireDualStack") => Some(FamilyPolicy::RequireDual),
        Some(other) => {
            findings.add(
                "spec.ipFamilyPolicy",
                format!("\"{other}\" is none of SingleStack, PreferDualStack, RequireDualStack"),
            );
            None
        }
    }
}
