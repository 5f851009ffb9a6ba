//! Collecting figures over the rounds.

use std::collections::BTreeMap;

use vrouter_lab::statistics::Summary;

use crate::case::{Case, Metric};
use crate::measure::Figure;
use crate::plan::Stage;
use crate::report::{Row, beside};
use crate::subject::{Place, Services, Subject};

/// What a figure is of. Ordered as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: Place,
    services: Services,
    case: Case,
    metric: Metric,
    subject: Subject,
}

/// Every figure that was measured.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<Key, Vec<f64>>);

impl Figures {
    /// Adds what a case showed in a stage.
    pub fn add(&mut self, stage: &Stage, case: Case, figures: &[Figure]) {
        let Stage { place, services, subject, .. } = *stage;
        for figure in figures {
            let key = Key { place, services, case, metric: figure.metric, subject };
            self.0.entry(key).or_default().push(figure.value);
        }
    }

    /// What they come to.
    pub fn rows(&self) -> Vec<Row> {
        self.0.iter().filter_map(|(key, values)| Some(self.row(key, Summary::of(values)?))).collect()
    }

    fn row(&self, key: &Key, summary: Summary) -> Row {
        let Key { place, services, case, metric, subject } = *key;
        let reference = Key { subject: Subject::Nftables, services: beside(services), ..*key };
        let reference = self.0.get(&reference).and_then(|values| Summary::of(values));
        Row {
            case,
            place,
            subject,
            services,
            metric,
            unit: metric.unit(),
            median: summary.median,
            min: summary.min,
            max: summary.max,
            runs: summary.runs,
            ratio: reference.map(|reference| summary.median / reference.median),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::USUAL;

    fn stage(subject: Subject, place: Place) -> Stage {
        Stage { round: 0, place, services: subject.loaded(USUAL), subject, cases: Vec::new() }
    }

    #[test]
    fn ratios_are_to_the_nftables_of_the_same_place() {
        let mut figures = Figures::default();
        let mut add = |subject, place, values: &[f64]| {
            for &value in values {
                let figure = Figure { metric: Metric::Gbps, value };
                figures.add(&stage(subject, place), Case::Tcp1, &[figure]);
            }
        };
        add(Subject::VRouter, Place::Same, &[30.0, 10.0, 15.0]);
        add(Subject::Nftables, Place::Same, &[10.0, 10.0, 40.0]);
        add(Subject::Veth, Place::Same, &[25.0]);
        add(Subject::VRouter, Place::Cross, &[7.0]);
        let rows = figures.rows();
        let ratios: Vec<_> = rows.iter().map(|row| (row.place, row.subject, row.ratio)).collect();
        let wanted = [
            (Place::Same, Subject::Veth, Some(2.5)),
            (Place::Same, Subject::VRouter, Some(1.5)),
            (Place::Same, Subject::Nftables, Some(1.0)),
            (Place::Cross, Subject::VRouter, None),
        ];
        assert_eq!(ratios, wanted);
        assert_eq!((rows[1].median, rows[1].min, rows[1].max, rows[1].runs), (15.0, 10.0, 30.0, 3));
    }
}
