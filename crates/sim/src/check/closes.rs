//! Streams that somebody closes: whoever followed the item before is shown the end, and nothing that came after the close; but
//! all that came before it, if the close is graceful. How many were told to end is what it says.

use windlass_engine::CloseMode;

use super::facts::{Facts, ItemFacts, Verb, violation};
use super::service::may_turn_away;
use super::streams::said;
use super::waits::WORD_MICROS;
use crate::history::{Call, Followed, Op, Outcome, Violation};

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in facts.items.iter().filter(|item| !item.closes.is_empty()) {
        for close in &item.closes {
            let Outcome::Closed(count) = close.outcome else { continue };
            told_right(facts, item, close, count)?;
            for follower in item.followers().filter(|follower| follower.was_there(close)) {
                follower.ended_soon(facts, close)?;
                follower.heard_nothing_later(close)?;
                follower.stopped_at_once(close)?;
            }
        }
        item.followers().try_for_each(|follower| follower.heard_all(facts))?;
    }
    Ok(())
}

/// Whether the call followed an item whose streams somebody closed.
pub(super) fn may_have_closed(facts: &Facts<'_>, call: &Call) -> bool {
    let (Op::Follow { id, .. }, Outcome::Followed(followed)) = (&call.op, &call.outcome) else {
        return false;
    };
    let Some(item) = facts.by_id.get(id).map(|index| &facts.items[*index]) else { return false };
    Follower { item, call, followed }.closes().next().is_some()
}

/// Somebody who followed an item, and what was shown.
#[derive(Clone, Copy)]
struct Follower<'f, 'a> {
    item: &'f ItemFacts<'a>,
    call: &'a Call,
    followed: &'a Followed,
}

impl<'a> ItemFacts<'a> {
    fn followers(&self) -> impl Iterator<Item = Follower<'_, 'a>> {
        self.follows.iter().filter_map(|call| {
            let Outcome::Followed(followed) = &call.outcome else { return None };
            Some(Follower { item: self, call, followed })
        })
    }

    /// Calls that put something into its stream, or were to.
    fn speakers(&self) -> impl Iterator<Item = (&'a Call, &'a [u64])> {
        let emits = self.verdicts.iter().filter(|judged| judged.verb == Verb::Emit).map(|judged| judged.call);
        let calls = emits.chain(self.resumes.iter().copied());
        calls.filter_map(|call| said(&call.op).map(|(_, serials)| (call, serials)))
    }
}

impl<'f, 'a> Follower<'f, 'a> {
    fn wrong(&self, what: String) -> Violation {
        let (serial, begin) = (self.item.made.serial, self.call.begin);
        violation("closed", format!("item {serial}, followed at {begin}, {what}"))
    }

    /// Those that may have told it to end.
    fn closes(self) -> impl Iterator<Item = &'a Call> + use<'f, 'a> {
        self.item.closes.iter().copied().filter(move |close| {
            let may_close = close.outcome.is_possible() && !matches!(close.outcome, Outcome::Closed(0));
            may_close
                && close.process == self.call.process
                && close.begin < self.call.end
                && (close.outcome.is_unknown() || close.end > self.followed.asked)
        })
    }

    /// Whether nobody else can have told it to end before a close was over.
    fn is_left_to(self, close: &Call) -> bool {
        !self.closes().any(|other| !std::ptr::eq(other, close) && other.begin < close.end)
    }

    fn was_there(&self, close: &Call) -> bool {
        close.process == self.call.process
            && self.followed.opened < close.begin
            && close.begin < self.call.end
    }

    fn ended_soon(&self, facts: &Facts<'_>, close: &Call) -> Result<(), Violation> {
        let had_time = self.call.end.micros > close.end.micros + WORD_MICROS;
        if !had_time || facts.history.is_troubled(self.call.process, self.call.end) {
            return Ok(());
        }
        Err(self.wrong(format!("closed at {}, went on until {}", close.end, self.call.end)))
    }

    fn heard_nothing_later(&self, close: &Call) -> Result<(), Violation> {
        let shown = |serial: &u64| self.followed.events.iter().any(|(_, shown)| shown == serial);
        let mut later = self.item.speakers().filter(|(call, _)| call.begin > close.end);
        match later.find(|(_, serials)| serials.iter().any(shown)) {
            None => Ok(()),
            Some((call, _)) => {
                Err(self.wrong(format!("closed at {}, was shown what came at {}", close.end, call.begin)))
            }
        }
    }

    fn stopped_at_once(&self, close: &Call) -> Result<(), Violation> {
        let is_late = self.followed.shown_until > close.end;
        if mode(close) != Some(CloseMode::Immediate) || !is_late || !self.is_left_to(close) {
            return Ok(());
        }
        Err(self.wrong(format!("closed at once at {}, was shown more", close.end)))
    }

    /// If only those who were graceful can have closed it.
    fn heard_all(&self, facts: &Facts<'_>) -> Result<(), Violation> {
        let Self { call, followed, .. } = *self;
        let Op::Follow { after, .. } = call.op else { return Ok(()) };
        if !followed.is_closed() || followed.has_gap || may_turn_away(facts, call.process, call.end) {
            return Ok(());
        }
        let is_sure = |close: &&Call| self.was_there(close) && !close.outcome.is_unknown();
        let closed_by = self.closes().filter(is_sure).map(|close| close.end).min();
        let is_first = |close: &&Call| closed_by.is_none_or(|closed_by| close.begin < closed_by);
        let closes: Vec<&Call> = self.closes().filter(is_first).collect();
        let Some(begin) = closes.iter().map(|close| close.begin).min() else { return Ok(()) };
        if closes.iter().any(|close| mode(close) == Some(CloseMode::Immediate)) {
            return Ok(());
        }
        let before =
            |call: &Call| !call.outcome.is_unknown() && call.outcome.is_possible() && call.end < begin;
        for (said, serials) in self.item.speakers().filter(|(said, _)| before(said)) {
            // Whoever resumes is not told the number.
            let first_seq =
                if let Outcome::Emitted(emitted) = &said.outcome { Some(emitted.first_seq) } else { None };
            let is_due = first_seq.map_or(after == 0, |first_seq| first_seq > after);
            let shown = |serial: &u64| followed.events.iter().any(|(_, shown)| shown == serial);
            if is_due && !serials.iter().all(shown) {
                let text = format!("was closed at {begin} without what was said by {}", said.end);
                return Err(self.wrong(text));
            }
        }
        Ok(())
    }
}

fn mode(close: &Call) -> Option<CloseMode> {
    if let Op::Close { mode, .. } = close.op { Some(mode) } else { None }
}

/// At least those who surely followed it, at most those who may have.
fn told_right(facts: &Facts<'_>, item: &ItemFacts<'_>, close: &Call, count: usize) -> Result<(), Violation> {
    let stays = |follower: &Follower<'_, '_>| {
        follower.was_there(close) && close.end < follower.call.end && follower.is_left_to(close)
    };
    let sure = if may_turn_away(facts, close.process, close.end) { 0 } else { usize::MAX };
    let least = item.followers().filter(stays).count().min(sure);
    let meets =
        |call: &&&Call| call.process == close.process && call.begin < close.end && close.begin < call.end;
    // Once it is answered, it is counted as one that follows.
    let asks = |call: &&&Call| {
        let is_answered = matches!(call.outcome, Outcome::Subscribed { .. }) && call.end < close.end;
        matches!(call.op, Op::Subscribe(_)) && !is_answered
    };
    let most =
        item.follows.iter().filter(meets).count() + item.gets.iter().filter(meets).filter(asks).count();
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let text = format!(
        "item {}: {count} streams were closed at {}, not {least} to {most}",
        item.made.serial, close.end
    );
    Err(violation("closed", text))
}
