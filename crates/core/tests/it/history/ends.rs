//! Items that end without a worker, who is told of an end, and what is kept of it.

use std::collections::BTreeMap;

use windlass_core::id::ItemNumber;
use windlass_core::item::{End, Extras, Item, Phase, State};
use windlass_core::news::Ended;
use windlass_core::refusal::Refusal;
use windlass_core::verbs::{Cancel, Clear, Delete, DeleteAny};

use super::History;

impl History {
    pub(super) fn cancel(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let seen = self.partition.get(number).map(|item| item.state.phase());
        let reply = self.apply(Cancel(number));
        let Some(seen) = seen else { return assert_eq!(reply, Err(Refusal::NotFound)) };
        let told = reply.unwrap().item;
        let live = matches!(seen, Phase::Scheduled | Phase::Waiting | Phase::Suspended);
        assert_eq!(told.state.phase(), if live { Phase::Cancelled } else { seen });
        if let Some(kept) = self.partition.get(number) {
            assert_eq!(told, kept);
        }
        if live {
            self.ended.insert(number);
        }
    }

    pub(super) fn clear(&mut self, clear: Clear, before: &BTreeMap<ItemNumber, Item>) {
        let chosen = |item: &&Item| match item.state {
            State::Waiting { .. } => clear.waiting,
            State::Scheduled { .. } => clear.scheduled,
            State::Leased(_) => clear.leased,
            State::Suspended(_) => clear.suspended,
            State::Final(_) => false,
        };
        let gone: Vec<_> = before.values().filter(chosen).collect();
        assert_eq!(self.apply(clear), Ok(gone.len() as u64));
        for item in gone {
            let shows = |extras: &Extras| {
                extras.error.is_some() || extras.address.is_some() || extras.event_count > 0
            };
            let shows = item.extras.as_deref().is_some_and(shows);
            let left = self.partition.get(item.number).map(|item| item.state);
            let cancelled_now = |state: &State| match state {
                State::Final(outcome) => (outcome.end, outcome.finished_at) == (End::Cancelled, self.now),
                State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => {
                    false
                }
            };
            assert_eq!(left.as_ref().map(cancelled_now), shows.then_some(true), "{left:?}");
            self.holders.remove(&item.number);
            self.ended.insert(item.number);
        }
    }

    pub(super) fn delete(&mut self, back: usize, any: bool) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let expected = match self.partition.get(number).map(|item| item.state.phase().is_final()) {
            None => Err(Refusal::NotFound),
            Some(true) if !any => Err(Refusal::Ended),
            Some(_) => Ok(()),
        };
        let numbers = vec![number];
        let reply = if any { self.apply(DeleteAny(numbers)) } else { self.apply(Delete(numbers)) };
        assert_eq!(reply, Ok(vec![expected.clone()]));
        if expected.is_ok() {
            assert_eq!(self.partition.get(number), None);
            self.deleted.insert(number);
            self.holders.remove(&number);
            self.ended.insert(number);
        }
    }

    /// There is something to do exactly if it is due.
    pub(super) fn sweep(&mut self, limit: usize) {
        let due = self.partition.next_due().is_some_and(|due| due <= self.now);
        let batches = self.event_batches();
        let applied = self.partition.sweep(self.now, limit);
        let count = self.note(applied).expect("a sweep is never refused");
        assert_eq!(count > 0, due);
        assert!(count <= limit);
        // Batches of events that went along may have made it heavier.
        if count + (batches - self.event_batches()) / 64 < limit {
            assert!(self.partition.next_due().is_none_or(|due| due > self.now));
        }
    }

    pub(super) fn is_overdue(&self, number: ItemNumber) -> bool {
        self.dead_at.get(&number).is_some_and(|at| *at <= self.now)
    }

    pub(super) fn watch(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let seen = self.partition.watch(number);
        assert_eq!(seen, self.partition.get(number));
        if seen.is_some_and(|item| !item.state.phase().is_final()) {
            self.watched.insert(number);
        }
    }

    pub(super) fn unwatch(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        self.partition.unwatch(self.made[at]);
        self.watched.remove(&self.made[at]);
    }

    /// A step tells exactly the watched items that ended in it, each once and as it ended.
    pub(super) fn check_told(&mut self, before: &BTreeMap<ItemNumber, Item>) {
        for Ended { item: told, member, .. } in std::mem::take(&mut self.told) {
            let followed = self.streams.unfollow(told.number);
            assert!(
                self.watched.remove(&told.number) || followed,
                "{told:?} was told and not watched, or told twice"
            );
            let (earlier, State::Final(outcome)) = (&before[&told.number], &told.state) else {
                panic!("{told:?} has not ended")
            };
            assert!(!earlier.state.phase().is_final(), "{told:?} had ended before");
            assert_eq!(outcome.finished_at, self.now);
            assert_eq!(member, self.ended_member(earlier));
            let kept = self.partition.get(told.number);
            assert!(
                kept.as_ref().is_none_or(|kept| arrived(kept) == arrived(&told)),
                "{told:?} is kept as {kept:?}"
            );
        }
        for number in &self.watched {
            let seen = self.partition.get(*number).map(|item| item.state.phase());
            assert!(seen.is_some_and(|phase| !phase.is_final()), "{number:?} ended, and nobody was told");
        }
    }

    /// A final item never changes but for its move, is counted, and is forgotten in the order of ends; items that ended in
    /// the same moment, in any order.
    pub(super) fn check_finals(&self, before: &BTreeMap<ItemNumber, Item>) {
        let ended_at = |item: &Item| match &item.state {
            State::Final(outcome) => Some(outcome.finished_at),
            State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => None,
        };
        let after = self.items();
        let kept: Vec<_> = after.values().filter_map(ended_at).collect();
        assert_eq!(self.partition.retained(), kept.len() as u64);
        for (number, item) in before {
            let Some(end) = ended_at(item) else { continue };
            match after.get(number) {
                Some(later) => {
                    let mut later = arrived(later);
                    if let (State::Final(outcome), true) =
                        (&mut later.state, self.fell_back.0.contains(number))
                    {
                        assert_eq!(outcome.finished_at, self.now);
                        outcome.finished_at = end;
                    }
                    assert_eq!(later, arrived(item));
                }
                None if self.deleted.contains(number) => {}
                None => assert!(kept.iter().all(|kept| end <= *kept), "{number:?} went before its time"),
            }
        }
    }

    pub(super) fn check_ended(&self) {
        for number in &self.ended {
            let seen = self.partition.get(*number);
            assert!(
                seen.is_none_or(|item| item.state.phase().is_final()),
                "{number:?} lives on after its end"
            );
        }
        for number in &self.deleted {
            assert_eq!(self.partition.get(*number), None, "{number:?} was deleted");
        }
    }
}

/// A final item without its move to another queue, and as it is once it was rerun.
pub(super) fn arrived(item: &Item) -> Item {
    let mut item = item.clone();
    if let State::Final(outcome) = &mut item.state {
        outcome.outgoing = None;
        if std::mem::take(&mut outcome.payload_kept) {
            outcome.kept_bytes -= item.payload_size.bytes();
        }
    }
    if let Some(extras) = &mut item.extras {
        extras.moved_to = None;
    }
    item.extras.take_if(|extras| **extras == Extras::default());
    item
}
