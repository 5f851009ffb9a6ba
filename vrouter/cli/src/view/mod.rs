//! What there is to see, one module each.

pub mod drops;
pub mod fip;
pub mod flow;
pub mod get;
pub mod nh;
mod opinion;
pub mod peerset;
pub mod policies;
pub mod policy;
pub mod policy_test;
pub mod route;
pub mod service;
pub mod services;
pub mod status;
pub mod vif;
pub mod vrf;
pub mod vxlan;
