//! The lab: a cluster on one machine, without a container runtime. Nodes and pods are network namespaces on a bridge
//! of their own; every node runs the real `vrouter`, one real `vrouter-control` reads the manifests, and pods are
//! attached by the real `vrouter-cni`. The lab itself plays kubelet, scheduler and the workload controllers. Two clients
//! and a host that stands for the internet are outside the cluster.
//!
//! `scripts/lab` is its door. Nothing of the host is touched: every device lives in a namespace named
//! `vrl-NAME-…`, every file under `/run/vrouter-lab/NAME` or `/dev/shm/vrouter-lab.NAME.…`, and every process bears
//! `VROUTER_LAB_NAME=NAME` in its environment, so that leftovers can be told apart also after a crash.

pub mod cli;
pub mod cluster;
pub mod cni;
pub mod commands;
pub mod controller;
pub mod demo;
pub mod iperf;
pub mod kernel_node;
pub mod kernel_path;
pub mod kube_proxy;
pub mod kubelet;
pub mod lab;
pub mod leftovers;
pub mod line;
pub mod load;
pub mod manifest;
pub mod name;
pub mod netns;
pub mod node;
pub mod object;
pub mod outside;
pub mod placement;
pub mod pod;
pub mod pod_manifest;
pub mod pod_server;
pub mod ports;
pub mod process;
pub mod report;
pub mod rolling;
pub mod shell;
pub mod state;
pub mod statistics;
pub mod status;
pub mod text;
pub mod timestamp;
pub mod underlay;
pub mod workload;
pub mod workload_controller;
