//! Queues as people like to see them.

use windlass_api::queues::{Counts, Queue, QueueStatsReply};
use windlass_api::{Span, Time};

use super::rebalance::left;
use crate::human::{bytes, count, length, moment};
use crate::table::Align::{Left, Right};
use crate::table::{Table, facts};

/// With `oldest`, also how long the oldest item of each has waited: what the list is ordered by.
pub(super) fn queues(queues: &[Queue], oldest: bool, width: Option<usize>) -> String {
    if queues.is_empty() {
        return String::new();
    }
    let mut columns = vec![("QUEUE", Left), ("WAITING", Right)];
    columns.extend(oldest.then_some(("OLDEST", Right)));
    columns.extend([
        ("SCHEDULED", Right),
        ("LEASED", Right),
        ("PARTITIONS", Right),
        ("LEASE", Right),
        ("ATTEMPTS", Right),
        ("DEAD QUEUE", Left),
    ]);
    let mut table = Table::new(&columns);
    for queue in queues {
        let counts = queue.counts.clone().unwrap_or_default();
        let mut cells = vec![queue.queue.clone(), count(counts.waiting)];
        cells.extend(oldest.then(|| age(queue)));
        cells.extend([
            count(counts.scheduled),
            count(counts.leased),
            queue.partitions.to_string(),
            queue.lease_timeout.to_string(),
            limit(queue.max_attempts.into()),
            queue.dead_queue.clone().unwrap_or_else(|| "-".into()),
        ]);
        table.row(cells);
    }
    let dropped = ["LEASE", "ATTEMPTS", "PARTITIONS", "DEAD QUEUE", "SCHEDULED"];
    table.show_within(width, &[("QUEUE", 12), ("DEAD QUEUE", 10)], &dropped)
}

/// How long the oldest waiting item has waited.
fn age(queue: &Queue) -> String {
    let activity =
        queue.activity.as_ref().filter(|_| queue.counts.as_ref().is_some_and(|counts| counts.waiting > 0));
    activity.map_or_else(|| "-".into(), |activity| length(activity.oldest_waiting_age.into()))
}

pub(super) fn queue(queue: &Queue, now: Time) -> String {
    let retry = &queue.retry;
    let delay = match retry.strategy.as_str() {
        "fixed" => format!("always {}, ± {} %", retry.initial, percent(retry.jitter)),
        _ => format!(
            "{}, then × {} up to {}, ± {} %",
            retry.initial,
            retry.factor,
            retry.max,
            percent(retry.jitter)
        ),
    };
    let mut known = vec![
        ("queue", queue.queue.clone()),
        ("partitions", queue.partitions.to_string()),
        ("lease timeout", queue.lease_timeout.to_string()),
        ("max attempts", limit(queue.max_attempts.into())),
        ("retry after", delay),
        ("requeue", queue.requeue.clone()),
        ("dead timeout", dead_timeout(queue)),
        ("dead queue", queue.dead_queue.clone().unwrap_or_else(|| "none".into())),
        ("max items", limit(queue.max_items)),
        ("retention", retention(queue)),
        ("keep", queue.keep.clone()),
        ("payloads kept", queue.retain_payload.clone()),
    ];
    known.extend((!queue.indexed_headers.is_empty()).then(|| ("indexed", queue.indexed_headers.join(", "))));
    known.extend(queue.reference.clone().map(|reference| ("reference", reference)));
    known.extend(queue.meta.clone().map(|meta| ("meta", meta)));
    known.push(("created", moment(queue.created_at, now)));
    known.push(("updated", moment(queue.updated_at, now)));
    facts(&known)
}

fn dead_timeout(queue: &Queue) -> String {
    if queue.dead_timeout == Span::ZERO { "never".into() } else { queue.dead_timeout.to_string() }
}

fn retention(queue: &Queue) -> String {
    let (items, size) = (count(queue.retention_max_items), bytes(queue.retention_max_bytes));
    format!("{}, at most {items} items and {size}", queue.retention)
}

fn percent(share: f64) -> f64 {
    (share * 1000.0).round() / 10.0
}

fn limit(number: u64) -> String {
    if number == 0 { "no limit".into() } else { count(number) }
}

pub(super) fn stats(stats: &QueueStatsReply) -> String {
    let mut shown = summary(stats);
    shown.push('\n');
    shown.push_str(&counts_by("KIND", stats.kinds.iter().map(|(kind, counts)| (kind.clone(), counts))));
    shown.push('\n');
    let mut partitions = table_of_counts("PARTITION", &[("STORE", Left), ("STATE", Left)]);
    for partition in &stats.partitions {
        let state = match &partition.error {
            Some(error) => format!("{}: {error}", partition.state),
            None => partition.state.clone(),
        };
        let remaining = partition.remaining.as_ref().map(|remaining| format!(", {}", left(remaining)));
        let full = if partition.disk_full { ", disk full" } else { "" };
        let state = state + remaining.as_deref().unwrap_or_default() + full;
        let cells = row_of_counts(partition.partition.to_string(), &partition.counts);
        partitions.row(cells.into_iter().chain([partition.store.clone(), state]));
    }
    shown.push_str(&partitions.show());
    shown
}

fn summary(stats: &QueueStatsReply) -> String {
    let counts = &stats.counts;
    let mut known = vec![
        ("queue", stats.queue.clone()),
        ("waiting", count(counts.waiting)),
        ("scheduled", count(counts.scheduled)),
        ("leased", count(counts.leased)),
    ];
    // Few queues have any.
    let rare = [("held", counts.held), ("suspended", counts.suspended)];
    known.extend(rare.into_iter().filter(|(_, items)| *items > 0).map(|(name, items)| (name, count(items))));
    known.extend([
        ("moving", count(stats.moving)),
        ("ended and kept", count(stats.retained)),
        ("leases that wait", count(stats.lease_waiters)),
    ]);
    known.extend(stopped(stats).map(|stopped| ("stopped", stopped)));
    if counts.waiting > 0 {
        known.push(("oldest waiting", length(stats.oldest_waiting_age.into())));
        let by =
            stats.priorities.iter().map(|(priority, waiting)| format!("{priority}: {}", count(*waiting)));
        known.push(("by priority", by.collect::<Vec<_>>().join(", ")));
    }
    facts(&known)
}

/// What rules hold back, if any does.
fn stopped(stats: &QueueStatsReply) -> Option<String> {
    let on_all = [(stats.paused, "paused"), (stats.blocked, "blocked")];
    let on_all: Vec<&str> = on_all.into_iter().filter(|(stands, _)| *stands).map(|(_, word)| word).collect();
    match (on_all.is_empty(), stats.stopped) {
        (true, 0) => None,
        (true, some) => Some(format!("{} of them, by rules on their kinds", count(some))),
        (false, some) => Some(format!("{}: the queue is {}", count(some), on_all.join(" and "))),
    }
}

fn counts_by<'a>(heading: &'static str, by: impl Iterator<Item = (String, &'a Counts)>) -> String {
    let mut table = table_of_counts(heading, &[]);
    by.for_each(|(name, counts)| table.row(row_of_counts(name, counts)));
    table.show()
}

fn table_of_counts(heading: &'static str, more: &[(&'static str, crate::table::Align)]) -> Table {
    let counts = [(heading, Left), ("WAITING", Right), ("SCHEDULED", Right), ("LEASED", Right)];
    Table::new(&[counts.as_slice(), more].concat())
}

fn row_of_counts(name: String, counts: &Counts) -> Vec<String> {
    vec![name, count(counts.waiting), count(counts.scheduled), count(counts.leased)]
}
