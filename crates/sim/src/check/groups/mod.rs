//! The history, told group by group. A name may stand for several groups, one after the other: a group is what one call
//! made, and is known again by the moment it was made at.

mod cancelled;
mod counts;
mod held;
mod last_words;
mod members;
mod names;
mod views;

use std::sync::Arc;

use windlass_core::time::Timestamp;

use super::facts::{Facts, ItemFacts, violation};
use crate::group::{GroupAsk, LastWord, Word};
use crate::history::{Call, Moment, Op, Outcome, QueueIndex, ShownGroup, Violation};

pub(super) use self::cancelled::check as check_cancelled;
pub(super) use self::counts::check as check_counts;
pub(super) use self::held::check as check_held;
pub(super) use self::last_words::check as check_last_words;
pub(super) use self::members::check as check_members;
pub(super) use self::names::check as check_names;
pub(super) use self::views::{check as check_views, check_each as check_each_view};

#[derive(Debug)]
pub struct GroupFacts<'a> {
    pub queue: QueueIndex,
    pub name: &'a Arc<str>,
    /// Acknowledged, or of unknown outcome.
    pub create: &'a Call,
    /// Unset as long as nobody was told.
    pub created_at: Option<Timestamp>,
    /// Every time it was shown.
    pub views: Vec<(&'a Call, &'a ShownGroup)>,
    /// What was asked of it and may have been done, its creation included.
    pub asks: Vec<Asked<'a>>,
    /// Items that are members of it for sure.
    pub members: Vec<usize>,
    /// Items that may be members of it, as far as is known.
    pub candidates: Vec<usize>,
    /// By then it was there for sure.
    there_by: Option<Moment>,
    /// By then it took no more members for sure.
    finished_by: Option<Moment>,
    /// By then its name was free again for sure.
    gone_by: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub call: &'a Call,
    pub ask: &'a GroupAsk,
    /// It was done, and to this group.
    pub is_sure: bool,
}

impl<'a> GroupFacts<'a> {
    fn new(call: &'a Call) -> Option<Self> {
        let op = call.op.group()?;
        if !matches!(op.ask, GroupAsk::Create { .. }) || !call.outcome.is_possible() {
            return None;
        }
        let created_at = call.outcome.groups().first().map(|view| view.created_at);
        Some(Self {
            queue: op.queue,
            name: &op.group,
            create: call,
            created_at,
            views: Vec::new(),
            asks: Vec::new(),
            members: Vec::new(),
            candidates: Vec::new(),
            there_by: None,
            finished_by: None,
            gone_by: None,
        })
    }

    fn is_named(&self, queue: QueueIndex, name: &str) -> bool {
        self.queue == queue && **self.name == *name
    }

    /// What may have started it.
    pub fn starts(&self) -> impl Iterator<Item = &Asked<'a>> {
        self.asks
            .iter()
            .filter(|asked| matches!(asked.ask, GroupAsk::Start | GroupAsk::Create { start: true, .. }))
    }

    /// What may have cancelled it.
    pub fn cancels(&self) -> impl Iterator<Item = &Asked<'a>> {
        self.asks.iter().filter(|asked| matches!(asked.ask, GroupAsk::Cancel))
    }

    /// What may be made at its end.
    pub fn last_words(&self) -> impl Iterator<Item = (&Asked<'a>, Word, &'a LastWord)> {
        self.asks.iter().flat_map(|asked| {
            let words = asked.ask.ends().into_iter().flat_map(|ends| ends.words());
            words.map(move |(word, last_word)| (asked, word, last_word))
        })
    }

    /// Whether it may have been there, and its name taken, while the call was under way.
    fn may_have_been_there(&self, call: &Call) -> bool {
        may_follow(self.create, call) && self.gone_by.is_none_or(|gone| gone > call.begin)
    }
}

/// Whether the second call may have had an effect after the first had one.
fn may_follow(first: &Call, second: &Call) -> bool {
    first.begin < second.end || second.outcome.is_unknown()
}

pub(super) fn gather(facts: &mut Facts<'_>) -> Result<(), Violation> {
    let calls = &facts.history.calls;
    facts.groups = calls.iter().filter_map(GroupFacts::new).collect();
    for call in calls {
        for view in call.outcome.groups() {
            add_view(facts, call, view)?;
        }
    }
    // What was lost again may have been otherwise.
    if facts.history.is_lossless() {
        set_bounds(facts);
    }
    for call in calls {
        add_ask(facts, call);
    }
    add_members(facts);
    Ok(())
}

fn queue_of(call: &Call) -> Option<QueueIndex> {
    if let Op::Groups(queue) = call.op { Some(queue) } else { call.op.group().map(|op| op.queue) }
}

fn add_view<'a>(facts: &mut Facts<'a>, call: &'a Call, view: &'a ShownGroup) -> Result<(), Violation> {
    let Some(queue) = queue_of(call) else { return Ok(()) };
    let same = |group: &GroupFacts<'_>| group.is_named(queue, &view.name);
    let known = |group: &GroupFacts<'_>| group.created_at == Some(view.created_at);
    let mut found: Vec<usize> = facts.groups_where(|group| same(group) && known(group));
    if found.is_empty() {
        let unknown = |group: &GroupFacts<'_>| group.created_at.is_none() && may_follow(group.create, call);
        found = facts.groups_where(|group| same(group) && unknown(group));
        if found.is_empty() {
            let text =
                format!("{} of q{queue} was shown at {}, and nobody made it: {view:?}", view.name, call.end);
            return Err(violation("group", text));
        }
    }
    // Of several that it may be it tells nothing.
    if let [only] = found[..] {
        let group = &mut facts.groups[only];
        group.created_at = Some(view.created_at);
        group.views.push((call, view));
    }
    Ok(())
}

fn set_bounds(facts: &mut Facts<'_>) {
    let earliest = |moments: &mut dyn Iterator<Item = Moment>| moments.min();
    for group in &mut facts.groups {
        let shown = group.views.iter();
        group.there_by = earliest(&mut shown.clone().map(|(call, _)| call.end));
        let finished = shown.filter(|(_, view)| view.state.is_finished());
        group.finished_by = earliest(&mut finished.map(|(call, _)| call.end));
    }
    for index in 0..facts.groups.len() {
        let group = &facts.groups[index];
        let Some(there_by) = group.there_by else { continue };
        let deletes = group.views.iter().map(|(call, _)| *call).filter(|call| is_delete(call));
        let calls = facts.history.calls.iter().filter(|call| call.begin > there_by && frees(call, group));
        facts.groups[index].gone_by = earliest(&mut deletes.chain(calls).map(|call| call.end));
    }
}

fn is_delete(call: &Call) -> bool {
    call.op.group().is_some_and(|op| matches!(op.ask, GroupAsk::Delete))
}

/// Whether the name of a group that was there before is free, or another's, after the call.
fn frees(call: &Call, group: &GroupFacts<'_>) -> bool {
    if let Outcome::GroupMade(view, _) = &call.outcome {
        return queue_of(call) == Some(group.queue) && view.name == *group.name;
    }
    let is_of_queue = matches!(call.op, Op::Delete { queue, .. } if queue == group.queue);
    is_of_queue && matches!(call.outcome, Outcome::Deleted)
}

fn add_ask<'a>(facts: &mut Facts<'a>, call: &'a Call) {
    let Some(op) = call.op.group() else { return };
    if !call.outcome.is_possible() {
        return;
    }
    let shown = call.outcome.groups().first().map(|view| view.created_at);
    for group in facts.groups.iter_mut().filter(|group| group.is_named(op.queue, &op.group)) {
        let (about, is_sure) = match (shown, group.created_at) {
            _ if std::ptr::eq(group.create, call) => (true, group.created_at.is_some()),
            _ if matches!(op.ask, GroupAsk::Create { .. }) => (false, false),
            (Some(shown), Some(created_at)) => (shown == created_at, true),
            // Nobody knows which it was. What went down with its process does nothing to what comes later.
            (Some(_), None) | (None, _) => {
                (group.create.process <= call.process && group.may_have_been_there(call), false)
            }
        };
        if about {
            group.asks.push(Asked { call, ask: &op.ask, is_sure });
        }
    }
}

fn add_members(facts: &mut Facts<'_>) {
    for index in 0..facts.items.len() {
        let item = &facts.items[index];
        let groups = groups_of(facts, item);
        if let [only] = groups[..]
            && is_there(&facts.groups[only], item)
        {
            facts.groups[only].members.push(index);
        } else {
            groups.iter().for_each(|group| facts.groups[*group].candidates.push(index));
        }
        facts.items[index].groups = groups;
    }
}

/// Those that the item may be a member of.
fn groups_of(facts: &Facts<'_>, item: &ItemFacts<'_>) -> Vec<usize> {
    let Some(name) = item.made.group.as_ref().filter(|_| item.is_made_by_call()) else { return Vec::new() };
    let call = item.produce;
    if !call.outcome.is_possible() {
        return Vec::new();
    }
    if call.op.group().is_some() {
        return facts.groups_where(|group| std::ptr::eq(group.create, call));
    }
    let takes = |group: &GroupFacts<'_>| {
        group.may_have_been_there(call) && group.finished_by.is_none_or(|finished| finished > call.begin)
    };
    facts.groups_where(|group| group.is_named(item.queue, name) && takes(group))
}

/// Whether an item that can only be a member of this group is one.
fn is_there(group: &GroupFacts<'_>, item: &ItemFacts<'_>) -> bool {
    // A group is made with all its first members.
    let came_with_it = std::ptr::eq(group.create, item.produce) && group.created_at.is_some();
    came_with_it || item.is_acknowledged() || item.id.is_some()
}
