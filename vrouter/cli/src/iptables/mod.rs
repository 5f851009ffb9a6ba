//! What kube-proxy's iptables mode would have for services on this node, as `iptables-save` prints it: for those who
//! know that world, to lay both side by side.
//!
//! It is the text that comes out of a kernel which kube-proxy filled, so it can be loaded again as it is. Where
//! kube-proxy can be told how to go about it, this is one that was told to take the pods' network for
//! `--cluster-cidr`, with `--iptables-localhost-nodeports=false` and the vRouter's own `--nodeport-addresses`. Beyond
//! a thousand endpoints it leaves out comments; here they are always there. What it says of source addresses
//! (`KUBE-MARK-MASQ`) the vRouter seldom needs: it keeps the client's address wherever the answer finds back.

mod external;
mod family;
mod frame;
mod frontend;
mod name;
mod pool;
mod rule;
mod service_port;
mod table;
#[cfg(test)]
mod tests;

pub use family::Family;

use vrouter_objects::FloatingIp;

use crate::service::OwnNode;
use service_port::ServicePort;
use table::Tables;

/// The rules for those of the services that are of the family, as kube-proxy would have them on this node.
pub fn rules<'a>(
    services: impl IntoIterator<Item = &'a FloatingIp>,
    node: &OwnNode,
    family: Family,
) -> String {
    let mut tables = Tables::new();
    frame::begin(&mut tables);
    for service in services {
        if Family::of(service.address) == family {
            for listener in &service.listeners {
                ServicePort::new(service, listener, node).write(&mut tables);
            }
        }
    }
    frame::end(&mut tables, node, family);
    tables.to_string()
}
