//! What all tests of this folder share: a small network to test on, a service by all its frontends, and an independent
//! reader of what comes out.
#![allow(dead_code, unused_imports)] // Each test file uses its part.

mod network;
mod policy;
mod reader;
mod service;
mod speech;
mod tenancy;

pub use network::{
    ACK, ALL_PROTOCOLS, FAMILIES, FIN, RST, SYN, address, detach, dropped, drops, from_tunnel, gateway,
    node_mac, packet, publish, remove, remove_default_routes, remove_object, vip, vtep,
};
pub use policy::{
    allow, binding, both_ways, drop_policy, egress, govern, hold, in_block, in_set, ingress, network_policy,
    one_port, own_port, peer_address, peer_addresses, peer_set, pod_name, policy, policy_id, rule, select,
    select_with_port, set_id,
};
pub use reader::{Read, crc32c, has_valid_checksums, leave_checksum, only, read, read_datagram, reassemble};
pub use service::{
    CLIENT_KINDS, CLIENT_PORT, Client, ClientKind, EXTERNAL_FRONTENDS, FRONTENDS, Frontend, MEMBER_PORT,
    NODE_PORT, SERVICE_PORT, Scene, answer, by_all_frontends, error_about, external_ip, is_refusal,
    load_balancer_ip, local_inside, local_outside, node_address, outside, port, quoted, scenes, scenes_of,
    send_from,
};
pub use speech::{Conversation, VOICES, Voice, is_at, is_at_host, protocols, voices};
pub use tenancy::{
    CLUSTER_PODS, Kind, Network, SERVICES, Tenancy, fabric, nth, prefixes, published, router, vrf,
};
