//! The command line of `vrouter-bench`, which `scripts/bench` passes through.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vrouter_lab::name::LabName;
use vrouter_lab::state::Vxlan;

use crate::case::Case;
use crate::subject::{Place, Policy, Subject};

/// Measures the vRouter beside kube-proxy's nftables and iptables modes, Open vSwitch and a bare veth pair.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub struct Arguments {
    /// The vRouter and nftables only, with 1,000 services only.
    #[arg(long)]
    quick: bool,
    /// Measure this case only; may be given several times.
    #[arg(long, value_name = "CASE")]
    only: Vec<Case>,
    /// Measure at this place only; may be given several times.
    #[arg(long)]
    place: Vec<Place>,
    /// Measure this subject only; may be given several times.
    #[arg(long)]
    subject: Vec<Subject>,
    /// How often each figure is taken.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Seconds of each measurement [default: 3, or 2 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Where to write the figures.
    #[arg(long, value_name = "FILE", default_value = "target/bench/compare.json")]
    pub json: PathBuf,
    /// Where to draw the chart.
    #[arg(long, value_name = "FILE", default_value = "target/bench/compare.svg")]
    pub chart: PathBuf,
    /// How the vRouter's packets get into tunnels.
    #[arg(long, default_value = "sockets")]
    pub vxlan: Vxlan,
    /// Whether network policies select the measured pods and admit what is measured.
    #[arg(long, default_value = "off")]
    pub policy: Policy,
    /// The name of the lab the subjects are set up in.
    #[arg(long, default_value = "bench")]
    pub name: LabName,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What a change must not make worse.
    Quick,
    /// Everything.
    Full,
}

impl Arguments {
    /// How much is measured.
    pub fn extent(&self) -> Extent {
        if self.quick { Extent::Quick } else { Extent::Full }
    }

    /// Each once, in the usual order.
    pub fn cases(&self) -> Vec<Case> {
        chosen(&self.only, Case::value_variants())
    }

    /// Each once, in the usual order.
    pub fn places(&self) -> Vec<Place> {
        chosen(&self.place, Place::value_variants())
    }

    /// Each once, in the usual order.
    pub fn subjects(&self) -> Vec<Subject> {
        match self.extent() {
            Extent::Quick => chosen(&self.subject, &[Subject::VRouter, Subject::Nftables]),
            Extent::Full => chosen(&self.subject, Subject::value_variants()),
        }
    }

    /// How often each figure is taken.
    pub fn rounds(&self) -> usize {
        self.rounds.into()
    }

    /// Of each measurement.
    pub fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(match self.extent() {
            Extent::Quick => 2,
            Extent::Full => 3,
        })
    }
}

/// What was asked for, or all of it.
fn chosen<T: Copy + Ord>(asked: &[T], all: &[T]) -> Vec<T> {
    let mut chosen = if asked.is_empty() { all.to_vec() } else { asked.to_vec() };
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split(' '))
    }

    #[test]
    fn everything_is_measured_unless_told_otherwise() {
        Arguments::command().debug_assert();
        let full = parse("bench").unwrap();
        assert_eq!((full.cases().len(), full.places().len(), full.subjects().len()), (8, 2, 6));
        assert_eq!((full.rounds(), full.seconds()), (3, 3));
        assert_eq!(full.vxlan, Vxlan::Sockets);
        assert_eq!(parse("bench --vxlan device").unwrap().vxlan, Vxlan::Device);
        assert_eq!((full.policy, parse("bench --policy on").unwrap().policy), (Policy::Off, Policy::On));
        let quick = parse("bench --quick").unwrap();
        assert_eq!(quick.subjects(), [Subject::VRouter, Subject::Nftables]);
        assert_eq!((quick.cases().len(), quick.rounds(), quick.seconds()), (8, 3, 2));
    }

    #[test]
    fn choices_are_taken_once_and_in_order() {
        let some = parse("bench --quick --only crr --only tcp1 --only crr --subject ovs-tso").unwrap();
        assert_eq!(some.cases(), [Case::Tcp1, Case::Crr]);
        assert_eq!(some.subjects(), [Subject::OvsTso]);
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        for (line, told) in [
            ("bench --only tcp2", "tcp2"),
            ("bench --place near", "near"),
            ("bench --subject ipvs", "ipvs"),
            ("bench --rounds 0", "--rounds"),
            ("bench --seconds 0", "--seconds"),
            ("bench --seconds 1.5", "--seconds"),
            ("bench --vxlan tcp", "--vxlan"),
            ("bench --policy maybe", "--policy"),
            ("bench --name A", "lab name"),
            ("bench tcp1", "tcp1"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
