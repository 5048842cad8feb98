//! One picture of all queues.

use std::time::Instant;

use windlass_api::Time;
use windlass_api::queues::{Activity, Counts, Queue};
use windlass_api::rules::Rule;

use crate::human::{count, counted, length};
use crate::table::Align::{Left, Right};
use crate::table::Table;

/// What one look found.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) time: Time,
    /// With counts, by name.
    pub(super) queues: Vec<Queue>,
    pub(super) rules: Vec<Rule>,
}

/// The heading, the names of columns, and what could not be shown.
const LINES_BESIDE: usize = 3;

pub(super) fn shown(seen: &Seen, before: Option<&Seen>, rows: Option<usize>) -> String {
    let fit = rows.map_or(usize::MAX, |rows| rows.saturating_sub(LINES_BESIDE).max(1));
    let mut text = format!("{}  {}\n", heading(seen), clock(seen.time));
    let queues = the_largest(&seen.queues, fit);
    if queues.is_empty() {
        text.push_str("there are no queues yet: make one with `windlass queue create NAME`\n");
        return text;
    }
    let mut table = Table::new(&[
        ("QUEUE", Left),
        ("WAITING", Right),
        ("STOPPED", Right),
        ("SCHEDULED", Right),
        ("HELD", Right),
        ("LEASED", Right),
        ("IN/S", Right),
        ("DONE/S", Right),
        ("FAILED/S", Right),
        ("OLDEST", Right),
        ("IDLE", Right),
        ("RULES", Left),
    ]);
    for queue in &queues {
        table.row(row(queue, seen, before));
    }
    text.push_str(&table.show());
    let left = seen.queues.len() - queues.len();
    if left > 0 {
        text.push_str(&format!("and {} with less in them\n", counted(left as u64, "queue")));
    }
    text
}

fn heading(seen: &Seen) -> String {
    let total =
        |of: fn(&Counts) -> u64| seen.queues.iter().filter_map(|queue| queue.counts.as_ref()).map(of).sum();
    let (waiting, leased): (u64, u64) = (total(|counts| counts.waiting), total(|counts| counts.leased));
    let queues = counted(seen.queues.len() as u64, "queue");
    let rules = counted(seen.rules.len() as u64, "rule");
    format!("{queues}, {} waiting, {} leased, {rules}", count(waiting), count(leased))
}

fn clock(time: Time) -> String {
    let exact = time.to_string();
    let seconds = exact.split_once('.').map_or(exact.as_str(), |(seconds, _)| seconds);
    format!("{} UTC", seconds.replace('T', " "))
}

/// Those with the most in them, by name.
fn the_largest(queues: &[Queue], fit: usize) -> Vec<&Queue> {
    let live = |queue: &Queue| {
        let counts = queue.counts.clone().unwrap_or_default();
        counts.waiting + counts.scheduled + counts.held + counts.leased + counts.suspended
    };
    let mut largest: Vec<&Queue> = queues.iter().collect();
    if largest.len() > fit {
        largest.sort_by_key(|queue| std::cmp::Reverse(live(queue)));
        largest.truncate(fit);
        largest.sort_by(|one, other| one.queue.cmp(&other.queue));
    }
    largest
}

fn row(queue: &Queue, seen: &Seen, before: Option<&Seen>) -> [String; 12] {
    let counts = queue.counts.clone().unwrap_or_default();
    let activity = queue.activity.clone().unwrap_or_default();
    let per_second = |of: fn(&Activity) -> u64| rate(queue, seen, before, of);
    let oldest = if counts.waiting == 0 { "-".into() } else { length(activity.oldest_waiting_age.into()) };
    [
        queue.queue.clone(),
        count(counts.waiting),
        count(activity.stopped),
        count(counts.scheduled),
        count(counts.held),
        count(counts.leased),
        per_second(|activity| activity.produced),
        per_second(|activity| activity.completed),
        per_second(|activity| activity.failed),
        oldest,
        count(activity.lease_waiters),
        rules_on(queue, &seen.rules),
    ]
}

/// Unknown at the first look, and after a restart, which counts anew.
fn rate(queue: &Queue, seen: &Seen, before: Option<&Seen>, of: fn(&Activity) -> u64) -> String {
    let earlier = before.and_then(|before| {
        let same = before.queues.iter().find(|other| other.queue == queue.queue)?;
        Some((same.activity.as_ref()?, seen.at.duration_since(before.at)))
    });
    let grown = earlier.and_then(|(earlier, elapsed)| {
        let grown = of(queue.activity.as_ref()?).checked_sub(of(earlier))?;
        Some(grown as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE))
    });
    match grown {
        None => "-".into(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

/// `paused, mail blocked`.
fn rules_on(queue: &Queue, rules: &[Rule]) -> String {
    let of_queue = rules.iter().filter(|rule| rule.queue == queue.queue);
    let words = of_queue.map(|rule| {
        let done = if rule.rule == "pause" { "paused" } else { "blocked" };
        rule.kind.as_ref().map_or_else(|| done.to_owned(), |kind| format!("{kind} {done}"))
    });
    words.collect::<Vec<_>>().join(", ")
}
