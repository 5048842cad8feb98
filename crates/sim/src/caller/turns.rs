//! A worker's turn: one call of the engine, recorded as the calls that it stands for.

use windlass_core::verbs::{ExtendItem, Held, Settle, Settled};
use windlass_engine::{EngineError, Turn};

use super::suspends::suspend_item;
use super::{Caller, Wish, completion, failed, race, retry_item, verdict_of};
use crate::history::{Given, Op, Outcome, QueueIndex, Verdict};
use crate::plan::queue_name;
use crate::recorder::OpenCall;

impl Caller {
    /// `settles` are calls on leased items of the queue. With `accept` false the grant is dropped on arrival.
    pub async fn turn(
        &self,
        queue: QueueIndex,
        settles: Vec<Op>,
        wish: Option<Wish>,
        accept: bool,
    ) -> Vec<Given> {
        let items: Vec<Vec<Settle>> = settles.iter().map(settles_of).collect();
        let counts: Vec<usize> = items.iter().map(Vec::len).collect();
        let lease = wish.as_ref().map(|wish| self.lease_items(wish));
        let asked = wish.map(|Wish { queue, batch_size, timeout, filter, wait }| Op::Lease {
            queue,
            batch_size,
            timeout,
            filter,
            wait,
        });
        let open = self.recorder.begin_turn(self.client, settles.into_iter().chain(asked).collect());
        let name = queue_name(queue);
        let call = self.engine.next(&name, items.into_iter().flatten().collect(), lease);
        let sleep = self.patience.map(|micros| self.handle.sleep_micros(micros));
        match race(call, sleep).await {
            Some(Ok(turn)) => answer_all(open, &counts, turn, accept),
            Some(Err(error)) => {
                open.into_iter().for_each(|part| part.answered(failed(error.clone())));
                Vec::new()
            }
            None => {
                open.into_iter().for_each(OpenCall::abandoned);
                Vec::new()
            }
        }
    }
}

fn answer_all(open: Vec<OpenCall>, counts: &[usize], turn: Turn, accept: bool) -> Vec<Given> {
    let mut results = turn.settled.results.iter();
    let mut open = open.into_iter();
    for (part, count) in open.by_ref().take(counts.len()).zip(counts) {
        part.answered(Outcome::Judged(results.by_ref().take(*count).map(verdict).collect()));
    }
    let Some(lease) = open.next() else { return Vec::new() };
    match turn.leased {
        Ok(grant) => {
            let items: Vec<Given> = grant.items().iter().map(Given::from).collect();
            if accept {
                drop(grant.accept());
            }
            lease.answered(Outcome::Granted { items: items.clone(), accepted: accept });
            items
        }
        Err(error) => {
            lease.answered(failed(error));
            Vec::new()
        }
    }
}

fn verdict(result: &Result<Settled, EngineError>) -> Verdict {
    match result {
        Ok(Settled::Completed | Settled::Released | Settled::Suspended) => Verdict::Done,
        Ok(Settled::Retried(retried)) => Verdict::Retried(*retried),
        Ok(Settled::Extended(extended)) => Verdict::Extended((*extended).into()),
        Err(error) => verdict_of(error.clone()),
    }
}

/// The items of a call on leased items.
fn settles_of(op: &Op) -> Vec<Settle> {
    if let Op::Complete { items, .. } = op {
        items.iter().map(|item| Settle::Complete(completion(item))).collect()
    } else if let Op::Retry { items, .. } = op {
        items.iter().map(|item| Settle::Retry(retry_item(item))).collect()
    } else if let Op::Release { items, .. } = op {
        items.iter().map(|&(id, permit)| Settle::Release(Held { id, permit })).collect()
    } else if let Op::Suspend { items, .. } = op {
        items.iter().map(|item| Settle::Suspend(suspend_item(item))).collect()
    } else if let Op::Extend { items, timeout, .. } = op {
        let extend = |&(id, permit)| ExtendItem { held: Held { id, permit }, lease_timeout: *timeout };
        items.iter().map(|item| Settle::Extend(extend(item))).collect()
    } else {
        panic!("not a call on leased items: {op:?}")
    }
}
