//! The differential test of policies: what a plain reading of the Kubernetes text says of a packet, and what becomes of it in
//! a cluster of vRouters in memory, with the tables that the controller makes of the same objects.
//!
//! `cargo test -p vrouter-tests --test policy` goes through a fixed list of seeds, `VROUTER_SEEDS=70,80` names others. A
//! disagreement is made as small as it can be, and printed with the tables. What was found is kept in `cases`.

mod cases;
mod controller;
mod fleet;
mod generate;
mod objects;
mod play;
#[path = "../random.rs"]
mod random;
mod reach;
mod script;
mod shrink;
mod text;
mod wire;
mod world;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::play::{Tally, play};

/// How many seeds there are in every run.
const SEEDS: u64 = 300;
/// Fewer cases than this are no test.
const CASES: usize = 150_000;
/// Other seeds, separated by commas.
const SEEDS_VARIABLE: &str = "VROUTER_SEEDS";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The last trial sums up what the others saw.
    arguments.test_threads = Some(1);
    let seeds = match seeds() {
        Ok(seeds) => seeds,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let trials = cases::trials().into_iter().chain(comparisons(&seeds));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn seeds() -> Result<Vec<u64>> {
    let Ok(text) = std::env::var(SEEDS_VARIABLE) else { return Ok((1..=SEEDS).collect()) };
    let seeds = text.split(',').map(|seed| seed.trim().parse());
    seeds.collect::<Result<_, _>>().with_context(|| format!("{SEEDS_VARIABLE}={text}"))
}

fn comparisons(seeds: &[u64]) -> Vec<Trial> {
    let sum = Arc::new(Mutex::new((0, Tally::default())));
    let mut trials = Vec::new();
    for &seed in seeds {
        let sum = Arc::clone(&sum);
        trials.push(trial(format!("text::seed_{seed}"), move || {
            let tally = compare(seed)?;
            let mut sum = sum.lock().expect("no trial panics with it");
            sum.0 += 1;
            sum.1 += tally;
            Ok(())
        }));
    }
    let all = SEEDS;
    trials.push(trial("text::enough_cases".to_owned(), move || {
        let (seeds, tally) = *sum.lock().expect("no trial panics with it");
        println!("{tally}");
        // A part of the seeds need not meet as many.
        ensure!(seeds < all || tally.cases() >= CASES, "only {} cases", tally.cases());
        Ok(())
    }));
    trials
}

fn compare(seed: u64) -> Result<Tally> {
    let script = generate::script(seed);
    match play(&script)? {
        Ok(tally) => Ok(tally),
        Err(disagreement) => {
            let (script, disagreement) = shrink::smallest(script, disagreement);
            bail!("seed {seed}: {}\n{script}\n{}", disagreement.summary, disagreement.details)
        }
    }
}

fn trial(name: String, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, || run().map_err(|error| Failed::from(format!("{error:#}"))))
}
