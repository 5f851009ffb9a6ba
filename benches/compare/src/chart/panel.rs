//! One place's bars.

use std::collections::BTreeSet;

use plotters::chart::ChartContext;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Area, Drawn, FAINT_INK, INK, colour, text};
use crate::case::{Better, Case, Metric};
use crate::plan::USUAL;
use crate::report::{Report, Row, beside};
use crate::subject::{Place, Services, Subject};
use crate::table::{label, title};

/// Bars end here at the latest; how far a longer one would go is written on it.
const CEILING: f64 = 2.4;

/// Room above the bars for what is written there.
const HEADROOM: f64 = 0.25;

/// So much of a group's room is taken by its bars.
const FILL: f64 = 0.8;

/// Of a bar's room, so much is the bar.
const BAR: f64 = 0.92;

/// Up to so many subjects, each bar has its figure above it; else the vRouter's has.
const FEW: usize = 2;

/// A figure this far below the line would be struck through by it.
const STRUCK: f64 = 0.13;

const SHADE: RGBColor = RGBColor(245, 243, 236);

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Bars that stand together. Ordered as they stand: first what should be high, then what should be low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    should_be_low: bool,
    case: Case,
    metric: Metric,
    /// None for the usual number.
    services: Option<Services>,
}

impl Group {
    fn of(row: &Row) -> Self {
        let Row { case, metric, services, .. } = *row;
        let services = Some(beside(services)).filter(|services| *services != USUAL);
        Self { should_be_low: metric.better() == Better::Lower, case, metric, services }
    }
}

/// A bar, and how high it is.
#[derive(Debug, Clone, Copy)]
struct Bar {
    group: Group,
    subject: Subject,
    ratio: f64,
}

pub(super) fn draw(area: &Area, report: &Report, place: Place) -> Drawn {
    let bars: Vec<_> = report.rows.iter().filter(|row| row.place == place).filter_map(bar).collect();
    let groups: Vec<_> = bars.iter().map(|bar| bar.group).collect::<BTreeSet<_>>().into_iter().collect();
    let subjects = bars.iter().map(|bar| bar.subject).collect::<BTreeSet<_>>().len();
    let top = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::max).min(CEILING) + HEADROOM;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_top(30)
        .x_label_area_size(38)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..top)?;
    area.draw(&Text::new(title(place), (24, 14), text(16, INK, HPos::Left)))?;
    shade(&mut chart, &groups, top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(8)
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(222, 222, 222))
        .y_label_formatter(&|ratio| format!("{ratio:.1}"))
        .label_style(text(12, FAINT_INK, HPos::Right))
        .draw()?;
    let stood: Vec<_> =
        groups.iter().zip(0..).flat_map(|(group, at)| stand(at, group, &bars, subjects)).collect();
    chart
        .draw_series(stood.iter().map(|it| Rectangle::new(it.corners(), colour(it.bar.subject).filled())))?;
    let line = [(0.0, 1.0), (groups.len() as f64, 1.0)];
    chart.draw_series([PathElement::new(line, INK.stroke_width(2))])?;
    let told = |it: &&Stood| subjects <= FEW || it.bar.subject == Subject::VRouter || it.bar.ratio > CEILING;
    chart.draw_series(stood.iter().filter(told).map(Stood::figure))?;
    groups.iter().zip(0..).try_for_each(|(group, at)| name(area, &chart, at, group))
}

/// A bar in its place.
struct Stood {
    bar: Bar,
    left: f64,
    right: f64,
}

/// Puts a group's bars beside one another, around the middle of its room.
fn stand(at: u32, group: &Group, bars: &[Bar], subjects: usize) -> Vec<Stood> {
    let bars: Vec<_> = bars.iter().filter(|bar| bar.group == *group).collect();
    let room = FILL / subjects as f64;
    let first = f64::from(at) + (1.0 - room * bars.len() as f64) / 2.0;
    let left = |number: u32| first + room * f64::from(number);
    let stood = |(bar, number): (&Bar, u32)| Stood {
        bar: *bar,
        left: left(number),
        right: left(number) + room * BAR,
    };
    bars.into_iter().zip(0..).map(stood).collect()
}

impl Stood {
    fn height(&self) -> f64 {
        self.bar.ratio.min(CEILING)
    }

    fn corners(&self) -> [(f64, f64); 2] {
        [(self.left, 0.0), (self.right, self.height())]
    }

    /// The ratio, above the bar and clear of the line.
    fn figure(&self) -> Text<'static, (f64, f64), String> {
        let height = self.height();
        let foot = if (1.0 - STRUCK..1.0).contains(&height) { 1.0 } else { height };
        let point = ((self.left + self.right) / 2.0, foot + HEADROOM / 5.0);
        Text::new(format!("{:.2}", self.bar.ratio), point, text(12, INK, HPos::Center))
    }
}

fn bar(row: &Row) -> Option<Bar> {
    let ratio = row.ratio.filter(|_| row.subject != Subject::Nftables)?;
    Some(Bar { group: Group::of(row), subject: row.subject, ratio })
}

/// Marks the groups whose bars should be low.
fn shade(chart: &mut Chart, groups: &[Group], top: f64) -> Drawn {
    let high = groups.iter().filter(|group| !group.should_be_low).count() as f64;
    let all = groups.len() as f64;
    chart.draw_series([Rectangle::new([(high, 0.0), (all, top)], SHADE.filled())])?;
    let note = |told, from, to| {
        let point = ((from + to) / 2.0, top - HEADROOM / 4.0);
        (from < to).then(|| Text::new(told, point, text(12, FAINT_INK, HPos::Center)))
    };
    let notes = [note("higher is better", 0.0, high), note("lower is better", high, all)];
    chart.draw_series(notes.into_iter().flatten())?;
    Ok(())
}

/// Names a group below the axis.
fn name(area: &Area, chart: &Chart, at: u32, group: &Group) -> Drawn {
    let (x, y) = chart.backend_coord(&(f64::from(at) + 0.5, 0.0));
    let (left, top) = area.get_base_pixel();
    let (x, y) = (x - left, y - top);
    area.draw(&Text::new(label(group.case, group.metric), (x, y + 12), text(13, INK, HPos::Center)))?;
    if let Some(Services(number)) = group.services {
        let services = format!("{} services", thousands(number));
        area.draw(&Text::new(services, (x, y + 27), text(11, FAINT_INK, HPos::Center)))?;
    }
    Ok(())
}

/// With a comma where there are thousands.
fn thousands(number: usize) -> String {
    match (number / 1000, number % 1000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}
