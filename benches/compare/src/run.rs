//! Carrying a plan out.

use std::fmt;

use anyhow::{Result, bail};
use serde::Serialize;
use vrouter_lab::commands::lifecycle;
use vrouter_lab::name::LabName;
use vrouter_lab::state::Vxlan;

use crate::arguments::Arguments;
use crate::case::Case;
use crate::chart;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::measure::{self, Figure};
use crate::plan::{Plan, Stage};
use crate::report::{self, Report};
use crate::servers::Servers;
use crate::subject::{Conditions, Policy, Site};
use crate::table::{self, short};

/// Something that went wrong: it leaves a gap in the figures, never a wrong one.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// What was tried.
    pub what: String,
    /// What happened.
    pub error: String,
}

/// Measures everything, shows it and writes it down. Fails where anything could not be measured.
pub fn run(arguments: &Arguments) -> Result<()> {
    let machine = Machine::this()?;
    let plan = Plan::of(arguments);
    if let Some(warning) = machine.warning() {
        eprintln!("{warning}");
    }
    for skipped in &plan.skipped {
        eprintln!("skipped: {skipped}");
    }
    let mut run = Run::new(arguments, plan.measurements());
    for stage in &plan.stages {
        run.stage(stage);
    }
    let machine = Machine {
        rounds: arguments.rounds(),
        seconds: arguments.seconds(),
        vxlan: arguments.vxlan.as_str(),
        policy: arguments.policy.as_str(),
        skipped: plan.skipped,
        failed: run.failures,
        ..machine
    };
    conclude(arguments, &Report { machine, rows: run.figures.rows() })
}

fn conclude(arguments: &Arguments, report: &Report) -> Result<()> {
    report.write(&arguments.json)?;
    println!("{}", table::render(report));
    println!("\nfigures: {}", arguments.json.display());
    if let Some(chart) = chart::render(report)? {
        report::write(&arguments.chart, &chart)?;
        println!("chart: {}", arguments.chart.display());
    }
    match report.machine.failed.as_slice() {
        [] if report.rows.is_empty() => bail!("nothing of this can be measured here"),
        [] => Ok(()),
        failed => bail!("{} could not be measured; the first: {}", failed.len(), failed[0]),
    }
}

/// A run under way.
struct Run<'a> {
    lab: &'a LabName,
    seconds: u32,
    vxlan: Vxlan,
    policy: Policy,
    measurements: usize,
    done: usize,
    figures: Figures,
    failures: Vec<Failure>,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a Arguments, measurements: usize) -> Self {
        Self {
            lab: &arguments.name,
            seconds: arguments.seconds(),
            vxlan: arguments.vxlan,
            policy: arguments.policy,
            measurements,
            done: 0,
            figures: Figures::default(),
            failures: Vec::new(),
        }
    }

    fn stage(&mut self, stage: &Stage) {
        let last = self.done + stage.cases.len();
        eprintln!("==> {stage}");
        if let Err(error) = self.measure(stage) {
            self.fail(stage.to_string(), &error);
            if let Err(error) = lifecycle::down(self.lab) {
                self.fail(format!("removing what is left of {stage}"), &error);
            }
        }
        self.done = last;
    }

    fn measure(&mut self, stage: &Stage) -> Result<()> {
        let conditions = Conditions { services: stage.services, vxlan: self.vxlan, policy: self.policy };
        let site = Site::build(self.lab, stage.subject, stage.place, conditions)?;
        let servers = Servers::start(self.lab, &site)?;
        let busy = measure::wait_until_idle()?;
        eprintln!("    the machine is {:.0} % busy", 100.0 * busy);
        let width = self.measurements.to_string().len();
        for &case in &stage.cases {
            self.done += 1;
            eprint!("    {:width$} of {}  {case}: ", self.done, self.measurements);
            match measure::measure(case, &site, self.seconds) {
                Ok(figures) => self.note(stage, case, &figures),
                Err(error) => self.fail(stage.to_string(), &error),
            }
        }
        servers.stop()?;
        site.remove()
    }

    fn note(&mut self, stage: &Stage, case: Case, figures: &[Figure]) {
        let said: Vec<_> =
            figures.iter().map(|it| format!("{} {}", short(it.value), it.metric.unit())).collect();
        eprintln!("{}", said.join(", "));
        self.figures.add(stage, case, figures);
    }

    fn fail(&mut self, what: String, error: &anyhow::Error) {
        let failure = Failure { what, error: format!("{error:#}") };
        eprintln!("FAILED: {failure}");
        self.failures.push(failure);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}
