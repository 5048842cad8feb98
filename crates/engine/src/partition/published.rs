//! What is known of a partition without asking it. The writer says it after each commit and before it answers, so that
//! nobody who has an answer is shown less than it says.

use std::sync::{Arc, Mutex};

use windlass_core::partition::{Counts, Head, Lingering, Totals};
use windlass_core::time::Timestamp;

use crate::lock::lock;
use crate::partition::effects::Effects;
use crate::partition::places::{Filled, Places};

/// What a writer tells the world after each commit, before it answers. Nothing while the partition cannot serve.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) counts: Counts,
    pub(crate) head: Option<Head>,
    /// When time next matters to it.
    pub(crate) next_due: Option<Timestamp>,
    pub(crate) oldest_waiting: Option<Timestamp>,
    pub(crate) retained: u64,
    /// Those of `retained` that failed.
    pub(crate) failed: u64,
    /// Those of `retained` that expired.
    pub(crate) expired: u64,
    /// On their way to another queue.
    pub(crate) moving: u64,
    /// Whether items or crons are to be brought elsewhere.
    pub(crate) outgoing: bool,
    /// Whether the partition has crons.
    pub(crate) has_crons: bool,
    /// How many of those that wait are held back by a rule.
    pub(crate) stopped: u64,
    pub(crate) rest: Rest,
    /// How many slots at home elsewhere the partition knows keys of.
    pub(crate) lingering: Option<Lingering>,
    /// Of its last commit.
    pub(crate) sequence: u64,
}

/// How far a partition has come with being emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rest {
    #[default]
    Serving,
    /// It takes nothing new, and only crons are left that belong elsewhere.
    OnlyCrons,
    /// It takes nothing new, and has nothing more to do.
    Drained,
    /// Nor does it keep anything.
    Bare,
}

#[derive(Debug)]
pub(crate) struct Published {
    summary: Mutex<Summary>,
    filled: Filled,
    /// Since the server started, over all writers.
    totals: Mutex<Totals>,
    /// What the registry last heard of slots that linger.
    told_lingering: Mutex<Option<Lingering>>,
}

impl Published {
    pub(crate) fn new(places: Arc<Places>) -> Self {
        let (summary, totals, told_lingering) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { summary, filled: Filled::new(places), totals, told_lingering }
    }

    pub(crate) fn summary(&self) -> Summary {
        *lock(&self.summary)
    }

    /// Tells what was known before.
    pub(crate) fn set(&self, summary: Summary) -> Summary {
        self.filled.set(summary.counts.live());
        std::mem::replace(&mut *lock(&self.summary), summary)
    }

    /// Whether the registry is to hear how many slots linger: by new routes, and whenever half of them have gone, which is
    /// seldom however many keys go.
    pub(crate) fn is_news(&self, lingering: Option<Lingering>) -> bool {
        let Some(now) = lingering else { return false };
        let mut told = lock(&self.told_lingering);
        let is_news = told.is_none_or(|told| {
            told.route_version != now.route_version || (now.slots <= told.slots / 2 && told.slots > 0)
        });
        if is_news {
            *told = Some(now);
        }
        is_news
    }

    /// It cannot serve: nothing is known of it. What it held still has its places.
    pub(crate) fn withdraw(&self) {
        *lock(&self.told_lingering) = None;
        *lock(&self.summary) = Summary::default();
    }

    /// Takes note of what became durable.
    pub(crate) fn took_effect(&self, effects: &mut Effects) {
        effects.reserved.drain(..).for_each(|reserved| self.filled.fill(reserved));
        *lock(&self.totals) += effects.totals;
    }

    /// Adds what no batch of the partition tells.
    pub(crate) fn count(&self, totals: Totals) {
        *lock(&self.totals) += totals;
    }

    pub(crate) fn totals(&self) -> Totals {
        *lock(&self.totals)
    }
}
