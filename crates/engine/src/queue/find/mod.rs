//! Items found in all partitions of a queue, or of several queues, page by page.

mod merge;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::partition::{Find, FindOrder, FindSlice, FoundItem};
use windlass_core::row::Part;

use super::QueueHandle;
use crate::error::EngineError;
use crate::view::{self, ItemView};
pub(crate) use merge::{Merge, Scan};

/// A page takes no further item if its bodies would come to more bytes than that.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Items whose bodies are read at once: the sizes of bodies are only known afterwards.
const READ_SLICE: usize = 16;

/// What to find, and how much of it.
#[derive(Clone, Debug)]
pub struct Search {
    pub find: Arc<Find>,
    /// Of the items as they were produced. Over several partitions it is best effort.
    pub order: FindOrder,
    /// Set if `find` leaves it to the record whether an item matches.
    pub verify: Option<Verify>,
    pub limit: usize,
    /// Whether payloads and results are shown.
    pub payloads: bool,
    /// Whether a page is answered without the partitions that do not serve.
    pub partial: bool,
}

/// Tells by the facts of an item whether it has the reference and the headers that are asked for.
#[derive(Clone)]
pub struct Verify(pub Arc<dyn Fn(&Bytes) -> bool + Send + Sync>);

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verify")
    }
}

/// How far the pages of a search have come, good for as long as wanted: a partition that is not in it was walked to its end, or
/// has only items that were produced after the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    pub places: Vec<WalkPlace>,
}

impl Walk {
    /// None if there is nowhere to go on.
    pub(super) fn to(places: Vec<WalkPlace>) -> Option<Self> {
        (!places.is_empty()).then_some(Self { places })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkPlace {
    pub partition: PartitionId,
    /// Items after this one were produced after the walk began. Unset in pivots of earlier versions, of partitions that did not
    /// serve then.
    pub until: Option<ItemNumber>,
    /// The last item that was walked past; unset at the beginning.
    pub after: Option<ItemNumber>,
}

/// What a page of a search found.
#[derive(Clone, Debug)]
pub struct SearchPage {
    pub items: Vec<ItemView>,
    /// Where the next page goes on; unset at the end.
    pub walk: Option<Walk>,
    /// How many items were looked at.
    pub scanned: usize,
    /// The partitions that did not serve.
    pub missing: Vec<PartitionId>,
}

impl QueueHandle {
    /// The way of a page through the partitions of the queue. One that came after the first page has nothing that was there then.
    pub(crate) fn scans(self: &Arc<Self>, walk: Option<&Walk>) -> Vec<Scan> {
        let Some(walk) = walk else {
            return self.all().map(|handle| Scan::new(self, handle, None)).collect();
        };
        let of_place = |place: &WalkPlace| {
            let handle = self.find(place.partition).ok()?;
            Some(Scan::new(self, handle, Some(place)))
        };
        walk.places.iter().filter_map(of_place).collect()
    }
}

impl Search {
    /// A page of what the scans lead through.
    pub(crate) async fn page(
        &self,
        scans: Vec<Scan>,
        is_gone: impl Fn(PartitionId) -> bool,
    ) -> Result<SearchPage, EngineError> {
        let mut merge = Merge::new(self, scans);
        merge.pick(is_gone).await?;
        self.shown(merge).await
    }

    /// As [`Search::page`], where no page comes after it.
    pub(crate) async fn only_page(
        &self,
        scans: Vec<Scan>,
        is_gone: impl Fn(PartitionId) -> bool,
    ) -> Result<SearchPage, EngineError> {
        let mut merge = Merge::new(self, scans);
        merge.pick(is_gone).await?;
        merge.pick_rest();
        let page = self.shown(merge).await?;
        Ok(SearchPage { walk: None, ..page })
    }

    /// The items that were picked, with their bodies, as far as they fit a page.
    async fn shown(&self, mut merge: Merge<'_>) -> Result<SearchPage, EngineError> {
        let (mut items, mut bytes, mut read) = (Vec::with_capacity(merge.picked.len()), 0, 0);
        'page: while read < merge.picked.len() {
            let slice = &merge.picked[read..merge.picked.len().min(read + READ_SLICE)];
            let views = match self.with_bodies(&merge.scans, slice).await {
                Ok(views) => views,
                Err(Unreadable { scan, error }) => {
                    merge.leave_out(scan, read, error)?;
                    continue;
                }
            };
            for view in views {
                let more = view.as_ref().map_or(0, shown_bytes);
                if bytes + more > PAGE_BYTES_MAX && !items.is_empty() {
                    merge.put_back(read);
                    break 'page;
                }
                (bytes, read) = (bytes + more, read + 1);
                items.extend(view);
            }
        }
        let walk = Walk::to(merge.places());
        Ok(SearchPage { items, walk, scanned: merge.looked, missing: merge.missing() })
    }

    /// One answer for each item: none if it does not match any more.
    async fn with_bodies(
        &self,
        scans: &[Scan],
        slice: &[(usize, FoundItem)],
    ) -> Result<Vec<Option<ItemView>>, Unreadable> {
        let mut by_scan: BTreeMap<usize, Vec<(usize, &FoundItem)>> = BTreeMap::new();
        for (index, (at, found)) in slice.iter().enumerate() {
            by_scan.entry(*at).or_default().push((index, found));
        }
        let mut views = vec![None; slice.len()];
        for (at, items) in by_scan {
            let scan = &scans[at];
            let unreadable = |error| Unreadable { scan: at, error };
            let found: Vec<&FoundItem> = items.iter().map(|(_, found)| *found).collect();
            let bodies = self.read(scan, &found).await.map_err(unreadable)?;
            for ((index, found), bodies) in items.into_iter().zip(bodies) {
                let view = self.view(scan, found.clone(), bodies);
                views[index] = if self.may_have_ended(&view) {
                    self.view_anew(scan, view).await.map_err(unreadable)?
                } else {
                    Some(view)
                };
            }
        }
        Ok(views)
    }

    fn may_have_ended(&self, view: &ItemView) -> bool {
        self.payloads && view.may_have_ended()
    }

    /// The item as it is by now, if it still matches. If nothing about it has changed, its payload is lost.
    async fn view_anew(&self, scan: &Scan, mut before: ItemView) -> Result<Option<ItemView>, EngineError> {
        loop {
            let Some(found) = self.match_now(scan, before.id.number).await? else { return Ok(None) };
            let bodies = self.read(scan, &[&found]).await?.remove(0);
            let view = self.view(scan, found, bodies);
            if !self.may_have_ended(&view) || view.item == before.item {
                return Ok(Some(view));
            }
            before = view;
        }
    }

    /// The item, if it matches now.
    pub(in crate::queue) async fn match_now(
        &self,
        scan: &Scan,
        number: ItemNumber,
    ) -> Result<Option<FoundItem>, EngineError> {
        let slice = FindSlice {
            find: Arc::clone(&self.find),
            order: FindOrder::Oldest,
            after: number.0.checked_sub(1).map(ItemNumber),
            until: number,
            matches_max: 1,
            looks_max: 1,
        };
        scan.handle.query(move |partition, _| partition.find(&slice).items.pop()).await
    }

    fn view(&self, scan: &Scan, found: FoundItem, bodies: [Option<Bytes>; 3]) -> ItemView {
        view::of(&scan.queue.queue, scan.id(&found), found.item, found.member, bodies)
    }

    /// Payload, result and facts of each item, as far as they are shown. A damaged one is left out, so that its item is shown
    /// without it; one that cannot be read now is an error, for the item may be shown with it later.
    async fn read(&self, scan: &Scan, items: &[&FoundItem]) -> Result<Vec<[Option<Bytes>; 3]>, EngineError> {
        let parts: &[Part] = if self.payloads { &view::SHOWN } else { &[Part::Facts] };
        let mut bodies = vec![[None, None, None]; items.len()];
        let (mut places, mut wanted) = (Vec::new(), Vec::new());
        for (index, found) in
            items.iter().enumerate().filter(|(_, found)| self.payloads || view::has_facts(&found.item))
        {
            for part in parts {
                let place = view::SHOWN.iter().position(|shown| shown == part);
                places.push((index, place.expect("one of those that are shown")));
                wanted.push((found.item.number, *part));
            }
        }
        if wanted.is_empty() {
            return Ok(bodies);
        }
        let read = scan.queue.store.read(scan.handle.id, wanted).await;
        for ((index, place), body) in places.into_iter().zip(read) {
            let unreadable = |error| EngineError::not_applied(format!("{}: {error}", scan.id(items[index])));
            bodies[index][place] = body.sound().map_err(unreadable)?;
        }
        Ok(bodies)
    }
}

/// Why the items of a scan cannot be shown now.
struct Unreadable {
    /// The index of the scan.
    scan: usize,
    error: EngineError,
}

/// What an item adds to a page that may be large.
fn shown_bytes(view: &ItemView) -> usize {
    let bodies = [&view.payload, &view.result, &view.facts].into_iter().flatten().map(Bytes::len);
    let error = view.item.extras.as_ref().and_then(|extras| extras.error.as_ref());
    bodies.sum::<usize>() + error.map_or(0, |error| error.message.len())
}
