//! Networks of tenants: isolated namespaces, custom networks, and what connects them.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod custom;
mod documents;
mod isolation;
mod link_local;
mod live;
mod order;
mod routers;
mod support;
