//! Groups of cases, each on a lab that is brought up for its first case and goes after its last.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Error, Result};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use vrouter_tests::lab::{Lab, Programs, Shape};

/// Cases with one lab.
#[derive(Clone, Copy)]
pub struct Group {
    /// What its cases' names begin with.
    pub name: &'static str,
    /// What its lab consists of.
    pub shape: Shape,
    /// What is in it at first.
    pub objects: fn(&Programs) -> Vec<Value>,
    /// The cases, in the order they run.
    pub cases: &'static [(&'static str, Case)],
}

/// What a case does with the group's lab. It leaves the lab as it found it.
pub type Case = fn(&Lab) -> Result<()>;

/// Functions, each with its name.
macro_rules! cases {
    ($($case:ident),* $(,)?) => { &[$((stringify!($case), $case)),*] };
}
pub(crate) use cases;

/// A group's lab. Every case that is still to run holds it, so it goes with the last of them.
struct Stage {
    group: Group,
    lab: OnceLock<Result<Lab, String>>,
}

impl Group {
    /// The cases as the harness takes them.
    pub fn trials(self) -> Vec<Trial> {
        let stage = Arc::new(Stage { group: self, lab: OnceLock::new() });
        let trial = |(name, case): &(&str, Case)| {
            let (stage, case) = (stage.clone(), *case);
            Trial::test(format!("{}::{name}", self.name), move || stage.run(case))
        };
        self.cases.iter().map(trial).collect()
    }
}

impl Stage {
    fn run(&self, case: Case) -> Result<(), Failed> {
        let lab = self.lab.get_or_init(|| self.up().map_err(|error| format!("{error:#}")));
        let lab = lab.as_ref().map_err(|reason| format!("the lab is not up: {reason}"))?;
        case(lab).map_err(|error: Error| format!("{error:#}").into())
    }

    fn up(&self) -> Result<Lab> {
        let Group { name, shape, objects, .. } = self.group;
        let programs = programs()?;
        Lab::up(programs, name, shape, &objects(programs))
    }
}

/// The programs under test, found once.
fn programs() -> Result<&'static Programs> {
    static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
    let find = || {
        let programs = Programs::find(Path::new(env!("CARGO_BIN_EXE_vrouter-probe")))?;
        programs.sweep()?;
        anyhow::Ok(programs)
    };
    FOUND
        .get_or_init(|| find().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|reason| Error::msg(reason.clone()))
}
