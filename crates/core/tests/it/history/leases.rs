//! Leases: which items they grant, and what becomes of an item by its permit.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Item, ItemError, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::time::Span;
use windlass_core::verbs::{
    Complete, Completion, Extend, Filter, Held, LeaseItems, Leased, Release, Retried, Retry, RetryItem,
    Revoke,
};

use super::{History, Pick, kind_name};

impl History {
    /// Exactly the first of all that match, by priority and place, but for those that are overdue.
    pub(super) fn lease(
        &mut self,
        batch_size: usize,
        kinds: u8,
        max_priority: u8,
        before: &BTreeMap<ItemNumber, Item>,
    ) {
        let kinds: Vec<_> = (0..3).filter(|kind| kinds >> kind & 1 == 1).map(kind_name).collect();
        let matches = |item: &&Item| {
            let kind_fits = kinds.is_empty() || kinds.contains(&item.kind);
            self.is_waiting(item)
                && !self.is_stopped(&item.kind)
                && item.priority <= max_priority
                && kind_fits
        };
        let mut expected: Vec<_> = before.values().filter(matches).collect();
        expected.sort_by_key(|item| (item.priority, item.place));
        let best = expected.first().map(|item| (item.priority, item.place));
        expected.retain(|item| !self.is_overdue(item.number));
        expected.truncate(batch_size);

        let filter = Filter::new((!kinds.is_empty()).then(|| kinds.clone()), max_priority);
        let head = self.partition.head(&filter).map(|head| (head.priority, head.place));
        assert_eq!(head, best);
        let lease = LeaseItems { client_id: "worker".into(), batch_size, lease_timeout: None, filter };
        let leased = self.apply(lease).expect("a lease is never refused");
        let numbers: Vec<_> = leased.iter().map(|leased| leased.id.number).collect();
        assert_eq!(numbers, expected.iter().map(|item| item.number).collect::<Vec<_>>());
        leased.iter().for_each(|leased| self.granted(leased));
    }

    fn granted(&mut self, leased: &Leased) {
        let Leased { id, permit, .. } = *leased;
        let number = id.number;
        assert!(self.permits.last().is_none_or(|last| last.permit < permit), "a permit came again");
        assert!(self.not_before[&number] <= self.now, "an item started early");
        assert!(!self.ended.contains(&number), "an item came back after its end");
        assert!(!self.is_overdue(number), "an item was handed out after its time");
        assert_eq!(leased.has_input, self.streams.is_answered(number));
        let attempts = self.attempts.entry(number).or_default();
        *attempts += 1;
        assert_eq!(leased.attempts, *attempts, "an attempt was not counted right");
        let max_attempts = self.max_attempts[&number];
        assert!(max_attempts == 0 || leased.attempts <= max_attempts, "an attempt too many");
        let earlier = self.holders.insert(number, (permit, leased.deadline));
        assert!(earlier.is_none_or(|(_, deadline)| deadline <= self.now), "two leases of one item");
        self.permits.push(leased.held());
    }

    /// A permit, and whether it is the right to its item now.
    pub(super) fn picked(&self, pick: Pick) -> Option<(Held, bool)> {
        let at = self.permits.len().checked_sub(1 + pick.back % self.permits.len().max(1))?;
        let mut held = self.permits[at];
        if pick.forged {
            held.permit.0 += 1_000_000_000;
        }
        let holds = self.holders.get(&held.id.number);
        Some((held, holds.is_some_and(|&(permit, until)| permit == held.permit && self.now < until)))
    }

    pub(super) fn judge<T>(
        &mut self,
        held: Held,
        rightful: bool,
        result: &Result<T, Refusal>,
        keeps_lease: bool,
    ) {
        assert_eq!(result.is_ok(), rightful, "{held:?} at {:?}: {:?}", self.now, result.as_ref().err());
        if rightful && !keeps_lease {
            self.holders.remove(&held.id.number);
        }
    }

    pub(super) fn complete(&mut self, pick: Pick, result: bool) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let completion = Completion { held, result: result.then(|| Bytes::from_static(b"a result")) };
        let done = self.apply(Complete(vec![completion])).expect("each item is judged by itself");
        if rightful {
            self.completed_in_group(held.id.number);
        }
        self.judge(held, rightful, &done[0], false);
        if rightful {
            self.ended.insert(held.id.number);
        }
    }

    pub(super) fn retry(&mut self, pick: Pick, due: Option<u8>, dead: bool, error: bool) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let (retry_at, delay) = match due {
            Some(secs) if secs % 2 == 1 => (None, Some(Span::from_secs(secs.into()))),
            Some(secs) => (Some(self.now + Span::from_secs(secs.into())), None),
            None => (None, None),
        };
        let error = error.then(|| ItemError { code: None, message: "it did not work".into() });
        let asked = retry_at.or(delay.map(|delay| self.now + delay));
        let retry = RetryItem { held, retry_at, delay, dead, error };
        let retried = self.apply(Retry(vec![retry])).expect("each item is judged by itself");
        self.judge(held, rightful, &retried[0], false);
        match retried[0] {
            Ok(Retried::Again { due_at }) => {
                assert!(asked.is_none_or(|at| at == due_at));
                self.not_before.insert(held.id.number, due_at);
            }
            Ok(Retried::Ended(_)) => {
                self.ended.insert(held.id.number);
            }
            Err(_) => {}
        }
    }

    pub(super) fn extend(&mut self, pick: Pick, timeout: Option<u8>) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let lease_timeout = timeout.map(|secs| Span::from_secs(secs.into()));
        let extend = Extend { lease_timeout, items: vec![held] };
        let extended = self.apply(extend).expect("each item is judged by itself");
        self.judge(held, rightful, &extended[0], true);
        if let Ok(extended) = &extended[0] {
            self.holders.insert(held.id.number, (held.permit, extended.deadline));
        }
    }

    pub(super) fn release(&mut self, pick: Pick) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let done = self.apply(Release(vec![held])).expect("each item is judged by itself");
        self.judge(held, rightful, &done[0], false);
        if rightful {
            *self.attempts.entry(held.id.number).or_default() -= 1;
        }
    }

    /// The attempt stays counted.
    pub(super) fn revoke(&mut self, pick: Pick) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let seen = self.partition.get(held.id.number).map(|item| item.state);
        let to_stop = matches!(seen, Some(State::Leased(lease)) if lease.cancel_requested);
        let done = self.apply(Revoke(vec![held])).expect("each item is judged by itself");
        self.judge(held, rightful, &done[0], false);
        let left = self.partition.get(held.id.number).map(|item| item.state.phase());
        if rightful && left.is_none_or(Phase::is_final) {
            self.ended.insert(held.id.number);
        }
        if rightful && to_stop {
            assert!(matches!(left, None | Some(Phase::Cancelled)), "{left:?}");
        }
    }

    pub(super) fn check_leased(&self) {
        let items = self.items().into_values();
        let leased: Vec<_> = items.filter(|item| matches!(item.state, State::Leased(_))).collect();
        assert_eq!(self.partition.leased_from(ItemNumber(0), 1000), leased);
        let middle = leased.len() / 2;
        let from = leased.get(middle).map_or(ItemNumber(0), |item| item.number);
        let page: Vec<_> = leased[middle..].iter().take(2).cloned().collect();
        assert_eq!(self.partition.leased_from(from, 2), page);
    }
}
