//! Calls that walk through the items of a queue, and those that change many at once.

use std::sync::Arc;

use windlass_core::partition::{Find, FindOrder};
use windlass_engine::{Search, SearchPage, Walk};

use super::{Caller, verdict_of};
use crate::history::{FindFilter, FindOp, FoundItem, FoundPage, ManyOp, ManyPage, Op, Outcome, Verdict};
use crate::plan::queue_name;

/// A walk that somebody is on.
#[derive(Clone, Debug)]
pub struct OpenWalk {
    /// The page that comes next.
    pub op: FindOp,
    /// Where that page begins; unset for the first.
    pub place: Option<Walk>,
}

impl Caller {
    /// The walk after its next page: the same if that page was not answered, and none if the walk is over.
    pub async fn walk_on(&self, walk: OpenWalk) -> Option<OpenWalk> {
        let OpenWalk { op, place } = walk.clone();
        let name = queue_name(op.queue);
        let search = search(&op.filter, op.newest_first, op.limit);
        let call = self.engine.find(&name, &search, place.as_ref());
        let Some(page) = self.call(Op::Find(Box::new(op.clone())), call, found).await else {
            return Some(walk);
        };
        Some(OpenWalk { op: FindOp { page: op.page + 1, ..op }, place: Some(page.walk?) })
    }

    /// Gives where the next page of the change goes on.
    pub async fn change_many(&self, op: ManyOp, place: Option<&Walk>) -> Option<Walk> {
        let name = queue_name(op.queue);
        let search = search(&op.filter, false, op.limit);
        let call = self.engine.change_items(&name, &search, place, op.action, op.dry_run);
        let page = self.call(Op::ChangeMany(Box::new(op)), call, |page| {
            let verdict = |result: &Result<(), _>| match result {
                Ok(()) => Verdict::Done,
                Err(error) => verdict_of(Clone::clone(error)),
            };
            let results = page.results.iter().map(|(id, result)| (*id, verdict(result))).collect();
            Outcome::ManyChanged(ManyPage { results, has_next: page.walk.is_some() })
        });
        page.await?.walk
    }
}

fn search(filter: &FindFilter, newest_first: bool, limit: usize) -> Search {
    let FindFilter { phases, kinds, address } = filter.clone();
    Search {
        find: Arc::new(Find { phases, kinds, address, ..Find::default() }),
        order: if newest_first { FindOrder::Newest } else { FindOrder::Oldest },
        verify: None,
        limit,
        payloads: false,
        partial: false,
    }
}

fn found(page: &SearchPage) -> Outcome {
    let items = page.items.iter().map(FoundItem::from).collect();
    Outcome::Found(FoundPage { items, has_next: page.walk.is_some() })
}
