//! The end-to-end tests: real processes in network namespaces, seen from inside pods, from the wire and through the
//! operator's tool.
//!
//! Cases come in groups, and each group has a lab of its own. `cargo test -p vrouter-tests --test e2e -- services` runs
//! one group. They need root.

mod attempts;
mod away;
mod cni;
mod controller;
mod example;
mod frontends;
mod group;
mod host;
mod input;
mod interop;
mod link_local;
mod load;
mod malformed;
mod matrix;
mod network_policies;
mod paths;
mod pods;
mod policies;
mod policy_changes;
mod presence;
mod restart;
mod rollout;
mod services;
mod speed;
mod tenants;
mod tunnels;
mod tutorials;
mod way;
mod wire;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Cases of a group share its lab, and those of different groups the machine.
    arguments.test_threads = Some(1);
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("Every case is ignored: network namespaces need root.");
    }
    let groups = [
        pods::GROUP,
        services::GROUP,
        tutorials::GROUP,
        frontends::GROUP,
        policies::GROUP,
        network_policies::GROUP,
        policy_changes::GROUP,
        tenants::GROUP,
        link_local::GROUP,
        matrix::GROUP,
        host::GROUP,
        paths::GROUP,
        presence::GROUP,
        interop::GROUP,
        wire::GROUP,
        controller::GROUP,
        input::GROUP,
        malformed::GROUP,
        tunnels::GROUP,
        cni::GROUP,
        speed::GROUP,
        restart::GROUP,
        rollout::GROUP,
    ];
    let trials = groups.into_iter().flat_map(group::Group::trials);
    let trials = trials.map(|trial| trial.with_ignored_flag(!is_root)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
