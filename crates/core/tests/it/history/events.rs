//! Events in random histories: what must be kept of them and told of them after each step.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::event::NewEvent;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Extras, Outcome, PayloadSize, Phase, State};
use windlass_core::limits::{EVENT_BATCH_OVERHEAD, EVENT_OVERHEAD, EVENTS_BYTES_MAX};
use windlass_core::news::Changed;
use windlass_core::refusal::Refusal;
use windlass_core::row::Row;
use windlass_core::verbs::{Emit, Emitted, Input, Resume, Suspend, SuspendItem};

use super::steps::pick;
use super::{History, Pick, Step};

#[derive(Default)]
pub(super) struct Streams {
    /// The sizes of all events ever emitted of an item, batch by batch.
    emitted: BTreeMap<ItemNumber, Vec<Vec<u64>>>,
    /// Items whose leases carry an answer.
    answered: BTreeSet<ItemNumber>,
    /// How those that are followed stand, as far as it was told.
    followed: BTreeMap<ItemNumber, (Phase, u64)>,
}

impl Streams {
    pub(super) fn hear(&mut self, changed: Changed) {
        let stands = (changed.phase, changed.event_count);
        let before = self.followed.insert(changed.number, stands).expect("nothing is told of others");
        assert_ne!(before, stands, "what did not change was told");
        assert!(before.1 <= stands.1, "numbers fell");
        assert_eq!(changed.shifted, before.0 != stands.0);
    }

    pub(super) fn unfollow(&mut self, number: ItemNumber) -> bool {
        self.followed.remove(&number).is_some()
    }

    pub(super) fn is_answered(&self, number: ItemNumber) -> bool {
        self.answered.contains(&number)
    }

    /// The events of an item that was forgotten went, and it does not count them any more if it is seen again.
    pub(super) fn forget(&mut self, number: ItemNumber) {
        self.emitted.remove(&number);
    }

    fn count(&self, number: ItemNumber) -> u64 {
        self.emitted.get(&number).into_iter().flatten().map(|batch| batch.len() as u64).sum()
    }

    /// The batches that must be left: as many of the newest as fit, and at least the last.
    fn kept(&self, number: ItemNumber) -> Vec<(u64, u64)> {
        let mut last_seq = self.count(number);
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for batch in self.emitted.get(&number).into_iter().flatten().rev() {
            bytes += batch.iter().sum::<u64>();
            if !kept.is_empty() && bytes > EVENTS_BYTES_MAX {
                break;
            }
            let first_seq = last_seq + 1 - batch.len() as u64;
            kept.push((first_seq, last_seq));
            last_seq = first_seq - 1;
        }
        kept.reverse();
        kept
    }
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0..10u32, 0..8_000_000u32];
    prop_oneof![
        4 => (pick(), prop::option::weighted(0.3, 0..3u8), prop::collection::vec(size, 1..4))
            .prop_map(|(pick, back, sizes)| Step::Emit(pick, back, sizes)),
        2 => pick().prop_map(Step::Suspend),
        3 => (0..20usize, any::<bool>()).prop_map(|(back, answer)| Step::Resume(back, answer)),
        2 => (0..20usize).prop_map(Step::Follow),
        1 => (0..20usize).prop_map(Step::Unfollow),
    ]
}

fn event(bytes: u64) -> NewEvent {
    NewEvent { content: Bytes::from_static(b"an event"), bytes }
}

impl History {
    pub(super) fn emit(&mut self, pick: Pick, back: Option<u8>, sizes: &[u32]) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let last_seq = self.streams.count(held.id.number);
        let after = back.map(|back| last_seq.saturating_sub(back.into()));
        let sizes: Vec<u64> = sizes.iter().map(|size| u64::from(*size)).collect();
        let events = sizes.iter().map(|size| event(*size)).collect();
        let reply = self.apply(Emit { held, after, events });
        if rightful && after.is_some_and(|after| after != last_seq) {
            assert_eq!(reply, Err(Refusal::NotAfter { last_seq }));
            return;
        }
        self.judge(held, rightful, &reply, true);
        if let Ok(Emitted { first_seq, last_seq: last, .. }) = reply {
            assert_eq!((first_seq, last), (last_seq + 1, last_seq + sizes.len() as u64));
            self.streams.emitted.entry(held.id.number).or_default().push(sizes);
        }
    }

    /// The attempt is given back, and the answer to an earlier question is gone.
    pub(super) fn suspend(&mut self, pick: Pick) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let suspend = SuspendItem { held, reason: None };
        let done = self.apply(Suspend(vec![suspend])).expect("each item is judged by itself");
        self.judge(held, rightful, &done[0], false);
        if rightful {
            *self.attempts.entry(held.id.number).or_default() -= 1;
            self.streams.answered.remove(&held.id.number);
        }
    }

    pub(super) fn resume(&mut self, back: usize, answer: bool) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let seen = self.partition.get(number).map(|item| item.state);
        let input = answer.then(|| Input { event: event(7), body: Bytes::from_static(b"an answer") });
        let reply = self.apply(Resume { number, input });
        match seen {
            None => assert_eq!(reply, Err(Refusal::NotFound)),
            Some(State::Suspended(_)) => {
                assert_eq!(reply, Ok(()));
                if answer {
                    self.streams.emitted.entry(number).or_default().push(vec![7]);
                    self.streams.answered.insert(number);
                }
            }
            Some(_) => assert_eq!(reply, Err(Refusal::NotSuspended)),
        }
    }

    pub(super) fn follow(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        assert_eq!(self.partition.follow(number), self.partition.get(number));
        if let Some(stands) = self.stands(number) {
            self.streams.followed.insert(number, stands);
        }
    }

    pub(super) fn unfollow(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        self.partition.unfollow(self.made[at]);
        self.streams.unfollow(self.made[at]);
    }

    /// Its state and the number of its last event, while it lives.
    fn stands(&self, number: ItemNumber) -> Option<(Phase, u64)> {
        let item = self.partition.get(number).filter(|item| !item.state.phase().is_final())?;
        let held = self.partition.member(&item).is_some_and(|member| member.held);
        let phase = if held { Phase::Held } else { item.state.phase() };
        Some((phase, item.extras.map_or(0, |extras| extras.event_count)))
    }

    pub(super) fn event_batches(&self) -> usize {
        self.partition.rows().filter(|row| matches!(row, Row::Events(_))).count()
    }

    /// What counts of a final item against the bytes that its queue keeps.
    fn check_kept_bytes(&self, number: ItemNumber, payload: PayloadSize, extras: &Extras, outcome: &Outcome) {
        let kept = self.streams.kept(number);
        let batches = self.streams.emitted.get(&number).into_iter().flatten().rev().take(kept.len());
        let event_bytes = |sizes: &Vec<u64>| {
            let payloads = sizes.iter().sum::<u64>();
            EVENT_BATCH_OVERHEAD + EVENT_OVERHEAD * sizes.len() as u64 + payloads
        };
        let error = extras.error.as_ref();
        let error_len =
            error.map_or(0, |error| error.message.len() + error.code.as_deref().map_or(0, str::len));
        let address_len = extras.address.as_deref().map_or(0, str::len);
        let result_len = if outcome.has_result { b"a result".len() } else { 0 };
        let texts = (error_len + address_len + result_len) as u64;
        let payload = if outcome.payload_kept { payload.bytes() } else { 0 };
        let besides = extras.facts_bytes + u64::from(extras.attempt_bytes) + payload;
        let expected = batches.map(event_bytes).sum::<u64>() + besides + texts;
        assert_eq!(outcome.kept_bytes, expected, "of {number:?}");
    }

    /// Of what can be seen exactly the newest events are kept, of everything else none; and whoever follows has heard how
    /// things stand.
    pub(super) fn check_streams(&mut self) {
        let mut kept: BTreeMap<ItemNumber, Vec<(u64, u64)>> = BTreeMap::new();
        for row in self.partition.rows() {
            if let Row::Events(batch) = row {
                kept.entry(batch.item).or_default().push((batch.first_seq, batch.last_seq));
            }
        }
        for (number, item) in self.items() {
            let kept = kept.remove(&number).unwrap_or_default();
            assert_eq!(kept, self.streams.kept(number));
            let extras = item.extras.unwrap_or_default();
            let count = extras.event_count;
            assert_eq!(count, self.streams.count(number), "numbers of {number:?} are not dense");
            if let State::Final(outcome) = &item.state {
                self.check_kept_bytes(number, item.payload_size, &extras, outcome);
            }
        }
        // The sweep has still to find what was taken away all at once.
        kept.retain(|number, _| {
            self.partition.rows().all(|row| row.key() != windlass_core::row::Key::Item(*number))
        });
        assert_eq!(kept, BTreeMap::new(), "events of nobody's are left behind");
        for (number, told) in &self.streams.followed {
            assert_eq!(self.stands(*number), Some(*told), "{number:?} is not how it was told");
        }
    }
}
