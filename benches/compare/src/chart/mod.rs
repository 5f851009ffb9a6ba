//! The figures as a chart: bars that say how many times nftables' figure a subject reaches.

mod panel;

use std::collections::BTreeSet;
use std::error::Error;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::Report;
use crate::subject::{Place, Subject};

const WIDTH: u32 = 1280;
const HEADER: u32 = 92;
const PANEL: u32 = 330;

/// Where headings and the first entry of the legend begin.
const LEFT: i32 = 24;
const LEGEND_STEP: i32 = 110;

const INK: RGBColor = RGBColor(30, 30, 30);
const FAINT_INK: RGBColor = RGBColor(95, 95, 95);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What drawing comes to; its errors borrow from the picture.
type Drawn = Result<(), Box<dyn Error>>;

/// An SVG picture; none where nothing was measured beside nftables.
pub fn render(report: &Report) -> Result<Option<String>> {
    let compared = report.rows.iter().filter(|row| row.subject != Subject::Nftables && row.ratio.is_some());
    let places: BTreeSet<_> = compared.clone().map(|row| row.place).collect();
    let subjects: BTreeSet<_> = compared.map(|row| row.subject).collect();
    if places.is_empty() {
        return Ok(None);
    }
    let mut picture = String::new();
    draw(&mut picture, report, &places, &subjects).map_err(|error| anyhow!("the chart: {error}"))?;
    Ok(Some(picture))
}

fn draw(
    picture: &mut String,
    report: &Report,
    places: &BTreeSet<Place>,
    subjects: &BTreeSet<Subject>,
) -> Drawn {
    let size = (WIDTH, HEADER + PANEL * u32::try_from(places.len())?);
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&WHITE)?;
    let (header, body) = root.split_vertically(HEADER);
    draw_header(&header, report, subjects)?;
    for (area, place) in body.split_evenly((places.len(), 1)).iter().zip(places) {
        panel::draw(area, report, *place)?;
    }
    root.present()?;
    Ok(())
}

fn draw_header(area: &Area, report: &Report, subjects: &BTreeSet<Subject>) -> Drawn {
    let title = "Ratio to kernel routing with nftables (1.0), medians";
    area.draw(&Text::new(title, (LEFT, 24), text(20, INK, HPos::Left)))?;
    area.draw(&Text::new(report.machine.summary(), (LEFT, 48), text(13, FAINT_INK, HPos::Left)))?;
    for (subject, x) in subjects.iter().zip((LEFT..).step_by(LEGEND_STEP.unsigned_abs() as usize)) {
        let swatch = [(x, 66), (x + 14, 80)];
        area.draw(&Rectangle::new(swatch, colour(*subject).filled()))?;
        area.draw(&Text::new(subject.to_string(), (x + 20, 73), text(14, INK, HPos::Left)))?;
    }
    Ok(())
}

/// Text centred vertically on its point.
fn text(size: i32, colour: RGBColor, horizontal: HPos) -> TextStyle<'static> {
    TextStyle {
        font: ("sans-serif", size).into_font(),
        color: colour.to_backend_color(),
        pos: Pos::new(horizontal, VPos::Center),
    }
}

/// Colours that also the colour-blind tell apart.
fn colour(subject: Subject) -> RGBColor {
    match subject {
        Subject::VRouter => RGBColor(0, 114, 178),
        Subject::Nftables => RGBColor(60, 60, 60),
        Subject::Iptables => RGBColor(230, 159, 0),
        Subject::Ovs => RGBColor(204, 121, 167),
        Subject::OvsTso => RGBColor(0, 158, 115),
        Subject::Veth => RGBColor(170, 170, 170),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Metric};
    use crate::machine::Machine;
    use crate::report::Row;
    use crate::report::tests::row;
    use crate::subject::Services;

    fn report(rows: Vec<Row>) -> Report {
        Report { machine: Machine::default(), rows }
    }

    #[test]
    fn bars_stand_beside_the_line() {
        let rows = vec![
            row(Case::Tcp1, Metric::Gbps, Subject::VRouter, 20.0, Some(1.04)),
            row(Case::Tcp1, Metric::Gbps, Subject::Nftables, 19.2, Some(1.0)),
            row(Case::PingPong, Metric::P99Us, Subject::VRouter, 200.0, Some(5.0)),
            Row {
                services: Services(10_000),
                ..row(Case::Crr, Metric::Rps, Subject::Iptables, 4_000.0, Some(0.25))
            },
        ];
        let picture = render(&report(rows)).unwrap().unwrap();
        for told in
            ["Same node", "lower is better", "pingpong p99", "10,000 services", "5.00", "1.04", "iptables"]
        {
            assert!(picture.contains(told), "{told}: {picture}");
        }
        assert!(!picture.contains("Two nodes"));
    }

    #[test]
    fn without_nftables_there_is_nothing_to_draw() {
        let rows = vec![row(Case::Tcp1, Metric::Gbps, Subject::VRouter, 20.0, None)];
        assert!(render(&report(rows)).unwrap().is_none());
    }
}
