//! What may start, decided from what runs. Pure.

use std::collections::BTreeMap;

/// The most that one lease can ask for.
const BATCH_MAX: usize = 1000;

/// How much may run at a time.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// The first begins with priority 0. Less urgent ones follow, each with a lower limit on the total running.
    tiers: Vec<Tier>,
    max_priority: Option<u8>,
    /// All that may be asked for; any kind if none.
    kinds: Option<Vec<String>>,
    /// Of kinds that have a limit of their own.
    kind_limits: BTreeMap<String, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    from_priority: u8,
    limit: usize,
}

/// What has a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Running {
    total: usize,
    kinds: BTreeMap<String, usize>,
}

/// What a lease may ask for: all that it brings may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) batch_size: u32,
    /// Any if none.
    pub(super) kinds: Option<Vec<String>>,
    /// Any if none.
    pub(super) max_priority: Option<u8>,
}

impl Limits {
    /// A priority has the limit of the nearest more urgent one if it is not named, and never a higher one.
    pub(super) fn new(
        priorities: &BTreeMap<u8, usize>,
        max_priority: Option<u8>,
        kinds: Option<Vec<String>>,
        kind_limits: BTreeMap<String, usize>,
    ) -> Self {
        let mut tiers: Vec<Tier> = Vec::new();
        for (priority, limit) in priorities {
            match tiers.last() {
                None => tiers.push(Tier { from_priority: 0, limit: *limit }),
                Some(last) if *limit < last.limit => {
                    tiers.push(Tier { from_priority: *priority, limit: *limit });
                }
                Some(_) => {}
            }
        }
        tiers.retain(|tier| max_priority.is_none_or(|max| tier.from_priority <= max));
        Self { tiers, max_priority, kinds, kind_limits }
    }

    /// What the next lease may ask for; none if nothing may start.
    pub(super) fn wants(&self, running: &Running) -> Option<Wants> {
        // The limits fall, so the tiers with room come first: the last of them takes the most.
        let open = self.tiers.iter().rposition(|tier| running.total < tier.limit)?;
        let below_closed = self.tiers.get(open + 1).map(|closed| closed.from_priority - 1);
        let kinds = self.kinds.as_ref().map(|kinds| self.with_room(kinds, running));
        if kinds.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let rooms = kinds.iter().flatten().filter_map(|kind| self.kind_room(kind, running));
        // All of a batch may be of one kind.
        let room = rooms.fold(self.tiers[open].limit - running.total, usize::min);
        let batch_size = u32::try_from(room.min(BATCH_MAX)).expect("at most a thousand");
        Some(Wants { batch_size, kinds, max_priority: below_closed.or(self.max_priority) })
    }

    /// Whether an item may start that was leased.
    pub(super) fn admits(&self, running: &Running, kind: &str, priority: u32) -> bool {
        let tier = self.tiers.iter().rfind(|tier| u32::from(tier.from_priority) <= priority);
        tier.is_some_and(|tier| running.total < tier.limit) && self.kind_room(kind, running) != Some(0)
    }

    /// Whether a handler may go on that had given its slot up. It has started already: only the whole counts.
    pub(super) fn admits_back(&self, running: &Running, kind: &str) -> bool {
        self.admits(running, kind, 0)
    }

    fn with_room(&self, kinds: &[String], running: &Running) -> Vec<String> {
        kinds.iter().filter(|kind| self.kind_room(kind, running) != Some(0)).cloned().collect()
    }

    /// None if the kind has no limit of its own.
    fn kind_room(&self, kind: &str, running: &Running) -> Option<usize> {
        let limit = self.kind_limits.get(kind)?;
        Some(limit.saturating_sub(running.kinds.get(kind).copied().unwrap_or_default()))
    }
}

impl Running {
    pub(super) fn add(&mut self, kind: &str) {
        self.total += 1;
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
    }

    pub(super) fn remove(&mut self, kind: &str) {
        self.total -= 1;
        let count = self.kinds.get_mut(kind).expect("what runs was added");
        *count -= 1;
        if *count == 0 {
            self.kinds.remove(kind);
        }
    }
}

impl Wants {
    /// Whether a lease that asks for `self` may go on waiting when `now` is what may be asked for. More room alone is no
    /// reason to ask anew: as soon as it is answered the next one does.
    pub(super) fn still_right(&self, now: &Self) -> bool {
        self.kinds == now.kinds && self.max_priority == now.max_priority && self.batch_size <= now.batch_size
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    const KINDS: [&str; 3] = ["a", "b", "c"];

    fn running(kinds: &[&str]) -> Running {
        let mut running = Running::default();
        kinds.iter().for_each(|kind| running.add(kind));
        running
    }

    fn by_priority(priorities: &[(u8, usize)]) -> Limits {
        Limits::new(&priorities.iter().copied().collect(), None, None, BTreeMap::new())
    }

    fn asked(limits: &Limits, total: usize) -> Option<(u32, Option<u8>)> {
        limits.wants(&running(&vec!["a"; total])).map(|wants| (wants.batch_size, wants.max_priority))
    }

    #[test]
    fn head_room_is_kept_for_the_more_urgent() {
        let limits = by_priority(&[(0, 10), (1, 5)]);
        assert_eq!(asked(&limits, 0), Some((5, None)));
        assert_eq!(asked(&limits, 4), Some((1, None)));
        assert_eq!(asked(&limits, 5), Some((5, Some(0))));
        assert_eq!(asked(&limits, 9), Some((1, Some(0))));
        assert_eq!(asked(&limits, 10), None);
        assert_eq!(asked(&limits, 11), None);
    }

    #[test]
    fn a_priority_that_is_not_named_has_the_limit_of_the_nearest_more_urgent_one() {
        let limits = by_priority(&[(3, 4), (7, 2), (9, 3)]);
        assert_eq!(asked(&limits, 1), Some((1, None)));
        assert_eq!(asked(&limits, 2), Some((2, Some(6))));
        assert!(limits.admits(&running(&["a"; 3]), "a", 0));
        assert!(!limits.admits(&running(&["a"; 2]), "a", 9), "no higher than that of 7");
    }

    #[test]
    fn priorities_that_are_not_wanted_are_never_asked_for() {
        let limits = Limits::new(&[(0, 10), (5, 5)].into(), Some(4), None, BTreeMap::new());
        assert_eq!(asked(&limits, 0), Some((10, Some(4))));
        let limits = Limits::new(&[(0, 10), (5, 5)].into(), Some(7), None, BTreeMap::new());
        assert_eq!(asked(&limits, 0), Some((5, Some(7))));
        assert_eq!(asked(&limits, 6), Some((4, Some(4))));
    }

    #[test]
    fn kinds_at_their_limit_are_left_out() {
        let kinds = Some(KINDS.map(str::to_owned).to_vec());
        let limits = Limits::new(&[(0, 10)].into(), None, kinds, [("b".to_owned(), 2)].into());
        let asked = |kinds: &[&str]| {
            let wants = limits.wants(&running(kinds)).unwrap();
            (wants.batch_size, wants.kinds.unwrap().concat())
        };
        assert_eq!(asked(&["a"]), (2, "abc".to_owned()));
        assert_eq!(asked(&["b", "a"]), (1, "abc".to_owned()));
        assert_eq!(asked(&["b", "b"]), (8, "ac".to_owned()));
    }

    fn any_limits() -> impl Strategy<Value = Limits> {
        let priorities = btree_map(0..6u8, 0..8usize, 1..4);
        let kind_limits = btree_map((0..3usize).prop_map(|kind| KINDS[kind].to_owned()), 0..4usize, 0..3);
        let kinds = Some(KINDS.map(str::to_owned).to_vec());
        let max_priority = proptest::option::of(0..6u8);
        (priorities, max_priority, kind_limits).prop_map(move |(priorities, max, kind_limits)| {
            Limits::new(&priorities, max, kinds.clone(), kind_limits)
        })
    }

    proptest! {
        #[test]
        fn whatever_a_lease_may_bring_may_start(
            limits in any_limits(),
            before in vec(0..3usize, 0..8),
            brought in vec((0..3usize, 0..8u32), 0..8),
        ) {
            let mut running = running(&before.iter().map(|kind| KINDS[*kind]).collect::<Vec<_>>());
            let Some(wants) = limits.wants(&running) else { return Ok(()) };
            let matching = brought.into_iter().map(|(kind, priority)| (KINDS[kind].to_owned(), priority)).filter(
                |(kind, priority)| {
                    wants.kinds.as_ref().unwrap().contains(kind)
                        && wants.max_priority.is_none_or(|max| *priority <= u32::from(max))
                },
            );
            for (kind, priority) in matching.take(wants.batch_size as usize) {
                prop_assert!(limits.admits(&running, &kind, priority));
                running.add(&kind);
            }
        }

        #[test]
        fn what_may_start_is_asked_for(
            limits in any_limits(),
            before in vec(0..3usize, 0..8),
            kind in 0..3usize,
            priority in 0..8u32,
        ) {
            let running = running(&before.iter().map(|kind| KINDS[*kind]).collect::<Vec<_>>());
            let wanted = limits.max_priority.is_none_or(|max| priority <= u32::from(max));
            let wants = limits.wants(&running);
            let asked_for = wants.is_some_and(|wants| {
                wants.batch_size > 0
                    && wants.kinds.unwrap().iter().any(|asked| asked == KINDS[kind])
                    && wants.max_priority.is_none_or(|max| priority <= u32::from(max))
            });
            prop_assert_eq!(asked_for, wanted && limits.admits(&running, KINDS[kind], priority));
        }
    }
}
