//! Random histories of one partition, and what must be true of each step, said without the core's indexes.

mod crons;
mod events;
mod groups;
mod intake;
mod moves;
mod rules;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::cron::Cron;
use windlass_core::id::{ItemNumber, PartitionId, Permit};
use windlass_core::item::{End, Extras, Item, ItemError, Phase, State};
use windlass_core::limits::IDEMPOTENCY_MARGIN;
use windlass_core::machine::Applied;
use windlass_core::news::{Ended, News};
use windlass_core::partition::{Partition, Totals};
use windlass_core::refusal::Refusal;
use windlass_core::row::{BodyCopy, Change, Intake, Row};
use windlass_core::rule::RuleSet;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{
    Cancel, Claim, Clear, Complete, Completion, Configure, Delete, Digest, Extend, Filter, Held, Import,
    ImportItem, LeaseItems, Leased, NewItem, Produce, ProduceOnce, Produced, ProducedOnce, Release, Retried,
    Retry, RetryItem, Revoke,
};

use crate::script::START;
use events::Streams;
use groups::Known;
pub(crate) use steps::{Imported, New, Pick, Step, settings, steps};

pub(crate) struct History {
    pub(crate) partition: Partition,
    pub(crate) now: Timestamp,
    /// All of them, in order.
    pub(crate) changes: Vec<Change>,
    copies: Vec<BodyCopy>,
    totals: Totals,
    settings: Settings,
    made: Vec<ItemNumber>,
    permits: Vec<Held>,
    /// Who holds what, and until when.
    holders: BTreeMap<ItemNumber, (Permit, Timestamp)>,
    /// Before this an item must not be leased.
    not_before: BTreeMap<ItemNumber, Timestamp>,
    max_attempts: BTreeMap<ItemNumber, u32>,
    /// Leases granted, less those given back.
    attempts: BTreeMap<ItemNumber, u32>,
    ended: BTreeSet<ItemNumber>,
    /// Whose end is to be told.
    watched: BTreeSet<ItemNumber>,
    /// What the last step told of those that ended.
    told: Vec<Ended>,
    /// Who was made last with an address.
    holders_of_addresses: BTreeMap<Arc<str>, ItemNumber>,
    /// When an item that nobody holds expires.
    dead_at: BTreeMap<ItemNumber, Timestamp>,
    /// The last move that was taken.
    taken: u64,
    /// End items on their way to another queue so far.
    ends_sent: u64,
    groups: BTreeMap<u8, Known>,
    /// The last that were taken over, and when.
    rules: (Timestamp, RuleSet),
    /// By their key.
    calls: BTreeMap<u8, Call>,
    intake: Intake,
    streams: Streams,
    /// As their rows say.
    crons: BTreeMap<Arc<str>, Cron>,
}

/// When a call was claimed, its digest, and what it was told.
type Call = (Timestamp, Digest, Vec<Result<Produced, Refusal>>);

const DAY: Span = Span::from_secs(24 * 3600);

impl History {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut history = Self {
            partition: Partition::new(PartitionId(7), START),
            now: START,
            changes: Vec::new(),
            copies: Vec::new(),
            totals: Totals::default(),
            settings: settings.clone(),
            made: Vec::new(),
            permits: Vec::new(),
            holders: BTreeMap::new(),
            not_before: BTreeMap::new(),
            max_attempts: BTreeMap::new(),
            attempts: BTreeMap::new(),
            ended: BTreeSet::new(),
            watched: BTreeSet::new(),
            told: Vec::new(),
            holders_of_addresses: BTreeMap::new(),
            dead_at: BTreeMap::new(),
            taken: 0,
            ends_sent: 0,
            groups: BTreeMap::new(),
            rules: (START, RuleSet::default()),
            calls: BTreeMap::new(),
            intake: Intake::default(),
            streams: Streams::default(),
            crons: BTreeMap::new(),
        };
        history.apply(Configure(settings)).unwrap();
        history
    }

    pub(crate) fn step(&mut self, step: &Step) {
        let before = self.items();
        let changes_before = self.changes.len();
        match step {
            Step::Pass(micros) => self.now = self.now + Span(*micros),
            Step::Produce(items) => self.produce(items),
            Step::ProduceOnce(key, claimed, items) => self.produce_once(*key, *claimed, items),
            Step::Lease(count, kinds, max_priority) => self.lease(*count, *kinds, *max_priority, &before),
            Step::Complete(pick, result) => self.complete(*pick, *result),
            Step::Retry(pick, due, dead, error) => self.retry(*pick, *due, *dead, *error),
            Step::Extend(pick, timeout) => self.extend(*pick, *timeout),
            Step::Release(pick) => self.release(*pick),
            Step::Revoke(pick) => self.revoke(*pick),
            Step::Watch(back) => self.watch(*back),
            Step::Unwatch(back) => self.unwatch(*back),
            Step::Cancel(back) => self.cancel(*back),
            Step::Clear(waiting, scheduled, leased, suspended) => {
                let (waiting, scheduled, leased) = (*waiting, *scheduled, *leased);
                self.clear(Clear { waiting, scheduled, leased, suspended: *suspended }, &before);
            }
            Step::Sweep(limit) => self.sweep(*limit),
            Step::Import(items) => self.import(items),
            Step::Delete(back) => self.delete(*back),
            Step::Redrive(limit) => self.redrive(*limit, &before),
            Step::Assign(limit) => self.assign(*limit),
            Step::Arrive(but) => self.arrive(*but),
            Step::Take(new, old) => self.take(*new, *old),
            Step::CreateGroup(group, ends, items, start) => self.create_group(*group, *ends, items, *start),
            Step::SetGroupEnd(group, ends) => self.set_group_end(*group, *ends),
            Step::StartGroup(group) => self.start_group(*group),
            Step::CancelGroup(group) => self.cancel_group(*group, &before),
            Step::DeleteGroup(group) => self.delete_group(*group),
            Step::Route(closed, at_home) => self.route(*closed, *at_home),
            Step::TakeRules(bits, until, old) => self.take_rules(*bits, *until, *old),
            Step::Emit(pick, back, sizes) => self.emit(*pick, *back, sizes),
            Step::Suspend(pick) => self.suspend(*pick),
            Step::Resume(back, answer) => self.resume(*back, *answer),
            Step::Follow(back) => self.follow(*back),
            Step::Unfollow(back) => self.unfollow(*back),
            Step::Cron(step) => self.cron_step(step),
        }
        self.partition.audit().unwrap();
        self.check_places(step, &before);
        self.check_ended();
        self.check_told(&before);
        self.check_streams();
        self.check_leased();
        self.check_addresses();
        self.check_finals(&before);
        self.check_totals();
        self.check_groups();
        self.check_remaining();
        self.check_rules();
        self.check_crons(step, changes_before);
        assert_eq!(self.partition.next_oldest_waiting(), self.partition.oldest_waiting());
        // As a writer does: it is in no row.
        self.partition.hold_crons_until(Timestamp(0));
    }

    fn apply<V: Verb>(&mut self, verb: V) -> Result<V::Reply, Refusal> {
        let applied = self.partition.apply(self.now, verb);
        self.note(applied)
    }

    /// Keeps what a verb or a sweep did.
    fn note<R>(&mut self, applied: Applied<R>) -> Result<R, Refusal> {
        assert!(applied.reply.is_ok() || applied.totals == Totals::default(), "a refusal counts as nothing");
        self.totals += applied.totals;
        self.changes.extend(applied.changes);
        applied.copies.iter().for_each(|copy| self.end_made(copy));
        self.copies.extend(applied.copies);
        self.told.extend(applied.news.into_iter().filter_map(|news| match news {
            News::Ended(ended) => Some(*ended),
            News::Changed(changed) => {
                self.streams.hear(*changed);
                None
            }
            News::Available | News::Outgoing | News::Died(_) => None,
        }));
        applied.reply
    }

    /// What was produced has ended in one of three ways, or is still there; and what was leased likewise.
    fn check_totals(&self) {
        let (totals, counts) = (&self.totals, self.partition.counts());
        assert_eq!(totals.produced + totals.moved_in, self.made.len() as u64);
        let ended = totals.completed + totals.failed + totals.expired + totals.cancelled + totals.redriven;
        assert_eq!(self.made.len() as u64, ended + counts.live());
        let sent = if self.settings.dead_queue.is_some() { totals.failed + totals.expired } else { 0 };
        assert_eq!(sent + totals.redriven + self.ends_sent, totals.moved_out + self.partition.moving());
        let given_up = totals.completed + totals.retried + totals.released + totals.lease_expired;
        let given_up = given_up + totals.revoked + totals.suspended;
        assert!(given_up + counts.leased <= totals.leased, "{totals:?} {counts:?}");
    }

    /// What can be seen, found without an index.
    pub(crate) fn items(&self) -> BTreeMap<ItemNumber, Item> {
        let numbers = self.partition.rows().filter_map(|row| match row {
            Row::Item(item) => Some(item.number),
            _ => None,
        });
        numbers.filter_map(|number| Some((number, self.partition.get(number)?))).collect()
    }

    fn produce(&mut self, items: &[New]) {
        let items: Vec<_> = items.iter().map(|item| self.new_item(*item)).collect();
        let takes = self.takes_all(&items);
        let reply = self.apply(Produce { items: items.clone() });
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        let produced = reply.expect("nothing stands against it");
        self.produced(&items, produced);
    }

    fn takes_all(&self, items: &[NewItem]) -> bool {
        items.iter().all(|item| self.takes(item.group.as_deref(), item.address.as_deref()))
    }

    /// The first call of a key within a day is carried out; the same again is told the same, and another one nothing.
    fn produce_once(&mut self, key: u8, claimed: Option<u8>, new: &[New]) {
        let items: Vec<_> = new.iter().map(|item| self.new_item(*item)).collect();
        let digest = [new.len() as u8; 16];
        let claim = match claimed {
            None => Claim::First,
            // Of a few moments, so that some come again.
            Some(ago) => Claim::Of(Timestamp(self.now.0 / DAY.0 * DAY.0 + u64::from(ago))),
        };
        let kept = if claim == Claim::First { DAY } else { Span(DAY.0 + IDEMPOTENCY_MARGIN.0) };
        let known = self.calls.get(&key).filter(|(claimed_at, ..)| self.now < *claimed_at + kept).cloned();
        let overtaken =
            |(claimed_at, ..): &(Timestamp, _, _)| matches!(claim, Claim::Of(of) if of < *claimed_at);
        let overtaken = known.as_ref().is_some_and(overtaken);
        let known = known.filter(|(claimed_at, ..)| claim == Claim::First || claim == Claim::Of(*claimed_at));
        let key_name = intake::call_name(key);
        let by_call = claim == Claim::First || items.iter().any(|item| item.key().is_none());
        let takes = self.takes_all(&items) && (!by_call || self.takes_name(&key_name));
        let (indexes, held) = (Vec::new(), BTreeMap::new());
        let produce = ProduceOnce { key: key_name, digest, claim, indexes, held, items: items.clone() };
        let reply = self.apply(produce);
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        match known {
            _ if overtaken => assert_eq!(reply, Err(Refusal::KeyTaken)),
            Some((_, other, _)) if other != digest && claim == Claim::First => {
                assert_eq!(reply, Err(Refusal::KeyTaken));
            }
            Some((claimed_at, first, told)) => {
                let produced = once_told(reply, claimed_at);
                let again = told.len().min(items.len());
                assert_eq!(produced[..again], told[..again]);
                // Of another moment's call so many more: a partition's part of it has grown.
                if items.len() > again {
                    self.calls.insert(key, (claimed_at, first, produced.clone()));
                    self.produced(&items[again..], produced[again..].to_vec());
                }
            }
            None => {
                let ProducedOnce { claimed_at, items: produced } = reply.unwrap();
                self.calls.insert(key, (claimed_at, digest, produced.clone()));
                self.produced(&items, produced);
            }
        }
    }

    fn produced(&mut self, items: &[NewItem], produced: Vec<Result<Produced, Refusal>>) {
        for (item, produced) in items.iter().zip(produced) {
            let produced = produced.map(|produced| produced.number);
            let Some(number) = self.came(item.group.as_deref(), item.address.as_ref(), produced) else {
                continue;
            };
            self.produced_one(number, item);
        }
    }

    fn produced_one(&mut self, number: ItemNumber, item: &NewItem) {
        self.not_before.insert(number, self.due_at(item).unwrap_or_default());
        let max_attempts = item.max_attempts.unwrap_or(self.settings.max_attempts);
        self.max_attempts.insert(number, max_attempts);
        self.made(number, item.dead_timeout);
    }

    /// A new item, unless its group does not take it or one that is not final has its address.
    fn came(
        &mut self,
        group: Option<&str>,
        address: Option<&Arc<str>>,
        made: Result<ItemNumber, Refusal>,
    ) -> Option<ItemNumber> {
        if let Some(refusal) = self.refused_by_group(group) {
            assert_eq!(made, Err(refusal));
            return None;
        }
        let holder = address.and_then(|address| self.holders_of_addresses.get(address).copied());
        let holder = holder.filter(|number| self.is_live(*number));
        match (holder, made) {
            (Some(number), made) => {
                assert_eq!(made, Err(Refusal::DuplicateAddress { number }));
                None
            }
            (None, made) => {
                let number = made.expect("nothing stands against it");
                self.joined(group);
                self.arrived(address, number);
                Some(number)
            }
        }
    }

    fn arrived(&mut self, address: Option<&Arc<str>>, number: ItemNumber) {
        assert!(self.made.last().is_none_or(|last| *last < number), "a number came again");
        self.made.push(number);
        self.holders_of_addresses.extend(address.map(|address| (address.clone(), number)));
    }

    fn is_live(&self, number: ItemNumber) -> bool {
        self.partition.get(number).is_some_and(|item| !item.state.phase().is_final())
    }

    /// An address speaks of the latest item that bears it, if anything of that is left, or else of an earlier one.
    fn check_addresses(&self) {
        let items = self.items();
        for address in (0..3).map(address_name) {
            let bears = |item: &&Item| {
                item.extras.as_ref().is_some_and(|extras| extras.address.as_ref() == Some(&address))
            };
            let latest = items.values().filter(bears).map(|item| item.number).max();
            assert_eq!(self.partition.item_at(&address), latest);
        }
    }

    fn made(&mut self, number: ItemNumber, dead_timeout: Option<Span>) {
        let dead_timeout = dead_timeout.unwrap_or(self.settings.dead_timeout);
        if dead_timeout != Span::ZERO {
            self.dead_at.insert(number, self.now + dead_timeout);
        }
        let kept = self.partition.get(number).unwrap().extras.and_then(|extras| extras.dead_timeout);
        assert_eq!(kept.unwrap_or_default(), dead_timeout);
    }

    fn is_overdue(&self, number: ItemNumber) -> bool {
        self.dead_at.get(&number).is_some_and(|at| *at <= self.now)
    }

    fn due_at(&self, item: &NewItem) -> Option<Timestamp> {
        item.enqueue_at.or(item.delay.map(|delay| self.now + delay))
    }

    fn new_item(&self, (kind, priority, due, max_attempts, lives, address, group): New) -> NewItem {
        NewItem {
            kind: kind_name(kind),
            priority,
            group: group.map(groups::name),
            enqueue_at: (due > 0 && due % 2 == 0).then(|| self.now + Span::from_secs(due.into())),
            delay: (due % 2 == 1).then(|| Span::from_secs(due.into())),
            max_attempts: max_attempts.map(u32::from),
            dead_timeout: lives.map(|secs| Span::from_secs(secs.into())),
            address: address.map(address_name),
            body: Bytes::new(),
            facts: None,
        }
    }

    /// New numbers, everything else as it was.
    fn import(&mut self, items: &[Imported]) {
        let import = |&(kind, priority, due, attempts, address, group): &Imported| ImportItem {
            kind: kind_name(kind),
            priority,
            group: group.map(groups::name),
            created_at: Some(START),
            attempts: attempts.into(),
            due_at: (due > 0).then(|| self.now + Span::from_secs(due.into())),
            max_attempts: Some(u32::from(attempts) + 2),
            dead_timeout: (attempts == 2).then_some(Span::from_secs(60)),
            address: address.map(address_name),
            origin: None,
            error: None,
            suspended: None,
            body: Bytes::new(),
            facts: None,
        };
        let items: Vec<_> = items.iter().map(import).collect();
        let takes = items.iter().all(|item| self.takes(item.group.as_deref(), item.address.as_deref()));
        let reply = self.apply(Import { items: items.clone() });
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        let imported = reply.expect("nothing stands against it");
        for (item, imported) in items.into_iter().zip(imported) {
            let imported = imported.map(|imported| imported.number);
            let Some(number) = self.came(item.group.as_deref(), item.address.as_ref(), imported) else {
                continue;
            };
            self.not_before.insert(number, item.due_at.unwrap_or_default());
            self.attempts.insert(number, item.attempts);
            self.max_attempts.insert(number, item.attempts + 2);
            self.dead_at.extend(item.dead_timeout.map(|timeout| (number, START + timeout)));
        }
    }

    fn delete(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let expected = match self.partition.get(number).map(|item| item.state.phase().is_final()) {
            None => Err(Refusal::NotFound),
            Some(true) => Err(Refusal::Ended),
            Some(false) => Ok(()),
        };
        assert_eq!(self.apply(Delete(vec![number])), Ok(vec![expected.clone()]));
        if expected.is_ok() {
            assert_eq!(self.partition.get(number), None);
            self.holders.remove(&number);
            self.ended.insert(number);
        }
    }

    /// Exactly the first of all that match, by priority and place, but for those that are overdue.
    fn lease(&mut self, batch_size: usize, kinds: u8, max_priority: u8, before: &BTreeMap<ItemNumber, Item>) {
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
    fn picked(&self, pick: Pick) -> Option<(Held, bool)> {
        let at = self.permits.len().checked_sub(1 + pick.back % self.permits.len().max(1))?;
        let mut held = self.permits[at];
        if pick.forged {
            held.permit.0 += 1_000_000_000;
        }
        let holds = self.holders.get(&held.id.number);
        Some((held, holds.is_some_and(|&(permit, until)| permit == held.permit && self.now < until)))
    }

    fn judge<T>(&mut self, held: Held, rightful: bool, result: &Result<T, Refusal>, keeps_lease: bool) {
        assert_eq!(result.is_ok(), rightful, "{held:?} at {:?}: {:?}", self.now, result.as_ref().err());
        if rightful && !keeps_lease {
            self.holders.remove(&held.id.number);
        }
    }

    fn complete(&mut self, pick: Pick, result: bool) {
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

    fn retry(&mut self, pick: Pick, due: Option<u8>, dead: bool, error: bool) {
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

    fn extend(&mut self, pick: Pick, timeout: Option<u8>) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let lease_timeout = timeout.map(|secs| Span::from_secs(secs.into()));
        let extend = Extend { lease_timeout, items: vec![held] };
        let extended = self.apply(extend).expect("each item is judged by itself");
        self.judge(held, rightful, &extended[0], true);
        if let Ok(extended) = &extended[0] {
            self.holders.insert(held.id.number, (held.permit, extended.deadline));
        }
    }

    fn release(&mut self, pick: Pick) {
        let Some((held, rightful)) = self.picked(pick) else { return };
        let done = self.apply(Release(vec![held])).expect("each item is judged by itself");
        self.judge(held, rightful, &done[0], false);
        if rightful {
            *self.attempts.entry(held.id.number).or_default() -= 1;
        }
    }

    /// The attempt stays counted.
    fn revoke(&mut self, pick: Pick) {
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

    fn watch(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        let number = self.made[at];
        let seen = self.partition.watch(number);
        assert_eq!(seen, self.partition.get(number));
        if seen.is_some_and(|item| !item.state.phase().is_final()) {
            self.watched.insert(number);
        }
    }

    fn unwatch(&mut self, back: usize) {
        let Some(at) = self.made.len().checked_sub(1 + back) else { return };
        self.partition.unwatch(self.made[at]);
        self.watched.remove(&self.made[at]);
    }

    /// Of those that are watched, exactly those are told that ended in this step, each once and as it ended.
    fn check_told(&mut self, before: &BTreeMap<ItemNumber, Item>) {
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
            assert!(kept.is_none_or(|kept| arrived(&kept) == arrived(&told)), "{told:?} is kept otherwise");
        }
        for number in &self.watched {
            let seen = self.partition.get(*number).map(|item| item.state.phase());
            assert!(seen.is_some_and(|phase| !phase.is_final()), "{number:?} ended, and nobody was told");
        }
    }

    fn check_leased(&self) {
        let items = self.items().into_values();
        let leased: Vec<_> = items.filter(|item| matches!(item.state, State::Leased(_))).collect();
        assert_eq!(self.partition.leased_from(ItemNumber(0), 1000), leased);
        let middle = leased.len() / 2;
        let from = leased.get(middle).map_or(ItemNumber(0), |item| item.number);
        let page: Vec<_> = leased[middle..].iter().take(2).cloned().collect();
        assert_eq!(self.partition.leased_from(from, 2), page);
    }

    fn cancel(&mut self, back: usize) {
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

    fn clear(&mut self, clear: Clear, before: &BTreeMap<ItemNumber, Item>) {
        let chosen = |item: &&Item| match item.state {
            State::Waiting => clear.waiting,
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
                State::Waiting | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => false,
            };
            assert_eq!(left.as_ref().map(cancelled_now), shows.then_some(true), "{left:?}");
            self.holders.remove(&item.number);
            self.ended.insert(item.number);
        }
    }

    /// There is something to do exactly if it is due.
    fn sweep(&mut self, limit: usize) {
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

    /// An item's place changes only when it joins at the tail.
    fn check_places(&self, step: &Step, before: &BTreeMap<ItemNumber, Item>) {
        for (number, item) in self.items() {
            let Some(earlier) = before.get(&number) else { continue };
            if earlier.place == item.place {
                continue;
            }
            let first_time = matches!(earlier.state, State::Scheduled { .. }) && earlier.attempts == 0;
            let sent_to_tail =
                self.settings.requeue == Requeue::Tail && matches!(step, Step::Retry(..) | Step::Sweep(_));
            assert!(first_time || sent_to_tail, "{step:?} moved {number:?}");
            assert!(before.values().all(|other| other.place < item.place), "{number:?} is not at the tail");
        }
    }

    /// What has ended never changes but for its move, is counted, and is forgotten in the order of ends: of several that ended in the
    /// same moment, whichever.
    fn check_finals(&self, before: &BTreeMap<ItemNumber, Item>) {
        let ended_at = |item: &Item| match &item.state {
            State::Final(outcome) => Some(outcome.finished_at),
            State::Waiting | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => None,
        };
        let after = self.items();
        let kept: Vec<_> = after.values().filter_map(ended_at).collect();
        assert_eq!(self.partition.retained(), kept.len() as u64);
        for (number, item) in before {
            let Some(end) = ended_at(item) else { continue };
            match after.get(number) {
                Some(later) => assert_eq!(arrived(later), arrived(item)),
                None => assert!(kept.iter().all(|kept| end <= *kept), "{number:?} went before its time"),
            }
        }
    }

    fn check_ended(&self) {
        for number in &self.ended {
            let seen = self.partition.get(*number);
            assert!(
                seen.is_none_or(|item| item.state.phase().is_final()),
                "{number:?} lives on after its end"
            );
        }
    }
}

/// What ended, with nothing more to do elsewhere.
fn arrived(item: &Item) -> Item {
    let mut item = item.clone();
    if let State::Final(outcome) = &mut item.state {
        outcome.outgoing = None;
    }
    item
}

fn address_name(address: u8) -> Arc<str> {
    ["here", "here too", "there"][usize::from(address)].into()
}

fn kind_name(kind: u8) -> Arc<str> {
    ["default", "mail", "report"][usize::from(kind)].into()
}

fn once_told(reply: Result<ProducedOnce, Refusal>, claimed: Timestamp) -> Vec<Result<Produced, Refusal>> {
    let ProducedOnce { claimed_at, items } = reply.unwrap();
    assert_eq!(claimed_at, claimed);
    items
}
