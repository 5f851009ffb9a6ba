//! What a run found, in the shape that programs rely on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::case::{Case, Metric};
use crate::machine::Machine;
use crate::plan::USUAL;
use crate::subject::{Place, Services, Subject};

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where and how it was measured.
    pub machine: Machine,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// One figure of one subject, over all rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was sent.
    pub case: Case,
    /// Where client and servers were.
    pub place: Place,
    /// What forwarded it.
    pub subject: Subject,
    /// How many other services were loaded; none where the subject knows no services.
    pub services: Services,
    /// What is counted.
    pub metric: Metric,
    /// The metric's unit.
    pub unit: &'static str,
    /// The middle of the runs.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// How many runs.
    pub runs: usize,
    /// The median by the nftables subject's, where that was measured too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl Report {
    /// Writes it as JSON.
    pub fn write(&self, file: &Path) -> Result<()> {
        write(file, &serde_json::to_string_pretty(self)?)
    }
}

/// The number of services whose figures these stand beside: those of a subject without services belong to the usual ones.
pub fn beside(services: Services) -> Services {
    if services == Services::NONE { USUAL } else { services }
}

/// Writes a file, and makes its folder where there is none.
pub fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(file, text).with_context(|| file.display().to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A row with this median and ratio.
    pub fn row(case: Case, metric: Metric, subject: Subject, median: f64, ratio: Option<f64>) -> Row {
        Row {
            case,
            place: Place::Same,
            subject,
            services: Services(1000),
            metric,
            unit: metric.unit(),
            median,
            min: median,
            max: median,
            runs: 1,
            ratio,
        }
    }

    #[test]
    fn rows_have_the_promised_shape() {
        let mut wanted = json!({
            "case": "pingpong", "place": "same", "subject": "ovs-tso", "services": 1000, "metric": "p50_us",
            "unit": "us", "median": 25.5, "min": 25.5, "max": 25.5, "runs": 1, "ratio": 0.75,
        });
        let measured = row(Case::PingPong, Metric::P50Us, Subject::OvsTso, 25.5, Some(0.75));
        assert_eq!(serde_json::to_value(&measured).unwrap(), wanted);
        wanted.as_object_mut().unwrap().remove("ratio");
        assert_eq!(serde_json::to_value(Row { ratio: None, ..measured }).unwrap(), wanted);
    }

    #[test]
    fn a_report_is_written_into_a_new_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench/compare.json");
        let report = Report { machine: Machine::default(), rows: Vec::new() };
        report.write(&file).unwrap();
        let read: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(read["rows"], json!([]));
        assert!(read["machine"]["kernel"].is_string());
    }
}
