//! Measures the vRouter beside what else forwards a cluster's packets: each subject in namespaces of its own, one at a
//! time, taking turns in one run. `scripts/bench` is its door.
//!
//! [`plan`] says what is measured in which order, [`run`] does it: a [`subject`]'s site is built, the [`servers`] are started
//! in it, each [`case`] is measured, and it is taken away. What was [`measure`]d is collected as [`figures`], which a
//! [`report`] turns into rows; those are printed as a [`table`], drawn as a [`chart`], and written as JSON.

pub mod arguments;
pub mod case;
pub mod chart;
pub mod cores;
pub mod figures;
pub mod machine;
pub mod measure;
pub mod plan;
pub mod report;
pub mod run;
pub mod servers;
pub mod subject;
pub mod table;
