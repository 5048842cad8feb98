//! What went on in queues lately: how much was done, and how long items waited until they were leased. In memory only, since
//! the engine was opened, and for at most [`QUEUES_MAX`] queues: the busiest.
//!
//! Writers count here once a batch is durable. No timer is involved: a bucket begins when something is counted in it.

mod buckets;
mod waits;

use std::sync::{Arc, Mutex, Weak};

use windlass_core::partition::Totals;
use windlass_core::row::QueueName;
use windlass_core::time::{Span, Timestamp};

use crate::lock::lock;
use buckets::{Deeds, Ring};

/// The most queues that are kept in mind: buckets of one that is busy all day come to some 30 KiB.
const QUEUES_MAX: usize = 1000;

/// How far back the history of a queue goes.
pub const HISTORY_SPAN_MAX: Span = Span::from_secs(24 * 3600);

/// The most buckets that are told of a queue.
pub const HISTORY_BUCKETS_MAX: usize = 60;

/// An hour by minutes, ten hours by ten minutes, and a day by half hours.
const BUCKETS: [Span; 3] = [Span::from_secs(60), Span::from_secs(600), Span::from_secs(1800)];

/// What went on in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueHistory {
    pub queue: QueueName,
    /// The oldest first, and none left out in between. Empty if the history of the queue is not kept.
    pub buckets: Vec<HistoryBucket>,
}

/// What went on in one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryBucket {
    pub at: Timestamp,
    pub produced: u64,
    pub completed: u64,
    pub failed: u64,
    pub retried: u64,
    /// Unset if nothing was leased. Never less than it was, and more by less than a quarter and a millisecond.
    pub waited: Option<Waited>,
}

/// How long items waited until they were leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Half of them waited no longer.
    pub p50: Span,
    /// 99 of 100 waited no longer.
    pub p99: Span,
}

/// The history of one queue, which all its partitions count in.
#[derive(Debug)]
pub(crate) struct History {
    all: Arc<Histories>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    activity: Activity,
    /// Whether the queue is one of those whose history is kept.
    has_place: bool,
    /// Everything that was done since then is in `rings`. Unset: what was done last was not kept.
    known_since: Option<Timestamp>,
    rings: [Ring; BUCKETS.len()],
}

/// The histories that are kept.
///
/// Lock order: the state of a newcomer, then this list, then the states of queues in it.
#[derive(Debug, Default)]
pub(crate) struct Histories(Mutex<Vec<Weak<History>>>);

impl Histories {
    /// Whether the newcomer gets a place: a free one, or that of a queue in which less is done.
    fn admit(&self, newcomer: &Arc<History>, busyness: u64, at: Timestamp) -> bool {
        let mut kept = lock(&self.0);
        if kept.len() >= QUEUES_MAX {
            kept.retain(|history| history.strong_count() > 0);
        }
        if kept.len() < QUEUES_MAX {
            kept.push(Arc::downgrade(newcomer));
            return true;
        }
        let busyness_of = |history: &Weak<History>| {
            history.upgrade().map_or(0, |history| lock(&history.state).activity.lately(at))
        };
        let quietest = kept.iter_mut().map(|history| (busyness_of(history), history)).min_by_key(|(n, _)| *n);
        let Some((_, place)) = quietest.filter(|(less, _)| *less < busyness) else { return false };
        let left = std::mem::replace(place, Arc::downgrade(newcomer));
        if let Some(left) = left.upgrade() {
            lock(&left.state).forget();
        }
        true
    }
}

impl History {
    /// Of a queue that begins to be served now.
    pub(crate) fn new(all: Arc<Histories>, now: Timestamp) -> Self {
        let state = State {
            activity: Activity::default(),
            has_place: false,
            known_since: Some(now),
            rings: BUCKETS.map(Ring::new),
        };
        Self { all, state: Mutex::new(state) }
    }

    /// Takes note of a batch that is durable, at the time of the server.
    pub(crate) fn count(self: &Arc<Self>, at: Timestamp, totals: &Totals, waited: &[Span]) {
        let deeds = Deeds::of(totals);
        let count = deeds.count() + waited.len() as u64;
        if count == 0 {
            return;
        }
        let mut state = lock(&self.state);
        state.activity.add(at, count);
        if !state.has_place {
            let busyness = state.activity.lately(at);
            state.has_place = state.activity.is_worth_a_try() && self.all.admit(self, busyness, at);
        }
        if state.has_place {
            state.known_since.get_or_insert(at);
            state.rings.iter_mut().for_each(|ring| ring.count(at, deeds, waited));
        } else {
            state.known_since = None;
        }
    }

    /// The buckets that have something of the last `span`, or nothing if it is not known.
    pub(crate) fn lately(&self, now: Timestamp, span: Span) -> Vec<HistoryBucket> {
        let state = lock(&self.state);
        let Some(since) = state.known_since else { return Vec::new() };
        let [.., coarsest] = &state.rings;
        let ring = state.rings.iter().find(|ring| ring.reach() >= span).unwrap_or(coarsest);
        ring.shown(since, span, now)
    }
}

impl State {
    fn forget(&mut self) {
        self.has_place = false;
        self.known_since = None;
        self.rings = BUCKETS.map(Ring::new);
    }
}

/// How much was done in a queue in this hour and in the last one.
#[derive(Debug, Default)]
struct Activity {
    /// Hours since 1970.
    hour: u64,
    this_hour: u64,
    last_hour: u64,
    /// `this_hour` at which `admit` is tried next; doubled each time, because `admit` scans all `QUEUES_MAX` queues.
    next_try: u64,
}

impl Activity {
    fn add(&mut self, at: Timestamp, count: u64) {
        let hour = hour_of(at);
        if hour > self.hour {
            *self = Self { hour, this_hour: 0, last_hour: self.lately_in(hour, 0), next_try: 0 };
        }
        self.this_hour += count;
    }

    /// What was done in the hour of this time and in the one before.
    fn lately(&self, at: Timestamp) -> u64 {
        self.lately_in(hour_of(at), self.last_hour)
    }

    fn lately_in(&self, hour: u64, last_hour: u64) -> u64 {
        match hour.saturating_sub(self.hour) {
            0 => self.this_hour + last_hour,
            1 => self.this_hour,
            _ => 0,
        }
    }

    fn is_worth_a_try(&mut self) -> bool {
        let is_worth_it = self.this_hour >= self.next_try;
        if is_worth_it {
            self.next_try = 2 * self.this_hour;
        }
        is_worth_it
    }
}

fn hour_of(at: Timestamp) -> u64 {
    at.0 / Span::from_secs(3600).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3600);

    const START: Timestamp = Timestamp(1_800_000_000_000_000);

    fn produced(produced: u64) -> Totals {
        Totals { produced, ..Totals::default() }
    }

    fn history(all: &Arc<Histories>) -> Arc<History> {
        Arc::new(History::new(Arc::clone(all), START))
    }

    /// `QUEUES_MAX` histories, each with `count` items produced.
    fn full(all: &Arc<Histories>, count: u64) -> Vec<Arc<History>> {
        let histories: Vec<_> = (0..QUEUES_MAX).map(|_| history(all)).collect();
        histories.iter().for_each(|history| history.count(START, &produced(count), &[]));
        histories
    }

    fn counted(history: &History, now: Timestamp) -> Option<u64> {
        let buckets = history.lately(now, HOUR);
        (!buckets.is_empty()).then(|| buckets.iter().map(|bucket| bucket.produced).sum())
    }

    #[test]
    fn a_busier_queue_takes_the_place_of_the_quietest() {
        let all = Arc::default();
        let kept = full(&all, 3);
        kept[1..].iter().for_each(|history| history.count(START, &produced(1), &[]));
        let newcomer = history(&all);
        assert_eq!(counted(&newcomer, START), Some(0), "nothing was done in it yet");
        newcomer.count(START, &produced(2), &[]);
        assert_eq!(counted(&newcomer, START), None);
        newcomer.count(START, &produced(2), &[]);
        assert_eq!(counted(&newcomer, START), Some(2), "it is known from then on");
        assert_eq!(counted(&kept[0], START), None);
        assert!(kept[1..].iter().all(|history| counted(history, START) == Some(4)));
    }

    #[test]
    fn a_queue_that_was_busy_gives_its_place_up_once_it_is_quiet() {
        let all = Arc::default();
        let kept = full(&all, 1000);
        let newcomer = history(&all);
        let later = START + HOUR;
        newcomer.count(later, &produced(1), &[]);
        assert_eq!(counted(&newcomer, later), None, "the last hour counts");
        let much_later = later + HOUR;
        newcomer.count(much_later, &produced(1), &[]);
        assert_eq!(counted(&newcomer, much_later), Some(1));
        assert_eq!(kept.iter().filter(|history| counted(history, START).is_none()).count(), 1);
    }

    #[test]
    fn the_place_of_a_queue_that_is_gone_is_free() {
        let all = Arc::default();
        let mut kept = full(&all, 1000);
        let newcomer = history(&all);
        newcomer.count(START, &produced(1), &[]);
        assert_eq!(counted(&newcomer, START), None);
        kept.pop();
        newcomer.count(START, &produced(1), &[]);
        assert_eq!(counted(&newcomer, START), Some(1));
        assert!(kept.iter().all(|history| counted(history, START) == Some(1000)));
    }

    #[test]
    fn a_bucket_goes_when_60_later_ones_have_begun() {
        let history = history(&Arc::default());
        (0..200).for_each(|minute| {
            history.count(START + Span::from_secs(60 * minute), &produced(1), &[]);
        });
        let kept: Vec<usize> = lock(&history.state).rings.iter().map(Ring::len).collect();
        assert_eq!(kept, [60, 20, 7]);
    }
}
