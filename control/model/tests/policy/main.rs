//! What policies are compiled into, read from the tables as a node reads them.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod churn;
mod cluster_policies;
mod documents;
mod faults;
mod incremental;
mod rules;
mod sets;
mod world;
