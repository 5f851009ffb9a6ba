//! The rules that kube-proxy's iptables mode would make of Kubernetes objects, written from its documented behaviour.
//!
//! This stands beside `control/model` and shares nothing with it: it reads the API's types with its own eyes.

mod chains;
mod endpoints;
mod frontend;
mod table;

pub use chains::rules;
