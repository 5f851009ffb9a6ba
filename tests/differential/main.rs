//! The differential test: the same Kubernetes objects and the same packets, once for a Linux kernel with kube-proxy's rules in
//! real iptables, once for the vRouter with the controller's tables.
//!
//! `cargo test -p vrouter-tests --test differential` goes through a fixed list of seeds; `VROUTER_SEEDS=70,80` names others.
//! It needs root, for network namespaces.
//!
//! A disagreement is printed with everything that it takes to understand it. What is meant to differ is listed in
//! `difference.rs`, and each entry of the list must be met at least once.

mod compare;
mod control;
mod difference;
mod frontends;
mod generate;
mod kernel;
mod objects;
mod packet;
mod place;
mod proxy;
mod question;
mod random;
mod rendered;
mod router;
mod self_check;
mod verdict;
mod world;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::compare::Scene;
use crate::difference::{DIFFERENCES, Met};

/// How many seeds there are in every run.
const SEEDS: u64 = 16;
/// Other seeds, separated by commas.
const SEEDS_VARIABLE: &str = "VROUTER_SEEDS";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // All of them use one CPU, and one after the other is as fast.
    arguments.test_threads = Some(1);
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("Every case is ignored: network namespaces need root.");
    }
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let trials = self_check::trials().into_iter().chain(comparisons(&seeds));
    let trials: Vec<Trial> = trials.map(|trial| trial.with_ignored_flag(!is_root)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn seeds() -> Result<Vec<u64>> {
    let Ok(text) = std::env::var(SEEDS_VARIABLE) else { return Ok((1..=SEEDS).collect()) };
    let seeds = text.split(',').map(|seed| seed.trim().parse());
    seeds.collect::<Result<_, _>>().with_context(|| format!("{SEEDS_VARIABLE}={text}"))
}

fn comparisons(seeds: &[u64]) -> Vec<Trial> {
    let tally = Arc::new(Mutex::new((0, Met::none_of(DIFFERENCES))));
    let mut trials = Vec::new();
    for &seed in seeds {
        let tally = Arc::clone(&tally);
        trials.push(trial(format!("vrouter::seed_{seed}"), move || {
            let met = Scene::new(seed).against_router()?;
            let mut tally = tally.lock().expect("no trial panics with it");
            tally.0 += 1;
            tally.1.add(met);
            Ok(())
        }));
    }
    let all = SEEDS as usize;
    trials.push(trial("vrouter::every_intended_difference_is_met".to_owned(), move || {
        let tally = tally.lock().expect("no trial panics with it");
        println!("What differs as it is meant to, and how often:\n{}", tally.1);
        let unmet = tally.1.unmet();
        // A part of the seeds need not meet all.
        ensure!(tally.0 < all || unmet.is_empty(), "never met: {unmet:?}");
        Ok(())
    }));
    for &seed in seeds {
        trials.push(trial(format!("as_iptables::seed_{seed}"), move || Scene::new(seed).against_rendered()));
    }
    trials
}

fn trial(name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, || run().map_err(|error| Failed::from(format!("{error:#}"))))
}
