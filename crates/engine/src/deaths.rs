//! The server's log of items that died where no dead queue keeps them. The first death is logged at once; the deaths of the
//! next ten seconds are summed up by queue, kind and reason: a queue whose work always fails must not flood the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::warn;
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{End, MoveReason};
use windlass_core::news::Died;

use crate::env::Env;
use crate::lock::lock;

const EVERY: Duration = Duration::from_secs(10);
/// Lines each time. Deaths of further causes are only counted.
const CAUSES_MAX: usize = 50;

#[derive(Debug, Default)]
pub(crate) struct Deaths {
    untold: Mutex<Untold>,
    news: Notify,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Untold {
    by_cause: BTreeMap<Cause, Sum>,
    /// Deaths of causes beyond [`CAUSES_MAX`].
    others: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cause {
    queue: Arc<str>,
    kind: Arc<str>,
    is_expiry: bool,
    reason: MoveReason,
}

#[derive(Debug)]
struct Sum {
    count: u64,
    /// The item that died last, and its attempts.
    item: ItemId,
    attempts: u32,
}

impl Deaths {
    pub(crate) fn add(&self, queue: &Arc<str>, partition: PartitionId, died: &Died) {
        let cause = Cause {
            queue: Arc::clone(queue),
            kind: Arc::clone(&died.kind),
            is_expiry: died.end == End::Expired,
            reason: died.reason,
        };
        let item = ItemId { partition, number: died.number };
        lock(&self.untold).add(cause, item, died.attempts);
        self.news.notify_one();
    }

    /// Logs deaths until [`Deaths::end`], and then those that are left.
    pub(crate) async fn keep_logging(self: Arc<Self>, env: Arc<dyn Env>) {
        let mut ended = self.ended.subscribe();
        loop {
            tokio::select! {
                () = self.news.notified() => {}
                _ = ended.wait_for(|ended| *ended) => return self.log(),
            }
            self.log();
            tokio::select! {
                () = env.sleep_until(env.boot() + EVERY) => {}
                _ = ended.wait_for(|ended| *ended) => return self.log(),
            }
        }
    }

    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    fn log(&self) {
        let untold = std::mem::take(&mut *lock(&self.untold));
        untold.by_cause.iter().for_each(|(cause, sum)| log(cause, sum));
        if untold.others > 0 {
            warn!(count = untold.others, "items of further queues or kinds failed or expired");
        }
    }
}

impl Untold {
    fn add(&mut self, cause: Cause, item: ItemId, attempts: u32) {
        if let Some(sum) = self.by_cause.get_mut(&cause) {
            *sum = Sum { count: sum.count + 1, item, attempts };
        } else if self.by_cause.len() < CAUSES_MAX {
            self.by_cause.insert(cause, Sum { count: 1, item, attempts });
        } else {
            self.others += 1;
        }
    }
}

/// `item` and `attempts` are those of the last of `count` items.
fn log(cause: &Cause, sum: &Sum) {
    let (queue, kind, reason) = (&*cause.queue, &*cause.kind, cause.reason.name());
    let Sum { count, item, attempts } = *sum;
    if cause.is_expiry {
        warn!(queue, kind, reason, count, %item, attempts, "items expired");
    } else {
        warn!(queue, kind, reason, count, %item, attempts, "items failed");
    }
}
