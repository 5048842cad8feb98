//! Random histories of one partition, and what must be true of each step, said without the core's indexes.

mod changes;
mod crons;
mod ends;
mod events;
mod find;
mod groups;
mod intake;
mod leases;
mod moves;
mod produce;
mod rules;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::cron::Cron;
use windlass_core::id::{ItemNumber, PartitionId, Permit};
use windlass_core::item::{Item, State};
use windlass_core::machine::Applied;
use windlass_core::news::{Ended, News};
use windlass_core::partition::{Partition, Totals};
use windlass_core::refusal::Refusal;
use windlass_core::row::{BodyCopy, Change, Intake, Row};
use windlass_core::rule::RuleSet;
use windlass_core::settings::{Requeue, Settings};
use windlass_core::time::{Span, Timestamp};
use windlass_core::verb::Verb;
use windlass_core::verbs::{Clear, Configure, Held};

use crate::bodies::Bodies;
use crate::script::START;
use events::Streams;
use find::Walk;
use groups::Known;
use produce::Call;
pub(crate) use steps::{Changed, Imported, New, Pick, Step, settings, steps};

pub(crate) struct History {
    pub(crate) partition: Partition,
    pub(crate) now: Timestamp,
    /// The changes of all steps, in order.
    pub(crate) changes: Vec<Change>,
    copies: Vec<BodyCopy>,
    totals: Totals,
    bodies: Bodies,
    settings: Settings,
    made: Vec<ItemNumber>,
    permits: Vec<Held>,
    /// The permit of each leased item, and its deadline.
    holders: BTreeMap<ItemNumber, (Permit, Timestamp)>,
    /// The moment before which an item must not be leased.
    not_before: BTreeMap<ItemNumber, Timestamp>,
    max_attempts: BTreeMap<ItemNumber, u32>,
    /// Leases granted, less those given back.
    attempts: BTreeMap<ItemNumber, u32>,
    ended: BTreeSet<ItemNumber>,
    /// Items that were deleted.
    deleted: BTreeSet<ItemNumber>,
    /// Items that fell back with the last step, and how many ever did.
    fell_back: (BTreeSet<ItemNumber>, u64),
    /// Final items that were rerun.
    rerun: BTreeSet<ItemNumber>,
    /// Items whose end is to be told.
    watched: BTreeSet<ItemNumber>,
    /// The ends that the last step told.
    told: Vec<Ended>,
    /// The item that was made last with an address.
    holders_of_addresses: BTreeMap<Arc<str>, ItemNumber>,
    /// When an item that nobody holds expires.
    dead_at: BTreeMap<ItemNumber, Timestamp>,
    /// The last move that was taken.
    taken: u64,
    /// End items on their way to another queue so far.
    ends_sent: u64,
    groups: BTreeMap<u8, Known>,
    /// The rules that were taken over last, and when.
    rules: (Timestamp, RuleSet),
    /// Calls by their key.
    calls: BTreeMap<u8, Call>,
    intake: Intake,
    streams: Streams,
    /// By the filter and the order.
    walks: BTreeMap<(usize, usize), Walk>,
    /// Crons as their rows say.
    crons: BTreeMap<Arc<str>, Cron>,
}

impl History {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut history = Self {
            partition: Partition::new(PartitionId(7), START),
            now: START,
            changes: Vec::new(),
            copies: Vec::new(),
            totals: Totals::default(),
            bodies: Bodies::default(),
            settings: settings.clone(),
            made: Vec::new(),
            permits: Vec::new(),
            holders: BTreeMap::new(),
            not_before: BTreeMap::new(),
            max_attempts: BTreeMap::new(),
            attempts: BTreeMap::new(),
            ended: BTreeSet::new(),
            deleted: BTreeSet::new(),
            fell_back: (BTreeSet::new(), 0),
            rerun: BTreeSet::new(),
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
            walks: BTreeMap::new(),
            crons: BTreeMap::new(),
        };
        history.apply(Configure(settings)).unwrap();
        history
    }

    /// Every permit that was ever given, the latest last.
    pub(crate) fn permits(&self) -> &[Held] {
        &self.permits
    }

    pub(crate) fn step(&mut self, step: &Step) {
        let before = self.items();
        let changes_before = self.changes.len();
        self.fell_back.0.clear();
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
            Step::Delete(back, any) => self.delete(*back, *any),
            Step::Redrive(limit) => self.redrive(*limit, &before),
            Step::Assign(limit) => self.assign(*limit),
            Step::Arrive(but) => self.arrive(*but),
            Step::FallBack(limit) => self.fall_back(*limit),
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
            Step::Update(back, changed) => self.update(*back, *changed),
            Step::Rerun(back, delay) => self.rerun(*back, *delay),
        }
        self.partition.audit().unwrap();
        self.bodies.check(&self.partition);
        self.check_places(step, &before);
        self.check_changed_at(&before);
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
        self.check_finds();
        self.check_errors();
        assert_eq!(self.partition.next_oldest_waiting(), self.partition.oldest_waiting());
        // A writer does so too: the moment is in no row.
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
        self.bodies.follow(&applied.copies, &applied.changes);
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

    /// Every item that was produced has ended in one way or is still there, and so has every lease.
    fn check_totals(&self) {
        let (totals, counts) = (&self.totals, self.partition.counts());
        assert_eq!(totals.produced + totals.moved_in, self.made.len() as u64);
        let ended = totals.completed + totals.failed + totals.expired + totals.cancelled + totals.redriven;
        assert_eq!(self.made.len() as u64, ended + counts.live());
        let sent = if self.settings.dead_queue.is_some() { totals.failed + totals.expired } else { 0 };
        let gone_on = totals.moved_out + self.partition.moving() + self.fell_back.1;
        assert_eq!(sent + totals.redriven + self.ends_sent, gone_on);
        let given_up = totals.completed + totals.retried + totals.released + totals.lease_expired;
        let given_up = given_up + totals.revoked + totals.suspended;
        assert!(given_up + counts.leased <= totals.leased, "{totals:?} {counts:?}");
    }

    /// The items that can be seen, found without an index.
    pub(crate) fn items(&self) -> BTreeMap<ItemNumber, Item> {
        let numbers = self.partition.rows().filter_map(|row| match row {
            Row::Item(item) => Some(item.number),
            _ => None,
        });
        numbers.filter_map(|number| Some((number, self.partition.get(number)?))).collect()
    }

    /// It tells when the state last became another. The start of a group is that moment for members that already waited.
    fn check_changed_at(&self, before: &BTreeMap<ItemNumber, Item>) {
        for (number, item) in self.items() {
            let Some(earlier) = before.get(&number) else { continue };
            let (was, is) = (earlier.changed_at(), item.changed_at());
            assert!(was <= is && is <= self.now, "{number:?} changed at {is:?}, before at {was:?}");
            let may_start = item.group.is_some() && matches!(item.state, State::Waiting { .. });
            let shifted = earlier.state.phase() != item.state.phase();
            let fell_back = self.fell_back.0.contains(&number);
            assert!(was == is || shifted || may_start || fell_back, "{number:?} changed no state at {is:?}");
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
            let may_be_sent = matches!(step, Step::Retry(..) | Step::Sweep(_) | Step::Update(..));
            let sent_to_tail = self.settings.requeue == Requeue::Tail && may_be_sent;
            assert!(first_time || sent_to_tail, "{step:?} moved {number:?}");
            assert!(before.values().all(|other| other.place < item.place), "{number:?} is not at the tail");
        }
    }
}

fn address_name(address: u8) -> Arc<str> {
    ["here", "here too", "there"][usize::from(address)].into()
}

fn kind_name(kind: u8) -> Arc<str> {
    ["default", "mail", "report"][usize::from(kind)].into()
}
