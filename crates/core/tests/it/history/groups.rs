//! Groups in random histories: what must be true of them after each step, said without the core's counters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::group::{Group, GroupState, Member};
use windlass_core::id::{GroupNumber, ItemNumber};
use windlass_core::item::{Item, MoveReason, Phase, State};
use windlass_core::limits::Invalid;
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::row::{BodyCopy, Change, Part, Row};
use windlass_core::verbs::{
    CancelGroup, CreateGroup, DeleteGroup, GroupCreated, NewEnd, NewItem, Produced, SetGroupEnd, StartGroup,
};

use super::steps::new;
use super::{History, Step, kind_name};

/// What is made at the end of a group, and what if it is cancelled.
pub(crate) type Ends = (Made, Made);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    Nothing,
    Here,
    Elsewhere,
}

/// What is known of a group that was not deleted.
pub(super) struct Known {
    number: GroupNumber,
    started: bool,
    cancelled: bool,
    /// All that ever were members.
    joined: u64,
    completed: u64,
    /// The bodies of its templates.
    bodies: (Option<ItemNumber>, Option<ItemNumber>),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let ends = || (made(), made());
    prop_oneof![
        3 => (0..3u8, ends(), prop::collection::vec(new(), 0..5), any::<bool>())
            .prop_map(|(group, ends, items, start)| Step::CreateGroup(group, ends, items, start)),
        1 => (0..3u8, ends()).prop_map(|(group, ends)| Step::SetGroupEnd(group, ends)),
        3 => (0..3u8).prop_map(Step::StartGroup),
        2 => (0..3u8).prop_map(Step::CancelGroup),
        2 => (0..3u8).prop_map(Step::DeleteGroup),
    ]
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![Just(Made::Nothing), Just(Made::Here), Just(Made::Elsewhere)]
}

pub(super) fn name(group: u8) -> Arc<str> {
    ["import", "export", "report"][usize::from(group)].into()
}

fn end(made: Made) -> Option<NewEnd> {
    let item = NewItem {
        priority: 1,
        max_attempts: Some(2),
        facts: Some(Bytes::from_static(b"facts")),
        ..NewItem::plain(kind_name(1), Bytes::from_static(b"the last one"))
    };
    match made {
        Made::Nothing => None,
        Made::Here => Some(NewEnd { queue: None, item }),
        Made::Elsewhere => Some(NewEnd { queue: Some("elsewhere".into()), item }),
    }
}

impl History {
    pub(super) fn create_group(
        &mut self,
        group: u8,
        (at_end, at_abort): Ends,
        items: &[super::New],
        start: bool,
    ) {
        let items: Vec<_> = items.iter().map(|item| self.new_item(*item)).collect();
        let create = CreateGroup {
            name: name(group),
            end: end(at_end),
            abort: end(at_abort),
            items: items.clone(),
            start,
        };
        let made_before = self.made.len();
        let refused = self.refused_by_address(&items);
        let reply = self.apply(create);
        if self.groups.contains_key(&group) {
            assert_eq!(reply, Err(Refusal::GroupExists));
            return;
        }
        let belongs = |item: &NewItem| self.takes(None, item.address.as_deref());
        if !self.takes_name(&name(group)) || !items.iter().all(belongs) {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        if let Some(refusal) = refused {
            assert_eq!(reply, Err(refusal));
            return;
        }
        let GroupCreated { group: view, items: produced } = reply.unwrap();
        assert_eq!(produced.len(), items.len());
        // The end of a group that was started empty came of the same call.
        let ends = self.made.split_off(made_before);
        for (item, Produced { number, phase }) in items.iter().zip(&produced) {
            let due = self.due_at(item).is_some_and(|at| at > self.now);
            let at_once = if start { Phase::Waiting } else { Phase::Held };
            assert_eq!(*phase, if due { Phase::Scheduled } else { at_once });
            self.arrived(item.address.as_ref(), *number);
            self.produced_one(*number, item);
        }
        self.made.extend(ends);
        assert_eq!(view.state == GroupState::Done { at: self.now }, start && items.is_empty());
        let row = self.created(group);
        let joined = items.len() as u64;
        let known = Known {
            number: row.number,
            started: start,
            cancelled: false,
            joined,
            completed: 0,
            bodies: bodies_of(&row).unwrap_or((None, None)),
        };
        self.groups.insert(group, known);
    }

    /// Why the items of one call cannot be made.
    fn refused_by_address(&self, items: &[NewItem]) -> Option<Refusal> {
        let mut given = BTreeSet::new();
        items.iter().filter_map(|item| item.address.as_ref()).find_map(|address| {
            let holder = self.holders_of_addresses.get(address).filter(|number| self.is_live(**number));
            let invalid = Invalid { field: "address", rule: "another one for each item of a group's call" };
            match holder {
                Some(number) => Some(Refusal::DuplicateAddress { number: *number }),
                None => (!given.insert(address)).then_some(Refusal::Invalid(invalid)),
            }
        })
    }

    /// Its latest row. One that was over at once has lost its templates again.
    fn created(&self, group: u8) -> Group {
        let mut rows = self.changes.iter().rev().filter_map(|change| match change {
            Change::Put(Row::Group(row)) if row.name == name(group) => Some(row),
            _ => None,
        });
        let latest = rows.next().expect("a row was written");
        if latest.state.over_since().is_none() {
            return Group::clone(latest);
        }
        Group::clone(
            rows.next().filter(|row| row.number == latest.number).expect("it was made before it was over"),
        )
    }

    pub(super) fn set_group_end(&mut self, group: u8, (at_end, at_abort): Ends) {
        let set = SetGroupEnd { name: name(group), end: end(at_end), abort: end(at_abort) };
        let expected = self.refused(group, |state| state.is_finished());
        let reply = self.apply(set);
        if let Some(refusal) = expected {
            assert_eq!(reply, Err(refusal));
            return;
        }
        reply.unwrap();
        let bodies = bodies_of(&self.created(group)).expect("it is not over");
        let known = self.groups.get_mut(&group).expect("it was not refused");
        let before = std::mem::replace(&mut known.bodies, bodies);
        for (before, after) in [(before.0, bodies.0), (before.1, bodies.1)] {
            if let Some(before) = before.filter(|before| Some(*before) != after) {
                assert!(self.is_removed(before), "a body that nobody needs is left behind");
            }
        }
    }

    /// Why a call about a group must be refused.
    fn refused(&self, group: u8, finished: impl Fn(GroupState) -> bool) -> Option<Refusal> {
        match self.partition.group(&name(group)) {
            None => Some(Refusal::NoSuchGroup),
            Some(view) => finished(view.state).then_some(Refusal::GroupFinished),
        }
    }

    pub(super) fn start_group(&mut self, group: u8) {
        let expected = self.refused(group, |state| state.is_finished());
        let reply = self.apply(StartGroup(name(group)));
        match expected {
            Some(refusal) => assert_eq!(reply, Err(refusal)),
            None => self.groups.get_mut(&group).expect("it was not refused").started = true,
        }
    }

    pub(super) fn cancel_group(&mut self, group: u8, before: &BTreeMap<ItemNumber, Item>) {
        let expected = self.refused(group, |state| matches!(state, GroupState::Done { .. }));
        let reply = self.apply(CancelGroup(name(group)));
        if let Some(refusal) = expected {
            assert_eq!(reply, Err(refusal));
            return;
        }
        let known = self.groups.get_mut(&group).expect("it was not refused");
        known.cancelled = true;
        let number = known.number;
        for item in before.values().filter(|item| item.group == Some(number)) {
            match item.state {
                State::Waiting { .. } | State::Scheduled { .. } | State::Suspended(_) => {
                    self.ended.insert(item.number);
                }
                State::Leased(_) => {
                    let State::Leased(lease) = self.partition.get(item.number).expect("it stays").state
                    else {
                        panic!("it stays leased")
                    };
                    assert!(lease.cancel_requested);
                }
                State::Final(_) => {}
            }
        }
    }

    pub(super) fn delete_group(&mut self, group: u8) {
        let view = self.partition.group(&name(group));
        let reply = self.apply(DeleteGroup(name(group)));
        match view {
            None => assert_eq!(reply, Err(Refusal::NoSuchGroup)),
            Some(view) if view.state.over_since().is_none() => assert_eq!(reply, Err(Refusal::GroupNotOver)),
            Some(view) => {
                assert_eq!(reply, Ok(view));
                assert_eq!(self.partition.group(&name(group)), None);
                self.groups.remove(&group);
            }
        }
    }

    /// Why an item cannot be a member of its group.
    pub(super) fn refused_by_group(&self, group: Option<&str>) -> Option<Refusal> {
        let group = group?;
        match self.partition.group(group) {
            None => Some(Refusal::NoSuchGroup),
            Some(view) => view.state.is_finished().then_some(Refusal::GroupFinished),
        }
    }

    pub(super) fn joined(&mut self, group: Option<&str>) {
        let known = self.groups.iter_mut().find(|(index, _)| Some(&*name(**index)) == group);
        known.into_iter().for_each(|(_, known)| known.joined += 1);
    }

    pub(super) fn completed_in_group(&mut self, number: ItemNumber) {
        let group = self.changes.iter().rev().find_map(|change| match change {
            Change::Put(Row::Item(item)) if item.number == number => Some(item.group),
            _ => None,
        });
        let known = self.groups.values_mut().find(|known| Some(Some(known.number)) == group);
        known.into_iter().for_each(|known| known.completed += 1);
    }

    /// What an item that ends was to its group.
    pub(super) fn ended_member(&self, item: &Item) -> Option<Member> {
        let number = item.group?;
        let known = self.groups.iter().find(|(_, known)| known.number == number);
        let (group, _) = known.expect("a group with a live member is there");
        Some(Member { group: name(*group), held: false })
    }

    /// Takes note of the end item of a group, or of what a cron made. What was rerun is seen to by its step.
    pub(super) fn end_made(&mut self, copy: &BodyCopy) {
        let BodyCopy { to, part, .. } = copy;
        if *part != Part::Payload {
            return;
        }
        if self.partition.get(*to).is_none() {
            self.ends_sent += 1;
            return;
        }
        let made = self.partition.get(*to).and_then(|item| item.extras);
        let origin = made.as_ref().and_then(|extras| extras.origin.as_ref());
        if origin.is_some_and(|origin| origin.reason == MoveReason::Rerun) {
            return;
        }
        let address = made.and_then(|extras| extras.address);
        self.made.push(*to);
        self.holders_of_addresses.extend(address.map(|address| (address, *to)));
        self.not_before.insert(*to, self.now);
        self.max_attempts.insert(*to, 2);
        self.made(*to, None);
    }

    /// Whether an item can be leased as far as its group goes.
    pub(crate) fn is_waiting(&self, item: &Item) -> bool {
        let held = self.partition.member(item).is_some_and(|member| member.held);
        matches!(item.state, State::Waiting { .. }) && !held
    }

    pub(super) fn check_groups(&mut self) {
        let partition = &self.partition;
        // Retention is over.
        self.groups.retain(|group, known| {
            let kept = partition.group(&name(*group)).is_some();
            assert!(kept || known.started || known.cancelled);
            kept
        });
        let names: Vec<_> = self.groups.keys().map(|group| name(*group)).collect();
        let listed: Vec<_> = partition.list_groups(None, 10).into_iter().map(|view| view.name).collect();
        assert_eq!(listed.len(), names.len());
        assert!(listed.is_sorted() && names.iter().all(|name| listed.contains(name)));
        for (group, known) in &self.groups {
            self.check_group(*group, known);
        }
    }

    fn check_group(&self, group: u8, known: &Known) {
        let view = self.partition.group(&name(group)).expect("it was not deleted");
        let mut live = Counts::default();
        for item in self.items().values().filter(|item| item.group == Some(known.number)) {
            assert_eq!(self.partition.member(item).map(|member| member.group), Some(name(group)));
            match item.state {
                State::Waiting { .. } if known.started => live.waiting += 1,
                State::Waiting { .. } => live.held += 1,
                State::Scheduled { .. } => live.scheduled += 1,
                State::Leased(_) => live.leased += 1,
                State::Suspended(_) => live.suspended += 1,
                State::Final(_) => {}
            }
        }
        assert_eq!(view.live, live);
        let ended = view.ended.completed + view.ended.failed + view.ended.cancelled + view.ended.expired;
        assert_eq!(live.live() + ended, known.joined, "{view:?}");
        assert_eq!(view.ended.completed, known.completed, "{view:?}");
        let expected = match (known.cancelled, known.started, live.live()) {
            (true, _, 0) => "aborted",
            (true, _, _) => "cancelled",
            (false, true, 0) => "done",
            (false, true, _) => "started",
            (false, false, _) => "open",
        };
        assert_eq!(view.state.name(), expected);
        let (end, abort) = known.bodies;
        assert_eq!(self.copies(end), u64::from(end.is_some() && expected == "done"));
        assert_eq!(self.copies(abort), u64::from(abort.is_some() && expected == "aborted"));
        for body in [end, abort].into_iter().flatten() {
            assert_eq!(self.is_removed(body), view.state.over_since().is_some());
        }
    }

    fn copies(&self, body: Option<ItemNumber>) -> u64 {
        let is_copy = |copy: &&BodyCopy| Some(copy.from) == body && copy.part == Part::Payload;
        self.copies.iter().filter(is_copy).count() as u64
    }

    fn is_removed(&self, body: ItemNumber) -> bool {
        self.changes.iter().any(
            |change| matches!(change, Change::RemoveBody { number, part: Part::Payload } if *number == body),
        )
    }
}

fn bodies_of(row: &Group) -> Option<(Option<ItemNumber>, Option<ItemNumber>)> {
    let body = |template: &Option<Box<windlass_core::group::Template>>| template.as_ref().map(|one| one.body);
    row.state.over_since().is_none().then(|| (body(&row.end), body(&row.abort)))
}
