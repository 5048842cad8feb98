//! What killed processes said, and what must therefore be true.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{ItemId, ItemNumber, PartitionId, Permit};

#[derive(Default)]
pub(super) struct Word {
    pub(super) live: BTreeMap<ItemId, Acknowledged>,
    pub(super) ended: BTreeSet<ItemId>,
    /// Bodies of items that were given up: each must be in the dead queue once, or on its way there.
    pub(super) given_up: BTreeSet<String>,
    /// Bodies that were found in the dead queue, and completed there.
    pub(super) buried: BTreeSet<String>,
    /// Calls of the process that runs now.
    pub(super) calls: usize,
    pub(super) acknowledged: usize,
    pub(super) refused: usize,
}

#[derive(Default)]
pub(super) struct Acknowledged {
    pub(super) body: Option<String>,
    pub(super) permit: Option<Permit>,
    /// A completion, a release or a giving up was sent and not answered.
    pub(super) in_doubt: bool,
}

impl Word {
    pub(super) fn hear(&mut self, line: &str) {
        if line == "acknowledged" || line == "refused" {
            self.calls += 1;
            let count = if line == "refused" { &mut self.refused } else { &mut self.acknowledged };
            *count += 1;
            return;
        }
        let mut words = line.split(' ');
        let what = words.next().expect("split gives at least one");
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        let id = ItemId { partition: PartitionId(number() as u32), number: ItemNumber(number()) };
        let more = words.next().unwrap_or_default();
        // Lines of different callers may overtake each other on the way to the pipe; permits tell which is newer.
        if what == "produced" {
            if !self.ended.contains(&id) {
                self.live.entry(id).or_default().body = Some(more.to_owned());
            }
            return;
        }
        self.hear_of_lease(what, id, Permit(more.parse().expect("a permit")));
    }

    fn hear_of_lease(&mut self, what: &str, id: ItemId, permit: Permit) {
        if self.ended.contains(&id) {
            assert!(what != "leased", "{id} came back after its end");
            return;
        }
        let item = self.live.entry(id).or_default();
        let current = item.permit == Some(permit);
        match what {
            "leased" => {
                let free = item.permit.is_none_or(|old| item.in_doubt && old < permit);
                assert!(free, "{id} leased twice at once");
                (item.permit, item.in_doubt) = (Some(permit), false);
            }
            "ending" if current => item.in_doubt = true,
            "released" if current => (item.permit, item.in_doubt) = (None, false),
            "completed" => self.ends(id),
            "gave-up" => {
                let body = item.body.clone();
                // An item whose production was not acknowledged has no body here.
                self.given_up.extend(body);
                self.ends(id);
            }
            "ending" | "released" => {}
            other => panic!("the victim said something else: {other}"),
        }
    }

    pub(super) fn ends(&mut self, id: ItemId) {
        self.live.remove(&id);
        self.ended.insert(id);
    }

    pub(super) fn open_leases(&self) -> usize {
        self.live.values().filter(|item| item.permit.is_some() && !item.in_doubt).count()
    }
}
