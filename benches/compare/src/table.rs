//! The figures for people.

use std::collections::BTreeSet;

use vrouter_lab::status;

use crate::case::{Better, Case, Metric};
use crate::machine::Machine;
use crate::report::{Report, Row, beside};
use crate::subject::{Place, Services, Subject};

/// Tables of medians with their ratios, one for each place and number of services, and what they were measured on.
pub fn render(report: &Report) -> String {
    let groups: BTreeSet<_> = report.rows.iter().map(|row| (row.place, beside(row.services))).collect();
    let mut parts: Vec<_> =
        groups.into_iter().map(|(place, services)| group(report, place, services)).collect();
    let mut notes = vec![
        "Medians, in parentheses the ratio to nftables. Lower is better where marked (-).".to_owned(),
        report.machine.summary(),
    ];
    notes.extend(report.machine.warning());
    let subjects: BTreeSet<_> = report.rows.iter().map(|row| row.subject).collect();
    notes.extend(subjects.into_iter().filter_map(|subject| note(subject, &report.machine)));
    notes.extend(report.machine.skipped.iter().map(|skipped| format!("skipped: {skipped}")));
    notes.extend(report.machine.failed.iter().map(|failure| format!("FAILED: {failure}")));
    parts.push(notes.join("\n"));
    parts.join("\n\n")
}

/// What is to be known of a subject.
fn note(subject: Subject, machine: &Machine) -> Option<String> {
    match subject {
        Subject::VRouter => Some(format!("vrouter: --vxlan {} --policy {}", machine.vxlan, machine.policy)),
        Subject::Nftables => Some(machine.tracking()),
        Subject::Iptables => {
            Some("iptables: the measured services stand in the middle of the chain".to_owned())
        }
        Subject::Veth => Some(
            "veth: no services; on one node a bare pair, across nodes the kernel's routing over VXLAN"
                .to_owned(),
        ),
        Subject::Ovs | Subject::OvsTso => None,
    }
}

fn group(report: &Report, place: Place, services: Services) -> String {
    let rows: Vec<_> =
        report.rows.iter().filter(|row| (row.place, beside(row.services)) == (place, services)).collect();
    let subjects: BTreeSet<_> = rows.iter().map(|row| row.subject).collect();
    let figures: BTreeSet<_> = rows.iter().map(|row| (row.case, row.metric)).collect();
    let names: Vec<_> = subjects.iter().map(|subject| subject.to_string().to_uppercase()).collect();
    let header: Vec<_> = ["CASE", "UNIT"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let lines = figures.into_iter().map(|(case, metric)| line(&rows, &subjects, case, metric));
    format!("{}, {services}:\n{}", title(place), status::table(&header, lines))
}

fn line(rows: &[&Row], subjects: &BTreeSet<Subject>, case: Case, metric: Metric) -> Vec<String> {
    let cell = |subject: &Subject| {
        let row = rows.iter().find(|row| (row.case, row.metric, row.subject) == (case, metric, *subject));
        row.map_or_else(|| "-".to_owned(), |row| self::cell(row))
    };
    let mark = match metric.better() {
        Better::Higher => "",
        Better::Lower => " (-)",
    };
    let name = label(case, metric) + mark;
    [name, metric.unit().to_owned()].into_iter().chain(subjects.iter().map(cell)).collect()
}

fn cell(row: &Row) -> String {
    let median = short(row.median);
    match row.ratio {
        // Its ratio to itself says nothing.
        Some(ratio) if row.subject != Subject::Nftables => format!("{median} ({ratio:.2})"),
        _ => median,
    }
}

/// A case, and which of its figures where it has several.
pub fn label(case: Case, metric: Metric) -> String {
    match metric.quantile() {
        Some(quantile) => format!("{case} {quantile}"),
        None => case.to_string(),
    }
}

/// A place for people.
pub fn title(place: Place) -> &'static str {
    match place {
        Place::Same => "Same node",
        Place::Cross => "Two nodes",
    }
}

/// A figure with three digits that count.
pub fn short(value: f64) -> String {
    let (value, unit) = if value >= 9_999.5 { (value / 1e3, "k") } else { (value, "") };
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Skipped;
    use crate::report::tests::row;

    #[test]
    fn three_digits_count() {
        for (value, wanted) in [
            (0.1234, "0.12"),
            (9.996, "10.0"),
            (18.123, "18.1"),
            (99.96, "100"),
            (284.4, "284"),
            (9_999.0, "9999"),
            (15_712.0, "15.7k"),
            (121_712.0, "122k"),
        ] {
            assert_eq!(short(value), wanted);
        }
    }

    #[test]
    fn a_full_table_fits_a_terminal_and_tells_of_gaps() {
        let subjects = [
            Subject::VRouter,
            Subject::Nftables,
            Subject::Iptables,
            Subject::Ovs,
            Subject::OvsTso,
            Subject::Veth,
        ];
        let rate = |subject| row(Case::KeepAlive, Metric::Rps, subject, 121_700.0, Some(0.98));
        let mut rows: Vec<_> = subjects.into_iter().map(rate).collect();
        rows[5].services = Services::NONE;
        rows.push(row(Case::PingPong, Metric::P50Us, Subject::VRouter, 29.6, None));
        let reason = "no tunnel".to_owned();
        let skipped = vec![Skipped { subject: Subject::Veth, place: Place::Cross, reason }];
        let text = render(&Report { machine: Machine { skipped, ..Machine::default() }, rows });
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(text.contains("122k (0.98)") && text.contains("pingpong p50 (-)"), "{text}");
        assert_eq!(text.matches("other services:").count(), 1, "{text}");
        assert!(text.contains("skipped: veth, cross: no tunnel"), "{text}");
    }
}
