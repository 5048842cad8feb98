//! [`Merge`]: slices of several partitions as one order of items, the oldest or the newest first.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::warn;
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::partition::{FindOrder, FindSlice, Found, FoundItem};
use windlass_core::row::Part;

use super::{Search, WalkPlace};
use crate::error::EngineError;
use crate::partition::handle::{Handle, PartitionState};
use crate::queue::QueueHandle;
use crate::store::sound;

/// Items that a partition looks at before it serves others.
pub(super) const SLICE_LOOKS: usize = 500;
/// Records that are read and matched without a pause.
const VERIFIED_AT_ONCE: usize = 32;
/// Items that all partitions of a page look at together.
const PAGE_LOOKS: usize = 10_000;
/// How long a page waits for the answer of a partition that is loading, and of any partition if the page may be answered
/// without it.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3);

/// The way of a page through one partition.
pub(crate) struct Scan {
    pub(super) queue: Arc<QueueHandle>,
    pub(in crate::queue) handle: Arc<Handle>,
    /// [`FindSlice::until`]; unset until the partition is first asked.
    until: Option<ItemNumber>,
    /// [`FindSlice::after`] of the next slice.
    after: Option<ItemNumber>,
    /// Items that match and are not on the page yet.
    found: VecDeque<FoundItem>,
    /// How many matches the next slice asks for: a partition that is asked again is asked for more.
    wanted: usize,
    state: ScanState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanState {
    /// There may be more than was found.
    Open,
    AtEnd,
    /// The partition does not serve, and the page is answered without the rest of it.
    Missing,
}

impl Scan {
    /// From the beginning if no place is given.
    pub(crate) fn new(queue: &Arc<QueueHandle>, handle: &Arc<Handle>, place: Option<&WalkPlace>) -> Self {
        Self {
            queue: Arc::clone(queue),
            handle: Arc::clone(handle),
            until: place.and_then(|place| place.until),
            after: place.and_then(|place| place.after),
            found: VecDeque::new(),
            wanted: 0,
            state: ScanState::Open,
        }
    }

    pub(in crate::queue) fn id(&self, found: &FoundItem) -> ItemId {
        ItemId { partition: self.handle.id, number: found.item.number }
    }

    /// Where the next page goes on: before the first match that is not on this one. Unset at the end.
    fn place(&self, order: FindOrder) -> Option<WalkPlace> {
        let after = match (self.found.front(), self.state) {
            (Some(first), _) => just_before(first.item.number, order),
            (None, ScanState::AtEnd) => return None,
            (None, ScanState::Open | ScanState::Missing) => self.after,
        };
        Some(WalkPlace { partition: self.handle.id, until: self.until, after })
    }

    fn ask(&self, search: &Search, matches_max: usize, looks_max: usize) -> Result<Asked, EngineError> {
        let (find, order) = (Arc::clone(&search.find), search.order);
        let (after, until) = (self.after, self.until);
        let is_loading = self.handle.state() == PartitionState::Loading;
        if is_loading && search.partial {
            return Err(EngineError::not_applied(format!("partition {} is loading", self.handle.id)));
        }
        let answer = self.handle.ask(move |partition, _| {
            let until = until.unwrap_or_else(|| partition.find_until());
            let slice = FindSlice { find, order, after, until, matches_max, looks_max };
            (until, partition.find(&slice))
        })?;
        let gives_up_at = (is_loading || search.partial).then(|| self.queue.env.boot() + ANSWER_WAIT_MAX);
        Ok(Asked { answer, gives_up_at })
    }

    async fn answered(&self, asked: Asked) -> Result<(ItemNumber, Found), EngineError> {
        let Asked { answer, gives_up_at } = asked;
        let late = async {
            match gives_up_at {
                Some(at) => self.queue.env.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|_dropped| self.handle.no_answer()),
            () = late => {
                Err(EngineError::not_applied(format!("partition {} does not answer", self.handle.id)))
            }
        }
    }

    /// The items whose records have what is asked for. Few are read at once, and other requests have their turn in between: one thread
    /// may serve all of them.
    async fn verified(
        &self,
        mut items: Vec<FoundItem>,
        search: &Search,
    ) -> Result<Vec<FoundItem>, EngineError> {
        let Some(verify) = &search.verify else { return Ok(items) };
        let has_it = |facts: Option<_>| facts.is_some_and(|facts| (verify.0)(&facts));
        let mut matches = Vec::with_capacity(items.len());
        for few in items.chunks(VERIFIED_AT_ONCE) {
            let wanted = few.iter().map(|found| (found.item.number, Part::Facts)).collect();
            let facts = sound(self.queue.store.read(self.handle.id, wanted).await);
            let facts = facts.map_err(|error| EngineError::not_applied(error.to_string()))?;
            matches.extend(facts.into_iter().map(has_it));
            tokio::task::yield_now().await;
        }
        let mut matches = matches.into_iter();
        items.retain(|_| matches.next().expect("one answer for each item"));
        Ok(items)
    }
}

/// A slice that a partition was asked for.
struct Asked {
    answer: oneshot::Receiver<(ItemNumber, Found)>,
    /// On the boot clock; unset if the page waits for the answer however long it takes.
    gives_up_at: Option<Duration>,
}

/// Numbers that come after it in the order begin with this one.
fn just_before(ItemNumber(number): ItemNumber, order: FindOrder) -> Option<ItemNumber> {
    match order {
        FindOrder::Newest => number.checked_add(1).map(ItemNumber),
        FindOrder::Oldest => number.checked_sub(1).map(ItemNumber),
    }
}

/// The items of a page as they are picked, each with the index of its scan.
pub(crate) struct Merge<'a> {
    search: &'a Search,
    pub(in crate::queue) scans: Vec<Scan>,
    /// The scans that have found something, by the rank of the first item of each.
    heads: BTreeSet<(u64, usize)>,
    pub(in crate::queue) picked: Vec<(usize, FoundItem)>,
    pub(super) looked: usize,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(search: &'a Search, mut scans: Vec<Scan>) -> Self {
        if search.find.is_of_nothing() {
            scans.clear();
        }
        let share = search.limit.div_ceil(scans.len().max(1));
        scans.iter_mut().for_each(|scan| scan.wanted = share);
        Self { search, scans, heads: BTreeSet::new(), picked: Vec::new(), looked: 0 }
    }

    /// Picks items until the page is full, or as many were looked at as may be. A partition that `is_gone` is passed over.
    pub(crate) async fn pick(&mut self, is_gone: impl Fn(PartitionId) -> bool) -> Result<(), EngineError> {
        while self.picked.len() < self.search.limit {
            let headless: Vec<usize> = (0..self.scans.len()).filter(|&at| self.is_headless(at)).collect();
            if headless.is_empty() {
                if !self.pick_first() {
                    return Ok(());
                }
            } else if self.looked < PAGE_LOOKS {
                self.look(headless, &is_gone).await?;
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Picks what was found where no partition may be asked any more.
    pub(super) fn pick_rest(&mut self) {
        while self.picked.len() < self.search.limit && self.pick_first() {}
    }

    /// Whether the scan may have more, and has nothing that could be picked.
    fn is_headless(&self, at: usize) -> bool {
        self.scans[at].state == ScanState::Open && self.scans[at].found.is_empty()
    }

    /// Has each of the scans look at a slice, all at the same time.
    async fn look(
        &mut self,
        mut headless: Vec<usize>,
        is_gone: &impl Fn(PartitionId) -> bool,
    ) -> Result<(), EngineError> {
        let looks_left = PAGE_LOOKS - self.looked;
        headless.truncate(looks_left);
        let looks_max = (looks_left / headless.len()).min(SLICE_LOOKS);
        // Most of what is found may turn out not to match once it is verified.
        let room =
            if self.search.verify.is_some() { SLICE_LOOKS } else { self.search.limit - self.picked.len() };
        let ask = |at: usize| {
            let scan = &self.scans[at];
            (at, scan.ask(self.search, scan.wanted.min(room), looks_max))
        };
        let asked: Vec<_> = headless.into_iter().map(ask).collect();
        for (at, answer) in asked {
            let scan = &self.scans[at];
            let answer = match answer {
                Ok(asked) => scan.answered(asked).await,
                Err(error) => Err(error),
            };
            let found = match answer {
                Ok((until, Found { items, looked, after })) => {
                    self.looked += looked;
                    scan.verified(items, self.search).await.map(|items| (until, items, after))
                }
                Err(error) => Err(error),
            };
            match found {
                Ok((until, items, after)) => self.found(at, until, items, after),
                Err(error) => self.scans[at].state = self.without(at, error, is_gone)?,
            }
        }
        Ok(())
    }

    fn found(&mut self, at: usize, until: ItemNumber, items: Vec<FoundItem>, after: Option<ItemNumber>) {
        let scan = &mut self.scans[at];
        scan.until = Some(until);
        scan.found = items.into();
        scan.wanted = scan.wanted.saturating_mul(2);
        match after {
            Some(_) => scan.after = after,
            None => scan.state = ScanState::AtEnd,
        }
        self.head(at);
    }

    /// How the page goes on without a partition, if it may.
    fn without(
        &self,
        at: usize,
        error: EngineError,
        is_gone: &impl Fn(PartitionId) -> bool,
    ) -> Result<ScanState, EngineError> {
        let is_unavailable = matches!(error, EngineError::Unavailable { .. });
        if is_unavailable && is_gone(self.scans[at].handle.id) {
            Ok(ScanState::AtEnd)
        } else {
            self.missing_for(at, error)
        }
    }

    /// [`ScanState::Missing`] if the page may be answered without a partition that does not serve.
    fn missing_for(&self, at: usize, error: EngineError) -> Result<ScanState, EngineError> {
        let scan = &self.scans[at];
        if !self.search.partial || !matches!(error, EngineError::Unavailable { .. }) {
            return Err(error);
        }
        warn!(queue = &*scan.queue.queue.name.name, partition = %scan.handle.id, %error, "found without a partition");
        Ok(ScanState::Missing)
    }

    /// Ranks the scan by the first item that it has.
    fn head(&mut self, at: usize) {
        let Some(first) = self.scans[at].found.front() else { return };
        let created_at = first.item.created_at.0;
        let rank = match self.search.order {
            FindOrder::Newest => !created_at,
            FindOrder::Oldest => created_at,
        };
        self.heads.insert((rank, at));
    }

    /// Whether there was one.
    fn pick_first(&mut self) -> bool {
        let Some((_, at)) = self.heads.pop_first() else { return false };
        let first = self.scans[at].found.pop_front().expect("a scan with a rank has found something");
        self.picked.push((at, first));
        self.head(at);
        true
    }

    /// Leaves the items from this one on to the next page.
    pub(super) fn put_back(&mut self, from: usize) {
        for (at, found) in self.picked.drain(from..).rev() {
            self.scans[at].found.push_front(found);
        }
    }

    /// Leaves the items of a scan that were picked, from this one on, to the next page: they cannot be shown now.
    pub(super) fn leave_out(
        &mut self,
        at: usize,
        from: usize,
        error: EngineError,
    ) -> Result<(), EngineError> {
        self.scans[at].state = self.missing_for(at, error)?;
        let (left, kept): (Vec<_>, Vec<_>) = self.picked.drain(from..).partition(|(of, _)| *of == at);
        self.picked.extend(kept);
        left.into_iter().rev().for_each(|(_, found)| self.scans[at].found.push_front(found));
        Ok(())
    }

    /// Where the next page goes on: in the partitions that were not walked to their end, missing ones among them.
    pub(in crate::queue) fn places(&self) -> Vec<WalkPlace> {
        self.scans.iter().filter_map(|scan| scan.place(self.search.order)).collect()
    }

    pub(super) fn missing(&self) -> Vec<PartitionId> {
        let missing = self.scans.iter().filter(|scan| scan.state == ScanState::Missing);
        let mut missing: Vec<PartitionId> = missing.map(|scan| scan.handle.id).collect();
        missing.sort_unstable();
        missing
    }
}
