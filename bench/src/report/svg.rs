//! A plot of the first column: a group of horizontal bars for each sheet, each group with a scale of its own.

use std::fmt::Write;

use super::number::shown;
use super::sheet::{Row, Sheet};
use crate::peers::Contender;
use crate::stats::Spread;

const WIDTH: f64 = 760.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 150.0;
const BAR_WIDTH_MAX: f64 = 460.0;
const BAR: f64 = 14.0;
const ROW: f64 = 20.0;
const TITLE: f64 = 26.0;
const GAP: f64 = 18.0;
const TOP: f64 = 44.0;

const LEGEND: &str = "Medians; the line spans all runs. Dashed: a bare loop that only writes and syncs. \
    →: beyond the scale. *: a step is not durable.";

/// Colours for light pages, and others for dark ones.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.title{font-weight:600}.quiet{fill:#59636e}\
.bar{fill:#8c959f}.windlass{fill:#0969da}.floor{fill:none;stroke:#8c959f;stroke-dasharray:3 2}\
.spread{stroke:#1f2328;stroke-width:1.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.bar{fill:#6e7681}.windlass{fill:#4493f8}\
.floor{stroke:#6e7681}.spread{stroke:#e6edf3}}";

/// The full cycles that were measured; nothing if there are none.
pub(crate) fn plot(sheets: &[Sheet]) -> Option<String> {
    let groups: Vec<Group> =
        sheets.iter().filter(|sheet| sheet.scenario == "cycles").filter_map(Group::of).collect();
    if groups.is_empty() {
        return None;
    }
    let height = TOP + groups.iter().map(Group::height).sum::<f64>();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Items per second through the full cycle\">\n<style>{STYLE}</style>\n"
    );
    text(
        &mut out,
        0.0,
        16.0,
        "title",
        "Items per second through produce, lease and complete, synced to disk",
    );
    text(&mut out, 0.0, 34.0, "quiet", LEGEND);
    let mut top = TOP;
    for group in &groups {
        group.draw(&mut out, top);
        top += group.height();
    }
    out.push_str("</svg>\n");
    Some(out)
}

#[derive(Debug)]
struct Group<'a> {
    label: &'a str,
    bars: Vec<(&'a Row, Spread)>,
    /// The largest value that a bar of the group shows.
    max: f64,
}

impl<'a> Group<'a> {
    fn of(sheet: &'a Sheet) -> Option<Self> {
        let bars: Vec<_> = sheet.rows.iter().filter_map(|row| Some((row, row.spread(0)?))).collect();
        // The bare loop does not set the scale: it is often many times faster than any contender.
        let competing = bars.iter().filter(|(row, _)| row.contender != Contender::Bare);
        let max = competing.map(|(_, spread)| spread.max).fold(0.0, f64::max);
        (max > 0.0).then_some(Self { label: &sheet.label, bars, max })
    }

    fn height(&self) -> f64 {
        TITLE + self.bars.len() as f64 * ROW + GAP
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value / self.max).min(1.0) * BAR_WIDTH_MAX
    }

    fn draw(&self, out: &mut String, top: f64) {
        text(out, 0.0, top + TITLE - 8.0, "title", self.label);
        for (index, (row, spread)) in self.bars.iter().enumerate() {
            self.bar(out, top + TITLE + index as f64 * ROW, row, *spread);
        }
    }

    fn bar(&self, out: &mut String, y: f64, row: &Row, spread: Spread) {
        let star = if row.not_durable.is_empty() { "" } else { " *" };
        let middle = y + BAR / 2.0;
        let end = self.x(spread.median);
        text(out, 8.0, y + BAR - 3.0, "quiet", &format!("{}{star}", row.contender.name()));
        let (class, width) = (class(row.contender), end - LEFT);
        line(
            out,
            &format!(
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>"
            ),
        );
        let (from, to) = (self.x(spread.min), self.x(spread.max));
        if to - from > 1.0 {
            line(out, &format!("<path class=\"spread\" d=\"M{from:.1} {middle}H{to:.1}\"/>"));
        }
        let beyond = if spread.median > self.max { " →" } else { "" };
        text(out, end.max(to) + 6.0, y + BAR - 3.0, "", &format!("{}{beyond}", shown(spread.median)));
    }
}

fn class(contender: Contender) -> &'static str {
    match contender {
        Contender::Bare => "floor",
        Contender::Windlass | Contender::WindlassProtobuf | Contender::WindlassNext => "windlass",
        Contender::Redis
        | Contender::Rabbitmq
        | Contender::Postgres
        | Contender::Nats
        | Contender::Beanstalkd => "bar",
    }
}

fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    line(out, &format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"));
}

fn line(out: &mut String, line: &str) {
    writeln!(out, "{line}").expect("a string grows as it must");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sheet::tests::{row, sheet};

    /// The widths of all bars, in order.
    fn widths(svg: &str) -> Vec<f64> {
        let rects = svg.lines().filter(|line| line.starts_with("<rect"));
        rects
            .map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn bars_are_as_long_as_their_medians_and_the_floor_stays_in_the_plot() {
        let rows = vec![
            row(Contender::Bare, &[90_000.0]),
            row(Contender::Windlass, &[800.0, 1000.0, 900.0]),
            row(Contender::Redis, &[500.0]),
        ];
        let svg = plot(&[sheet(rows)]).unwrap();
        assert_eq!(widths(&svg), [460.0, 414.0, 230.0]);
        assert!(svg.contains(">90,000 →</text>"));
        assert!(svg.contains("class=\"windlass\""));
        assert_eq!(svg.matches("class=\"spread\"").count(), 1);
    }

    #[test]
    fn contenders_that_do_less_have_a_star_and_dark_pages_their_own_colours() {
        let mut rabbit = row(Contender::Rabbitmq, &[900.0]);
        rabbit.not_durable = vec!["lease".into()];
        let svg = plot(&[sheet(vec![rabbit, row(Contender::Redis, &[500.0])])]).unwrap();
        assert!(svg.contains(">rabbitmq *</text>") && svg.contains(">redis</text>"));
        assert!(svg.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn without_full_cycles_there_is_no_plot() {
        let mut other = sheet(vec![row(Contender::Redis, &[500.0])]);
        other.scenario = "pickup";
        assert_eq!(plot(&[other]), None);
        assert_eq!(plot(&[sheet(vec![Row::new(Contender::Redis)])]), None);
    }
}
