//! Whoever follows an item when it is suspended is shown so, in its place among the events, and why.

use std::collections::BTreeMap;

use windlass_core::id::Permit;
use windlass_core::item::Phase;

use super::facts::{Facts, ItemFacts, Judgement, Verb, violation};
use super::waits::WORD_MICROS;
use crate::history::{Call, Followed, Op, Outcome, ShownState, Violation};

/// Who put an event into a stream.
enum Source<'a> {
    Worker(Permit),
    Answer(&'a Call),
}

type Sources<'a> = BTreeMap<u64, Source<'a>>;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let sources = sources(facts);
    for item in &facts.items {
        for call in &item.follows {
            let Outcome::Followed(followed) = &call.outcome else { continue };
            let follower = Follower { item, call, followed, sources: &sources };
            for state in followed.states.iter().filter(|state| state.phase == Phase::Suspended) {
                follower.saw_it_in_its_place(*state)?;
            }
            for suspend in item.sure_suspends() {
                follower.saw(facts, suspend)?;
            }
        }
    }
    Ok(())
}

/// By serial.
fn sources<'a>(facts: &Facts<'a>) -> Sources<'a> {
    let mut sources = Sources::new();
    for call in &facts.history.calls {
        if let Op::Emit { permit, events, .. } = &call.op {
            sources.extend(events.iter().map(|serial| (*serial, Source::Worker(*permit))));
        }
        if let Op::Resume { input: Some(serial), .. } = call.op {
            sources.insert(serial, Source::Answer(call));
        }
    }
    sources
}

/// Somebody who followed an item, and what was shown.
struct Follower<'f, 'a> {
    item: &'f ItemFacts<'a>,
    call: &'a Call,
    followed: &'a Followed,
    sources: &'f Sources<'a>,
}

impl Follower<'_, '_> {
    fn wrong(&self, what: String) -> Violation {
        let (serial, begin) = (self.item.made.serial, self.call.begin);
        violation("live", format!("item {serial}, followed at {begin}, {what}"))
    }

    /// Of a suspend that took place; what came before it was shown before, and what came after was not.
    fn saw_it_in_its_place(&self, state: ShownState) -> Result<(), Violation> {
        let of = |suspend: &&Judgement<'_>| {
            suspend.verb == Verb::Suspend { reason: state.reason } && suspend.call.begin < self.call.end
        };
        let Some(suspend) = self.item.suspends().find(of) else {
            return Err(self.wrong(format!("was shown {state:?}, as nobody said")));
        };
        // Without a reason it may be another one.
        if state.reason.is_none() {
            return Ok(());
        }
        let misplaced = self.followed.events.iter().find(|(seq, serial)| {
            let Some(source) = self.sources.get(serial) else { return false };
            if *seq > state.after_seq { is_before(source, suspend) } else { is_after(source, suspend) }
        });
        match misplaced {
            None => Ok(()),
            Some(event) => Err(self.wrong(format!("was shown {state:?} in the wrong place to {event:?}"))),
        }
    }

    /// If it followed before, and was shown something that came later or had time enough.
    fn saw(&self, facts: &Facts<'_>, suspend: &Judgement<'_>) -> Result<(), Violation> {
        let Verb::Suspend { reason } = suspend.verb else { return Ok(()) };
        let Self { item, call, followed, sources } = *self;
        let was_there = followed.opened < suspend.call.begin
            && suspend.call.begin < call.end
            && call.process == suspend.call.process;
        // What was read back shows only how it is then.
        let troubled = facts.history.is_troubled(call.process, call.end);
        if !was_there || troubled || may_end_it(facts, item, suspend) {
            return Ok(());
        }
        let later = |(_, serial): &(u64, u64)| sources.get(serial).is_some_and(|it| is_after(it, suspend));
        let went_past = followed.is_final() || followed.events.iter().any(later);
        let had_time = call.end.micros > suspend.call.end.micros + WORD_MICROS;
        let mut states = followed.states.iter();
        let shown = states.any(|state| state.phase == Phase::Suspended && state.reason == reason);
        if shown || !went_past && !had_time {
            return Ok(());
        }
        Err(self.wrong(format!("was not shown that it was suspended at {}", suspend.call.end)))
    }
}

/// Whether an event surely came before a suspend.
fn is_before(source: &Source<'_>, suspend: &Judgement<'_>) -> bool {
    match source {
        Source::Worker(permit) => *permit <= suspend.permit,
        Source::Answer(resume) => !resume.outcome.is_unknown() && resume.end < suspend.call.begin,
    }
}

/// Whether an event surely came after a suspend.
fn is_after(source: &Source<'_>, suspend: &Judgement<'_>) -> bool {
    match source {
        Source::Worker(permit) => *permit > suspend.permit,
        Source::Answer(resume) => suspend.verdict.is_ok() && resume.begin > suspend.call.end,
    }
}

/// Whether the suspend may have ended the item: a cancel was asked for, or its time was over.
fn may_end_it(facts: &Facts<'_>, item: &ItemFacts<'_>, suspend: &Judgement<'_>) -> bool {
    let mut cancels = item.cancels.iter().copied().chain(facts.group_cancels(item));
    let may_end = cancels.any(|call| call.begin < suspend.call.end) || facts.may_expire(item);
    let leased = item.grants.iter().any(|grant| grant.given.permit > suspend.permit);
    let resumed = item.sure_resumes().any(|call| call.begin > suspend.call.end);
    may_end && !leased && !resumed
}
