//! Rows in and out. `put` and `remove` come down to two functions, [`Partition::place`] and [`Partition::take_away`],
//! which alone touch the indexes and counters, live and at recovery: so the rows always rebuild the same partition,
//! in whatever order they come.

use super::entry::Entry;
use super::groups::index::GroupIndex;
use super::index::addresses::Addressed;
use super::index::counts::{as_leased, as_scheduled, as_suspended, as_waiting, decrement, increment};
use super::index::era::Tally;
use super::index::findable::Findable;
use super::index::lanes::{Key, Lane, Standing};
use super::index::traces::Trace;
use super::moves::outbox::Leaving;
use super::{Counts, Output, Partition};
use crate::id::{ItemNumber, NUMBER_MAX};
use crate::item::{Item, Lease, State};
use crate::mutant::{self, Mutant};
use crate::row::{self, Change, Clearable, Cleared, Intake, Numbers, Row};
use crate::settings::Settings;
use crate::time::{Span, Timestamp};

/// How long a worker has after an acquire to get in touch.
const ACQUIRE_GRACE: Span = Span::from_secs(10);

const PLACE_BITS: u32 = 56;
const _: () = assert!(NUMBER_MAX < 1 << PLACE_BITS, "a place must fit beneath the priority");

/// The order of waiting items: by priority, then by place.
pub(super) fn rank(priority: u8, place: u64) -> u64 {
    debug_assert!(place <= NUMBER_MAX, "places are numbers");
    u64::from(priority) << PLACE_BITS | place
}

pub(super) fn priority_of(rank: u64) -> u8 {
    (rank >> PLACE_BITS) as u8
}

pub(super) fn place_of(rank: u64) -> u64 {
    rank & ((1 << PLACE_BITS) - 1)
}

impl Partition {
    /// Takes a row in, in place of the one under the same key.
    pub fn put(&mut self, row: Row) {
        match row {
            Row::Item(item) => {
                let (number, entry) = self.entry(item);
                self.place(number, entry);
            }
            Row::Numbers(numbers) => self.numbers = numbers,
            Row::Settings(settings) => self.settings = settings,
            Row::Cleared(cleared) => self.put_cleared(cleared),
            Row::Taken(taken) => {
                self.taken.insert(taken.source, taken);
            }
            Row::Once(once) => self.put_call(*once),
            Row::Intake(intake) => self.put_intake(*intake),
            Row::Events(batch) => self.events.insert(batch),
            Row::Group(group) => self.put_group(group.number, Some(group)),
            Row::Rules(rules) if rules.queue.is_none() => self.rules.set_version(&None, Some(rules)),
            Row::Rule(rule) if rule.key.queue.is_none() => self.put_rule(&rule.key.clone(), Some(*rule)),
            Row::Cron(cron) => self.put_cron(cron),
            Row::Rules(_)
            | Row::Rule(_)
            | Row::Queue(_)
            | Row::Partitions(_)
            | Row::CronHome(_)
            | Row::Dropped(_) => {}
        }
    }

    pub fn remove(&mut self, key: &row::Key) {
        match key {
            row::Key::Item(number) => {
                self.take_away(*number);
            }
            row::Key::Numbers => self.numbers = Numbers::default(),
            row::Key::Settings => self.settings = Settings::default(),
            row::Key::Cleared => self.put_cleared(Cleared::default()),
            row::Key::Taken(source) => {
                self.taken.remove(source);
            }
            row::Key::Once(key) => self.remove_call(key),
            row::Key::Intake => self.put_intake(Intake::default()),
            row::Key::Events(item, first_seq) => self.events.remove(*item, *first_seq),
            row::Key::Group(number) => self.put_group(*number, None),
            row::Key::Rules(None) => self.rules.set_version(&None, None),
            row::Key::Rule(key) if key.queue.is_none() => self.put_rule(key, None),
            row::Key::Cron(name) => self.remove_cron(name),
            row::Key::Rules(Some(_))
            | row::Key::Rule(_)
            | row::Key::Queue(_)
            | row::Key::Partitions
            | row::Key::CronHome(_)
            | row::Key::Dropped(_) => {}
        }
    }

    /// Says anew when the partition was acquired: loading it may have taken longer than the grace lasts.
    pub fn acquired(&mut self, at: Timestamp) {
        let leased: Vec<ItemNumber> = self
            .deadlines
            .lanes()
            .flat_map(|(_, keys)| keys.iter().map(|((_, number), ())| number))
            .collect();
        let spots = |partition: &Self| -> Vec<Spot> {
            let spot = |number| partition.items.get(number).map(|entry| partition.spot(*number, entry));
            leased.iter().filter_map(spot).collect()
        };
        spots(self).into_iter().for_each(|spot| self.leave(spot));
        self.acquired_at = at;
        self.look_which_crons_leave();
        spots(self).into_iter().for_each(|spot| self.enter(spot));
    }

    /// Everything durable, in the order of keys. For tests, checks and exports.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let numbers = (self.numbers != Numbers::default()).then(|| Row::Numbers(self.numbers.clone()));
        let settings = (self.settings != Settings::default()).then(|| Row::Settings(self.settings.clone()));
        let cleared = (self.cleared != Cleared::default()).then(|| Row::Cleared(self.cleared.clone()));
        let items = self.items.iter().map(|(number, entry)| Row::Item(self.item(number, entry)));
        let taken = self.taken.values().cloned().map(Row::Taken);
        let few = numbers.into_iter().chain(settings).chain(cleared);
        let calls = self.calls.iter().cloned().map(|once| Row::Once(Box::new(once)));
        let intake = (self.intake != Intake::default()).then(|| Row::Intake(Box::new(self.intake.clone())));
        let groups = self.groups.rows().cloned().map(|group| Row::Group(Box::new(group)));
        let events = self.events.rows().map(Row::Events);
        let crons = self.crons.iter().cloned().map(|cron| Row::Cron(Box::new(cron)));
        let many = items.chain(taken).chain(calls).chain(groups).chain(events);
        few.chain(many).chain(intake).chain(self.rules.rows()).chain(crons)
    }

    /// The verbs' way to write an item. Its era is the present one of its state.
    pub(super) fn write(&mut self, number: ItemNumber, mut entry: Entry, out: &mut Output) {
        entry.era = self.cleared.era(&entry.state);
        let is_open = || self.lanes.can_be_had(entry.lane());
        out.available |= matches!(entry.state, State::Waiting { .. }) && is_open();
        self.tell_change(number, &entry, out);
        out.changes.push(Change::Put(Row::Item(self.item(number, &entry))));
        out.put_attempt(number);
        self.place(number, entry);
    }

    /// The verbs' way to forget an item.
    pub(super) fn erase(&mut self, number: ItemNumber, out: &mut Output) {
        if self.events.has_any(number) {
            self.erase_events(number, None, out);
        }
        out.changes.push(Change::Remove(row::Key::Item(number)));
        let _not_kept = out.take_attempt(number);
        let extras = self.take_away(number).and_then(|erased| erased.extras);
        if let Some(extras) = extras {
            out.remove_attempts(number, extras.attempts_logged);
        }
    }

    /// The verbs' way to write anything else.
    pub(super) fn record(&mut self, row: Row, out: &mut Output) {
        out.changes.push(Change::Put(row.clone()));
        self.put(row);
    }

    /// The verbs' way to take a row away that [`Partition::record`] wrote.
    pub(super) fn erase_row(&mut self, key: row::Key, out: &mut Output) {
        self.remove(&key);
        out.changes.push(Change::Remove(key));
    }

    fn place(&mut self, number: ItemNumber, entry: Entry) {
        let (kind, group) = (entry.kind, entry.group);
        let (spot, besides) = (self.spot(number, &entry), Besides::of(number, &entry));
        let trace = Trace::of(&entry);
        // First of all: were this the only item of its kind and group, leaving its old spot would forget them.
        self.kinds.join(kind);
        if let Some(group) = group {
            self.groups.join(group);
        }
        if let Some(old) = self.items.insert(number, entry) {
            self.has_left(number, &old);
        }
        self.enter(spot);
        self.enter_besides(besides);
        self.enter_trace(group, trace);
    }

    fn take_away(&mut self, number: ItemNumber) -> Option<Entry> {
        let old = self.items.remove(&number)?;
        self.has_left(number, &old);
        Some(old)
    }

    /// Takes items out of the line that leases are served from, those of them that wait, until [`Partition::put_in_line`].
    /// Nothing else that is derived from rows changes.
    pub(super) fn set_aside(&mut self, numbers: &[ItemNumber]) -> Vec<(Lane, Key)> {
        let spots = numbers.iter().filter_map(|number| Some(self.spot(*number, self.items.get(number)?)));
        let waiting = spots.filter_map(|spot| match spot {
            Spot::Waiting(lane, key) => Some((lane, key)),
            Spot::Scheduled(..)
            | Spot::Leased(..)
            | Spot::Suspended(..)
            | Spot::Final(..)
            | Spot::Forgotten => None,
        });
        let aside: Vec<(Lane, Key)> = waiting.collect();
        aside.iter().for_each(|(lane, key)| self.lanes.remove(*lane, *key));
        aside
    }

    pub(super) fn put_in_line(&mut self, aside: Vec<(Lane, Key)>) {
        aside.into_iter().for_each(|(lane, key)| self.lanes.insert(lane, key));
    }

    fn has_left(&mut self, number: ItemNumber, old: &Entry) {
        self.leave_besides(Besides::of(number, old));
        self.leave(self.spot(number, old));
        self.leave_trace(old.group, Trace::of(old));
        self.kinds.part(old.kind);
        if let Some(group) = old.group {
            self.groups.part(group);
        }
    }

    fn enter(&mut self, spot: Spot) {
        match spot {
            Spot::Waiting(lane, key) => {
                self.lanes.insert(lane, key);
                self.ages.touched(lane);
                self.enter_priority(lane, priority_of(key.0));
                let times = if mutant::active(Mutant::CountTwice) { 2 } else { 1 };
                self.counts.waiting += (times - 1) * self.counted(spot).waiting;
            }
            Spot::Scheduled(lane, key) => self.schedule.insert(lane, key),
            Spot::Leased(lane, key, place) => {
                self.deadlines.insert(lane, key);
                self.leased_places.insert(lane.era, place);
                self.leased.insert(lane.era, key.1);
            }
            Spot::Suspended(lane, key) => self.suspended.insert(lane, key),
            Spot::Final(key, bytes) => {
                self.finished.insert(key, ());
                self.kept_bytes += bytes;
            }
            Spot::Forgotten => {}
        }
        let one = self.counted(spot);
        self.counts += one;
        if let Some((group, of)) = spot.member_of() {
            self.groups.enter(group, of);
        }
    }

    fn leave(&mut self, spot: Spot) {
        match spot {
            Spot::Waiting(lane, key) => {
                self.lanes.remove(lane, key);
                self.ages.touched(lane);
                self.leave_priority(lane, priority_of(key.0));
            }
            Spot::Scheduled(lane, key) => self.schedule.remove(lane, key),
            Spot::Leased(lane, key, place) => {
                self.deadlines.remove(lane, key);
                self.leased_places.remove(lane.era, place);
                self.leased.remove(lane.era, key.1);
            }
            Spot::Suspended(lane, key) => self.suspended.remove(lane, key),
            Spot::Final(key, bytes) => {
                self.finished.remove(&key);
                self.kept_bytes -= bytes;
            }
            Spot::Forgotten => {}
        }
        let one = self.counted(spot);
        self.counts -= one;
        if let Some((group, of)) = spot.member_of() {
            self.groups.leave(group, of);
        }
    }

    /// What an item at this spot counts as.
    fn counted(&self, spot: Spot) -> Counts {
        match spot {
            Spot::Waiting(lane, _) => as_waiting(Tally::of(self.lanes.standing(lane), 1)),
            Spot::Scheduled(lane, _) => as_scheduled(Tally::of(self.schedule.standing(lane), 1)),
            Spot::Leased(lane, _, _) => as_leased(Tally::of(self.deadlines.standing(lane), 1)),
            Spot::Suspended(lane, _) => as_suspended(Tally::of(self.suspended.standing(lane), 1)),
            Spot::Final(..) | Spot::Forgotten => Counts::default(),
        }
    }

    fn enter_priority(&mut self, lane: Lane, priority: u8) {
        let of = (lane.era, priority);
        if lane.group.is_none_or(|group| self.lanes.standing_of(group) == Standing::Open) {
            increment(&mut self.priorities, of);
        }
        if let Some(group) = lane.group {
            self.groups.enter_priority(group, of);
        }
    }

    fn leave_priority(&mut self, lane: Lane, priority: u8) {
        let of = (lane.era, priority);
        if lane.group.is_none_or(|group| self.lanes.standing_of(group) == Standing::Open) {
            decrement(&mut self.priorities, of);
        }
        if let Some(group) = lane.group {
            self.groups.leave_priority(group, of);
        }
    }

    fn enter_besides(&mut self, besides: Besides) {
        if let Some(key) = besides.expires {
            self.expiry.insert(key, ());
        }
        if let Some(leaving) = besides.leaving {
            self.outbox.insert(leaving);
        }
        if let Some(findable) = besides.findable {
            self.finders.insert(findable);
        }
        if let Some(addressed) = besides.addressed {
            self.key_came(&addressed.address);
            self.addresses.insert(addressed);
        }
    }

    fn leave_besides(&mut self, besides: Besides) {
        if let Some(key) = besides.expires {
            self.expiry.remove(&key);
        }
        if let Some(leaving) = besides.leaving {
            self.outbox.remove(&leaving);
        }
        if let Some(findable) = besides.findable {
            self.finders.remove(&findable);
        }
        if let Some(addressed) = besides.addressed {
            self.key_went(&addressed.address);
            self.addresses.remove(&addressed);
        }
    }

    pub(super) fn spot(&self, number: ItemNumber, entry: &Entry) -> Spot {
        let lane = entry.lane();
        let place = (rank(entry.priority, entry.place), number);
        match &entry.state {
            State::Waiting { .. } => Spot::Waiting(lane, place),
            State::Scheduled { due_at } => Spot::Scheduled(lane, (due_key(*due_at), number)),
            State::Leased(lease) => Spot::Leased(lane, (self.ends_at(lease).0, number), place),
            State::Suspended(_) => Spot::Suspended(lane, place),
            State::Final(_) if entry.state.is_forgotten() => Spot::Forgotten,
            State::Final(outcome) => Spot::Final((outcome.finished_at.0, number), outcome.kept_bytes),
        }
    }

    /// When a lease is lost unless it is extended: its deadline, or the end of the grace after an acquire.
    pub(super) fn ends_at(&self, lease: &Lease) -> Timestamp {
        lease.deadline.max(self.acquired_at + lease.timeout.min(ACQUIRE_GRACE))
    }

    pub(super) fn item(&self, number: ItemNumber, entry: &Entry) -> Item {
        Item {
            number,
            place: entry.place,
            kind: self.kinds.name(entry.kind).clone(),
            priority: entry.priority,
            created_at: entry.created_at,
            attempts: entry.attempts,
            era: entry.era,
            group: entry.group.map(|group| self.groups.slot(group).number),
            payload_size: entry.payload_size,
            state: entry.state.clone(),
            extras: entry.extras.clone(),
        }
    }

    fn entry(&mut self, item: Item) -> (ItemNumber, Entry) {
        let entry = Entry {
            place: item.place,
            created_at: item.created_at,
            state: item.state,
            extras: item.extras,
            group: item.group.map(|group| self.groups.index(group)),
            kind: self.kinds.index(&item.kind),
            attempts: item.attempts,
            era: item.era,
            priority: item.priority,
            payload_size: item.payload_size,
        };
        (item.number, entry)
    }
}

/// Where the indexes hold an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    Waiting(Lane, Key),
    Scheduled(Lane, Key),
    /// By the end of its lease, by its place, and by its number.
    Leased(Lane, Key, Key),
    Suspended(Lane, Key),
    Final(Key, u64),
    /// Nowhere: only its move is left.
    Forgotten,
}

impl Spot {
    /// The group that an item there is a live member of, or would be had it not been taken away; and what it counts as there.
    fn member_of(self) -> Option<(GroupIndex, (Clearable, u32))> {
        let (lane, which) = match self {
            Self::Waiting(lane, _) => (lane, Clearable::Waiting),
            Self::Scheduled(lane, _) => (lane, Clearable::Scheduled),
            Self::Leased(lane, _, _) => (lane, Clearable::Leased),
            Self::Suspended(lane, _) => (lane, Clearable::Suspended),
            Self::Final(..) | Self::Forgotten => return None,
        };
        lane.group.map(|group| (group, (which, lane.era)))
    }
}

/// What holds an item besides its spot.
pub(super) struct Besides {
    pub(super) expires: Option<Key>,
    pub(super) leaving: Option<Leaving>,
    pub(super) addressed: Option<Addressed>,
    pub(super) findable: Option<Findable>,
}

impl Besides {
    pub(super) fn of(number: ItemNumber, entry: &Entry) -> Self {
        let (expires, leaving) = match &entry.state {
            State::Waiting { .. } | State::Scheduled { .. } | State::Suspended(_) => {
                (entry.dead_at().map(|at| (at.0, number)), None)
            }
            State::Leased(_) => (None, None),
            State::Final(outcome) => (None, Leaving::of(number, outcome, entry.payload_size)),
        };
        let (addressed, findable) = (Addressed::of(number, entry), Findable::of(number, entry));
        Self { expires, leaving, addressed, findable }
    }
}

pub(super) fn due_key(due_at: Timestamp) -> u64 {
    let early = if mutant::active(Mutant::StartEarly) { Span::from_millis(100) } else { Span::ZERO };
    due_at.0.saturating_sub(early.0)
}
