//! Printing: tables for people, JSON and YAML for programs.

use std::io::Write;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::error::CliError;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns, for people.
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Something that is one line of a table.
pub trait Row: Serialize {
    /// The columns' headings.
    const HEADINGS: &'static [&'static str];

    /// The columns.
    fn cells(&self) -> Vec<String>;
}

/// Prints rows: as a table, or as a list of documents.
pub fn rows<T: Row>(format: Format, rows: &[T]) -> Result<(), CliError> {
    match format {
        Format::Table => print(&table(rows)),
        Format::Json | Format::Yaml => document(format, rows),
    }
}

/// The rows as a table.
pub fn table<T: Row>(rows: &[T]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(T::HEADINGS.iter().copied());
    for row in rows {
        table.add_row(row.cells());
    }
    // Every column has a blank before it; the first needs none.
    let trim = |line: String| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned();
    table.lines().map(trim).collect::<Vec<_>>().join("\n")
}

/// `name: value` lines, the values below each other.
pub fn lines(facts: &[(String, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 2;
    let line = |(name, value): &(String, String)| format!("{:width$}{value}", format!("{name}:"));
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// One of them.
pub fn fact(name: impl Into<String>, value: impl ToString) -> (String, String) {
    (name.into(), value.to_string())
}

/// Prints one document, as JSON unless YAML was asked for.
pub fn document<T: Serialize + ?Sized>(format: Format, document: &T) -> Result<(), CliError> {
    match format {
        Format::Yaml => print(serde_yaml_ng::to_string(document)?.trim_end()),
        Format::Json | Format::Table => print(&serde_json::to_string_pretty(document)?),
    }
}

/// Prints text as it is.
pub fn print(text: &str) -> Result<(), CliError> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// A byte count, as people read it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = "B";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") }
}

/// A span of time, as people read it.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds}ms"),
        1..60 => format!("{}.{}s", seconds, milliseconds % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Example(u8);

    impl Row for Example {
        const HEADINGS: &'static [&'static str] = &["NUMBER", "AGAIN"];

        fn cells(&self) -> Vec<String> {
            vec![self.0.to_string(), format!("{:03}", self.0)]
        }
    }

    #[test]
    fn tables_have_headings_and_no_trailing_blanks() {
        let lines: Vec<_> = table(&[Example(1), Example(22)]).lines().map(str::to_owned).collect();
        assert_eq!(lines, ["NUMBER  AGAIN", "1       001", "22      022"]);
    }

    #[test]
    fn facts_stand_below_each_other() {
        let facts = [fact("a", 1), fact("longer", "two")];
        assert_eq!(lines(&facts), "a:      1\nlonger: two");
    }

    #[test]
    fn numbers_as_people_read_them() {
        for (count, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")] {
            assert_eq!(bytes(count), expected);
        }
        for (count, expected) in
            [(40, "40ms"), (1500, "1.5s"), (61_000, "1m01s"), (7_260_000, "2h01m"), (90_000_000, "1d01h")]
        {
            assert_eq!(duration(count), expected);
        }
    }
}
