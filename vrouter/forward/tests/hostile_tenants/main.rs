//! A pod that tries everything: other names than its own, other layers than it is given, other people's connections, other
//! tenants' tunnels. Nobody but itself ever gets anything of it that an honest pod could not have sent, and nobody else's
//! connections suffer.

mod barrage;
mod doubles;
mod encapsulation;
mod errors;
mod fragments;
mod frames;
mod headers;
mod link;
mod midstream;
mod names;
mod ports;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod tunnels;
