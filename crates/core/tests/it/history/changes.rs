//! Items that are changed while nobody works on them, and final ones that are rerun.

use std::sync::Arc;

use bytes::Bytes;
use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{Extras, Item, MoveReason, Phase, State};
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Rerun, Update, UpdateItem};

use super::{Changed, History};

impl History {
    /// An item is changed as asked for, expires, or is refused and stays as it is.
    pub(super) fn update(&mut self, back: usize, changed: Changed) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let before = self.partition.get(number);
        let refusal = self.refused_change(before.as_ref(), changed.1.is_some());
        let update = self.update_of(number, changed);
        let reply = self.apply(Update(vec![update.clone()])).expect("each item is judged by itself");
        let Some(before) = before.filter(|_| refusal.is_none()) else {
            assert_eq!(Err(refusal), reply[0].clone().map_err(Some));
            return;
        };
        let item = reply[0].clone().expect("nothing stands against it").item;
        assert_eq!(self.partition.get(number).as_ref(), Some(&item));
        self.changed(&before, &update);
        assert_eq!(item.priority, update.priority.unwrap_or(before.priority));
        if self.is_overdue(number) {
            assert_eq!(item.state.phase(), Phase::Expired);
            self.ended.insert(number);
            return;
        }
        let due_at = update.delay.map(|delay| self.now + delay).or(update.enqueue_at);
        match (&before.state, due_at) {
            (State::Waiting { .. } | State::Scheduled { .. }, Some(due_at)) if due_at > self.now => {
                assert_eq!(item.state, State::Scheduled { due_at });
                self.not_before.insert(number, due_at);
            }
            (State::Scheduled { .. }, Some(_)) => {
                assert_eq!(item.state, State::Waiting { since: self.now });
                self.not_before.insert(number, self.now);
            }
            (state, _) => assert_eq!(item.state, *state),
        }
    }

    fn refused_change(&self, item: Option<&Item>, due: bool) -> Option<Refusal> {
        let Some(item) = item else { return Some(Refusal::NotFound) };
        let held = self.partition.member(item).is_some_and(|member| member.held);
        let phase = if held { Phase::Held } else { item.state.phase() };
        let fits = match phase {
            Phase::Waiting | Phase::Scheduled => true,
            Phase::Held | Phase::Suspended => !due,
            _ => false,
        };
        (!fits).then_some(Refusal::WrongPhase { phase })
    }

    fn update_of(
        &self,
        number: ItemNumber,
        (priority, due, max_attempts, lives, record): Changed,
    ) -> UpdateItem {
        let due = due.map(|secs| Span::from_secs(secs.into()));
        let is_odd = |due: &Span| due.0 / 1_000_000 % 2 == 1;
        let facts = |with: bool| with.then(|| Bytes::from_static(b"facts"));
        UpdateItem {
            priority,
            enqueue_at: due.filter(|due| !is_odd(due)).map(|due| self.now + due),
            delay: due.filter(is_odd),
            max_attempts: max_attempts.map(u32::from),
            dead_timeout: lives.map(|secs| Span::from_secs(secs.into())),
            record: record.map(|(bytes, with_facts)| (vec![0; bytes.into()].into(), facts(with_facts))),
            ..UpdateItem::new(number)
        }
    }

    fn changed(&mut self, before: &Item, update: &UpdateItem) {
        if let Some(max_attempts) = update.max_attempts {
            // One more, however many there were.
            let attempts_max = if max_attempts == 0 { 0 } else { max_attempts.max(before.attempts + 1) };
            self.max_attempts.insert(before.number, attempts_max);
        }
        match update.dead_timeout {
            Some(Span::ZERO) => drop(self.dead_at.remove(&before.number)),
            Some(timeout) => drop(self.dead_at.insert(before.number, before.created_at + timeout)),
            None => {}
        }
    }

    /// A final item whose payload is kept is rerun, once.
    pub(super) fn rerun(&mut self, back: usize, delay: Option<u8>) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let before = self.partition.get(number);
        let refusal = self.refused_rerun(before.as_ref());
        let delay = delay.map(|secs| Span::from_secs(secs.into()));
        let reply = self.apply(Rerun { number, queue: "q".into(), delay });
        let Some(before) = before.filter(|_| refusal.is_none()) else {
            assert_eq!(reply.err(), refusal);
            return;
        };
        let new = reply.expect("nothing stands against it").number;
        assert!(self.rerun.insert(number), "{number:?} was rerun twice");
        let old = self.partition.get(number).expect("it is kept").extras.unwrap_or_default();
        let id = ItemId { partition: self.partition.id(), number: new };
        assert_eq!(old.moved_to.map(|moved_to| moved_to.id), Some(id));
        self.check_made_anew(&before, new);
        let Extras { address, max_attempts, dead_timeout, .. } = *before.extras.unwrap_or_default();
        self.arrived(address.as_ref(), new);
        self.not_before.insert(new, delay.map_or(Timestamp(0), |delay| self.now + delay));
        self.max_attempts.insert(new, max_attempts.unwrap_or(self.settings.max_attempts));
        self.made(new, Some(dead_timeout.unwrap_or(Span::ZERO)));
    }

    fn refused_rerun(&self, item: Option<&Item>) -> Option<Refusal> {
        let Some(item) = item else { return Some(Refusal::NotFound) };
        let State::Final(outcome) = &item.state else { return Some(Refusal::NotEnded) };
        let extras = item.extras.as_deref();
        if let Some(moved_to) = extras.and_then(|extras| extras.moved_to.as_ref()) {
            return Some(Refusal::MovedOn { id: moved_to.id });
        }
        if outcome.outgoing.is_some() {
            return Some(Refusal::Leaving);
        }
        if !outcome.payload_kept {
            return Some(Refusal::NoPayload { lost: false });
        }
        let address = extras.and_then(|extras| extras.address.as_ref());
        if !self.takes(None, address.map(|address| &**address)) {
            return Some(Refusal::Moved);
        }
        let holder = address.and_then(|address| self.holders_of_addresses.get(address).copied());
        let holder = holder.filter(|number| self.is_live(*number));
        holder.map(|number| Refusal::DuplicateAddress { number })
    }

    fn check_made_anew(&self, before: &Item, new: ItemNumber) {
        let made = self.partition.get(new).expect("it was made");
        assert_eq!((made.created_at, made.attempts, made.group), (self.now, 0, None));
        assert_eq!((&made.kind, made.priority), (&before.kind, before.priority));
        assert_eq!(made.payload_size, before.payload_size);
        let (new, old) = (made.extras.unwrap_or_default(), before.extras.clone().unwrap_or_default());
        assert_eq!((&new.address, &new.cron), (&old.address, &old.cron));
        assert_eq!((new.facts_bytes, new.attempts_logged), (old.facts_bytes, old.attempts_logged));
        assert_eq!((new.event_count, new.has_input), (0, false));
        let origin = new.origin.expect("it came from the other");
        assert_eq!((origin.reason, origin.error), (MoveReason::Rerun, old.error));
        assert_eq!((origin.address, origin.attempts), (old.address, Some(before.attempts)));
        let group = self.partition.member(before).map(|member| member.group);
        assert_eq!((origin.queue, origin.group), (Arc::from("q"), group));
    }
}
