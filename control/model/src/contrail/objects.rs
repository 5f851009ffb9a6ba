//! What nodes hold of a load balancer.

use vrouter_objects as objects;

use super::{FloatingIp, Listener, LoadBalancer, Member};
use crate::Family;
use crate::config::ModelConfig;

impl LoadBalancer {
    /// What every node that reaches the service network holds of it.
    pub fn objects(&self, config: &ModelConfig) -> impl Iterator<Item = objects::FloatingIp> {
        self.floating_ips.iter().map(|floating_ip| self.object(config, floating_ip))
    }

    fn object(&self, config: &ModelConfig, floating_ip: &FloatingIp) -> objects::FloatingIp {
        let family = Family::from(floating_ip.address);
        let ranges = self.source_ranges.iter().copied();
        objects::FloatingIp {
            id: floating_ip.id,
            name: self.service.to_string(),
            vrf: self.networks.services,
            address: floating_ip.address,
            external_vrf: config.fabric.vrf,
            external: floating_ip.external.clone(),
            internal_policy: self.policies.internal,
            external_policy: self.policies.external,
            affinity: self.policies.affinity,
            source_ranges: ranges.filter(|range| Family::from(*range) == family).collect(),
            health_check_port: self.health_check,
            listeners: floating_ip.listeners.iter().map(Listener::object).collect(),
        }
    }
}

impl Listener {
    fn object(&self) -> objects::Listener {
        objects::Listener {
            id: self.id,
            name: self.name.clone(),
            protocol: self.protocol,
            port: self.port,
            node_port: self.node_port,
            members: self.members.iter().map(Member::object).collect(),
        }
    }
}

impl Member {
    fn object(&self) -> objects::Member {
        objects::Member {
            id: self.id,
            name: self.name(),
            vrf: self.vrf,
            address: self.endpoint.ip(),
            port: self.port,
            vmi: self.vmi,
            router: self.router,
            state: self.state,
            hints: self.hints.clone(),
        }
    }
}
