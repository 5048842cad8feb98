//! Many items changed by one call: those that a search finds, each as the call for one item would.

use std::time::Duration;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{Item, Phase};
use windlass_core::partition::{Find, FoundItem};
use windlass_core::refusal::{Each, Refusal};
use windlass_core::time::Span;
use windlass_core::verb::Verb;
use windlass_core::verbs::{Cancel, DeleteAny, Update, UpdateItem};

use super::QueueHandle;
use super::find::{Merge, Scan, Search, Walk};
use super::shares::{Asked, Share, judged, shares};
use crate::commit::{Commit, Judged};
use crate::error::EngineError;
use crate::machine::call::{Answer, received};

/// Verbs about one item that are sent before the first is waited for: they are committed together.
const WINDOW: usize = 100;

/// What is to become of each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Cancel,
    Rerun,
    RunNow,
    Delete,
    SetPriority(u8),
}

/// What came of a page of changes.
#[derive(Clone, Debug)]
pub struct ChangePage {
    /// The items that matched, in the order of the search, and why those were not changed that were not.
    pub results: Vec<(ItemId, Result<(), EngineError>)>,
    pub commits: Vec<Commit>,
    /// Where the next page goes on; unset at the end.
    pub walk: Option<Walk>,
}

impl Action {
    /// The search without the items that the action does not apply to.
    pub(crate) fn narrow(self, find: &Find) -> Find {
        let phases: &[Phase] = match self {
            Self::Cancel => &[Phase::Held, Phase::Scheduled, Phase::Waiting, Phase::Leased, Phase::Suspended],
            Self::Rerun => &[Phase::Completed, Phase::Failed, Phase::Cancelled, Phase::Expired],
            Self::RunNow => &[Phase::Scheduled],
            Self::Delete => return find.clone(),
            Self::SetPriority(_) => &[Phase::Held, Phase::Scheduled, Phase::Waiting, Phase::Suspended],
        };
        let asked = |phase: &Phase| find.phases.as_ref().is_none_or(|phases| phases.contains(phase));
        let phases = phases.iter().copied().filter(asked).collect();
        let moved = if self == Self::Rerun { Some(false) } else { find.moved };
        Find { phases: Some(phases), moved, ..find.clone() }
    }

    /// What the action makes of an item where many are updated by one verb.
    fn update(self, found: &FoundItem) -> Option<UpdateItem> {
        let update = UpdateItem::new(found.item.number);
        match self {
            Self::RunNow => Some(UpdateItem { delay: Some(Span::ZERO), ..update }),
            Self::SetPriority(priority) => Some(UpdateItem { priority: Some(priority), ..update }),
            Self::Cancel | Self::Rerun | Self::Delete => None,
        }
    }
}

impl QueueHandle {
    /// Changes a page of the items that the search finds. What was changed stays so if the caller goes away. Items that are rerun
    /// in another partition are waited for until `deadline`.
    pub(crate) async fn change(
        &self,
        scans: Vec<Scan>,
        search: &Search,
        action: Action,
        dry_run: bool,
        deadline: Duration,
        is_gone: impl Fn(PartitionId) -> bool,
    ) -> Result<ChangePage, EngineError> {
        let mut merge = Merge::new(search, scans);
        merge.pick(is_gone).await?;
        let walk = Walk::to(merge.places());
        let ids: Vec<ItemId> = merge.picked.iter().map(|(at, found)| merge.scans[*at].id(found)).collect();
        let Judged { results, mut commits } = if dry_run {
            self.try_out(&ids, action).await
        } else {
            self.act(&merge, &ids, action, deadline).await
        };
        let mut matched = Vec::with_capacity(ids.len());
        for ((id, result), (at, _)) in ids.into_iter().zip(results).zip(&merge.picked) {
            if may_have_changed(&result) && !matches_now(search, &merge.scans[*at], id).await {
                continue;
            }
            let is_leaving = matches!(result, Err(EngineError::Refused(Refusal::Leaving)));
            let result = match action {
                Action::Rerun if is_leaving && !dry_run => Err(self.moved_on(id, deadline).await),
                Action::Cancel | Action::Rerun | Action::RunNow | Action::Delete | Action::SetPriority(_) => {
                    result
                }
            };
            matched.push((id, result));
        }
        commits.sort_by_key(|commit| (commit.partition, commit.sequence));
        // One for each partition: the last.
        commits.dedup_by(|next, kept| {
            let is_same = next.partition == kept.partition;
            kept.sequence = if is_same { next.sequence } else { kept.sequence };
            is_same
        });
        Ok(ChangePage { results: matched, commits, walk })
    }

    /// One result for each item that was picked.
    async fn act(&self, merge: &Merge<'_>, ids: &[ItemId], action: Action, deadline: Duration) -> Judged<()> {
        match action {
            Action::RunNow | Action::SetPriority(_) => {
                let updates = |items: &[&FoundItem]| {
                    Update(items.iter().filter_map(|found| action.update(found)).collect())
                };
                each_partition(merge, updates).await
            }
            Action::Delete => {
                let numbers =
                    |items: &[&FoundItem]| DeleteAny(items.iter().map(|found| found.item.number).collect());
                let deleted = each_partition(merge, numbers).await;
                // Whoever waits for one of them to arrive elsewhere is told that it does not.
                if let Some(scan) = merge.scans.first() {
                    scan.handle.has_carried();
                }
                deleted
            }
            Action::Cancel => cancel_all(merge).await,
            Action::Rerun => {
                let (mut results, mut commits) = (Vec::with_capacity(ids.len()), Vec::new());
                for ids in ids.chunks(WINDOW) {
                    for rerun in self.rerun_all(ids, None, deadline).await {
                        results.push(rerun.map(|made| commits.extend(made.commits)));
                    }
                }
                Judged { results, commits }
            }
        }
    }

    /// What [`QueueHandle::act`] would answer, as far as that can be known.
    async fn try_out(&self, ids: &[ItemId], action: Action) -> Judged<()> {
        let results = match action {
            Action::Cancel | Action::RunNow | Action::Delete | Action::SetPriority(_) => {
                ids.iter().map(|_| Ok(())).collect()
            }
            Action::Rerun => self.try_reruns(ids).await,
        };
        Judged { results, commits: Vec::new() }
    }
}

/// Sends each partition a verb with all the items that were picked there.
async fn each_partition<T, V: Verb<Reply = Each<T>>>(
    merge: &Merge<'_>,
    verb: impl Fn(&[&FoundItem]) -> V,
) -> Judged<()> {
    let picked = merge.picked.iter().enumerate();
    let ask = |(at, Share { indexes, items }): (usize, Share<&(usize, FoundItem)>)| {
        let items: Vec<&FoundItem> = items.into_iter().map(|(_, found)| found).collect();
        let handle = &merge.scans[at].handle;
        Asked { partition: handle.id, indexes, answer: handle.submit(verb(&items)) }
    };
    // All are asked before the first is waited for.
    let asked = shares(picked, |(at, _)| *at).into_iter().map(ask).collect();
    let results = merge.picked.iter().map(|_| Err(Refusal::NotFound.into())).collect();
    let done = |result: Result<T, Refusal>| result.map(drop).map_err(EngineError::from);
    judged(asked, results, |_, each: Each<T>| each.into_iter().map(done).collect()).await
}

async fn cancel_all(merge: &Merge<'_>) -> Judged<()> {
    let (mut results, mut commits) = (Vec::with_capacity(merge.picked.len()), Vec::new());
    for picked in merge.picked.chunks(WINDOW) {
        let submit = |(at, found): &(usize, FoundItem)| {
            let handle = &merge.scans[*at].handle;
            (handle.id, handle.submit(Cancel(found.item.number)))
        };
        let asked: Vec<_> = picked.iter().map(submit).collect();
        for (partition, asked) in asked {
            let answer = match asked {
                Ok(asked) => received(asked.await),
                Err(error) => Err(error),
            };
            results.push(answer.and_then(|Answer { reply, sequence }| {
                commits.push(Commit { partition, sequence });
                was_cancelled(&reply.item).map_err(EngineError::from)
            }));
        }
    }
    Judged { results, commits }
}

/// A cancel that comes after another end of the item changes nothing.
fn was_cancelled(item: &Item) -> Result<(), Refusal> {
    match item.state.phase() {
        Phase::Completed | Phase::Failed | Phase::Expired => Err(Refusal::Ended),
        Phase::Held
        | Phase::Scheduled
        | Phase::Waiting
        | Phase::Leased
        | Phase::Suspended
        | Phase::Cancelled => Ok(()),
    }
}

/// Whether an item was refused for what it has become since it was found, or is gone.
fn may_have_changed(result: &Result<(), EngineError>) -> bool {
    matches!(
        result,
        Err(EngineError::Refused(
            Refusal::NotFound
                | Refusal::WrongPhase { .. }
                | Refusal::NotEnded
                | Refusal::Ended
                | Refusal::MovedOn { .. }
        ))
    )
}

/// If the item cannot be read now, it counts as matching.
async fn matches_now(search: &Search, scan: &Scan, id: ItemId) -> bool {
    !matches!(search.match_now(scan, id.number).await, Ok(None))
}
