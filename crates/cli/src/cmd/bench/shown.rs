//! Figures as tables.

use super::due::Burst;
use super::figures::{Figures, Summary};
use super::matrix::Line;
use super::rounds::Ratio;
use super::watched::Watched;
use super::{Document, Target};
use crate::human::{count, counted};
use crate::table::Align::{Left, Right};
use crate::table::Table;

pub(super) fn document(document: &Document) -> String {
    let Document { target, load, measured, pickup, lateness, burst, watched } = document;
    let mut shown = format!(
        "{}\n{}, batches of {}, payloads of {} bytes, {}, {} waiting beforehand, {} s each\n\n{}",
        measured_server(target),
        counted(load.clients as u64, "client"),
        load.batch,
        load.payload,
        load.encoding,
        count(load.backlog),
        load.seconds,
        phases(&measured.server),
    );
    if !measured.engine.is_empty() {
        shown.push_str("\nThe engine without HTTP, on the same disk and in turns with the server:\n\n");
        shown.push_str(&phases(&measured.engine));
        shown.push_str("\nThe server's rate to that of the engine, medians of the rounds:\n\n");
        shown.push_str(&ratios(&measured.ratios));
    }
    shown.push_str(&format!(
        "\nPickup of one item by a lease that waits, {} times:\n\n",
        count(pickup.rounds)
    ));
    shown.push_str(&summaries(
        "PICKUP",
        &[
            ("from produce sent", pickup.from_produce_sent),
            ("from produce answered", pickup.from_produce_answered),
        ],
    ));
    shown.push_str(&format!(
        "\nHow late items are that fall due one by one, {} of them:\n\n",
        count(lateness.items)
    ));
    shown.push_str(&summaries("DUE", &[("late by", lateness.late)]));
    if let Some(burst) = burst {
        shown.push_str(&bursts(burst));
    }
    if let Some(watched) = watched {
        shown.push_str(&emits(watched));
    }
    shown
}

fn measured_server(target: &Target) -> String {
    let durability = target.durability.map(|durability| format!(", durability {durability}"));
    let started = if target.started_here { "started here" } else { "running already" };
    format!("The server at {}, {started}{}", target.url, durability.unwrap_or_default())
}

fn phases(phases: &[Figures]) -> String {
    let columns = [("PHASE", Left), ("ITEMS/S", Right), ("CALLS", Right)];
    let mut table = Table::new(&[&columns[..], &LATENCIES].concat());
    for figures in phases {
        let cells = [figures.phase.into(), rate(figures.items_per_second), count(figures.calls)];
        table.row(cells.into_iter().chain(latencies(figures.latency)));
    }
    table.show()
}

fn bursts(burst: &Burst) -> String {
    let (before, during) = (phases(&burst.before), phases(&burst.during));
    let mut shown = format!(
        "\nBefore {} fall due in one moment:\n\n{before}\nWhile they do:\n\n{during}",
        counted(burst.items, "item")
    );
    if burst.left > 0 {
        shown
            .push_str(&format!("\n{} were still to be started: give it more --seconds\n", count(burst.left)));
    }
    shown
}

fn emits(watched: &Watched) -> String {
    let Watched { subscribers, events_per_second, alone, followed, p99_ratio, delivery, delivered } = watched;
    let subscribers = counted((*subscribers).into(), "subscriber");
    let lines =
        [("followed by nobody", *alone), ("followed", *followed), ("until an event has arrived", *delivery)];
    format!(
        "\nA worker that emits {} events a second, followed by nobody and by {subscribers} in turns, {} delivered:\n\n\
         {}\nThe p99 of an emit that is followed to that of one that is not: {p99_ratio:.2}\n",
        count(*events_per_second),
        count(*delivered),
        summaries("EMIT", &lines),
    )
}

fn summaries(of: &'static str, lines: &[(&str, Summary)]) -> String {
    let mut table = Table::new(&[&[(of, Left)][..], &LATENCIES].concat());
    lines.iter().for_each(|(name, summary)| {
        table.row([(*name).to_owned()].into_iter().chain(latencies(*summary)));
    });
    table.show()
}

fn ratios(ratios: &[Ratio]) -> String {
    let mut table = Table::new(&[("PHASE", Left), ("RATIO", Right)]);
    ratios.iter().for_each(|Ratio { phase, ratio }| table.row([(*phase).to_owned(), format!("{ratio:.2}")]));
    table.show()
}

pub(super) fn matrix(target: &Target, lines: &[Line]) -> String {
    let mut table = Table::new(&[
        ("ENCODING", Left),
        ("CLIENTS", Right),
        ("BATCH", Right),
        ("ITEMS/S", Right),
        ("CYCLE P50", Right),
        ("CYCLE P99", Right),
        ("PRODUCE P99", Right),
        ("LEASE P99", Right),
        ("COMPLETE P99", Right),
        ("ENGINE ITEMS/S", Right),
        ("RATIO", Right),
    ]);
    lines.iter().for_each(|line| table.row(matrix_row(line)));
    format!("{}\n\n{}", measured_server(target), table.show())
}

fn matrix_row(line: &Line) -> Vec<String> {
    let (cycle, calls) = line.measured.server.split_first().expect("a cycle and its calls");
    let p99s = calls.iter().map(|figures| micros(figures.latency.p99_us));
    let engine = line.measured.engine.first().map(|engine| rate(engine.items_per_second));
    let ratio = line.measured.ratios.first().map(|ratio| format!("{:.2}", ratio.ratio));
    let cells = [
        line.load.encoding.into(),
        line.load.clients.to_string(),
        line.load.batch.to_string(),
        rate(cycle.items_per_second),
        micros(cycle.latency.p50_us),
        micros(cycle.latency.p99_us),
    ];
    let compared = [engine, ratio].map(|cell| cell.unwrap_or_else(|| "-".into()));
    cells.into_iter().chain(p99s).chain(compared).collect()
}

const LATENCIES: [(&str, crate::table::Align); 4] =
    [("P50", Right), ("P99", Right), ("P99.9", Right), ("MAX", Right)];

fn latencies(summary: Summary) -> [String; 4] {
    [summary.p50_us, summary.p99_us, summary.p999_us, summary.max_us].map(micros)
}

/// Three digits say enough.
fn micros(micros: u64) -> String {
    match micros {
        ..1000 => format!("{micros} µs"),
        1000..10_000 => format!("{:.2} ms", micros as f64 / 1e3),
        10_000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

fn rate(per_second: f64) -> String {
    count(per_second.round() as u64)
}
