//! What there is to see, one module each.

pub mod drops;
pub mod fip;
pub mod flow;
pub mod get;
pub mod nh;
pub mod route;
pub mod service;
pub mod services;
pub mod status;
pub mod vif;
pub mod vrf;
pub mod vxlan;
