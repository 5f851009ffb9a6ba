//! Numbers as the objects have them.

use std::fmt::Debug;

use vrouter_objects::{Port, VrfId};

/// The networks' numbers.
pub const POD_NETWORK: u32 = 1;
pub const SERVICE_NETWORK: u32 = 2;
pub const FABRIC: u32 = 3;

pub fn id<T, E: Debug>(new: impl Fn(u32) -> Result<T, E>, number: u32) -> T {
    new(number).expect("tests number from 1")
}

pub fn vrf(number: u32) -> VrfId {
    id(VrfId::new, number)
}

pub fn port_of(number: u16) -> Port {
    Port::new(number.into()).expect("tests use ports that exist")
}
