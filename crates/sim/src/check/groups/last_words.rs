//! The end item of a group exists exactly once if it is done, the abort item if it was cancelled, never both, and neither
//! while a member lives.

use std::collections::BTreeMap;

use windlass_core::group::GroupState;

use super::super::facts::{Facts, ItemFacts, Maker, violation};
use super::super::lost::may_have_ended;
use super::{Asked, GroupFacts};
use crate::group::{LastWord, Word};
use crate::history::{Call, Violation};

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for group in &facts.groups {
        let said: Vec<Said<'_, '_>> = said(facts, group).collect();
        // Of one that may be another group's nothing more can be said.
        for said in said.iter().filter(|said| said.asked.is_sure) {
            was_due(group, said)?;
            was_not_replaced(group, said)?;
            had_no_member_left(facts, group, said)?;
        }
        once(facts, group, &said)?;
        at_all(facts, group, &said)?;
    }
    each_once(facts)
}

/// A last word that was said: the item, and who gave it to the group.
struct Said<'f, 'a> {
    item: &'f ItemFacts<'a>,
    asked: Asked<'a>,
    word: Word,
    last_word: &'a LastWord,
    /// The first call that knew of it.
    seen: &'a Call,
}

fn said<'f, 'a>(facts: &'f Facts<'a>, group: &'f GroupFacts<'a>) -> impl Iterator<Item = Said<'f, 'a>> {
    let of = |(asked, word, last_word): (&Asked<'a>, Word, &'a LastWord)| {
        let asked = *asked;
        let items = facts
            .items
            .iter()
            .filter(|item| item.maker == Maker::Group && item.made.serial == last_word.made.serial);
        items.filter_map(move |item| {
            let seen = item.grants.iter().map(|grant| grant.call).min_by_key(|call| call.end)?;
            Some(Said { item, asked, word, last_word, seen })
        })
    };
    group.last_words().flat_map(of)
}

fn wrong(rule: &'static str, group: &GroupFacts<'_>, said: &Said<'_, '_>, what: &str) -> Violation {
    let (word, serial) = (said.word, said.item.made.serial);
    let text = format!("{} of q{} has {word:?} item {serial}, {what}", group.name, group.queue);
    violation(rule, text)
}

/// Somebody asked for this end, and it is not shown to have come to another.
fn was_due(group: &GroupFacts<'_>, said: &Said<'_, '_>) -> Result<(), Violation> {
    let by_then = |asked: &Asked<'_>| asked.call.begin < said.seen.end;
    let (asked_for, other) = match said.word {
        Word::End => (group.starts().any(by_then), is_cancelled as fn(GroupState) -> bool),
        Word::Abort => (group.cancels().any(by_then), is_done as fn(GroupState) -> bool),
    };
    if !asked_for {
        return Err(wrong("last word", group, said, "and nobody had asked for that end"));
    }
    let contradicts = group.views.iter().any(|(_, view)| other(view.state));
    if contradicts { Err(wrong("last word", group, said, "but came to another end")) } else { Ok(()) }
}

fn is_done(state: GroupState) -> bool {
    matches!(state, GroupState::Done { .. })
}

fn is_cancelled(state: GroupState) -> bool {
    state.cancelled_at().is_some()
}

fn was_not_replaced(group: &GroupFacts<'_>, said: &Said<'_, '_>) -> Result<(), Violation> {
    let replaces = |(asked, word, _): &(&Asked<'_>, Word, &LastWord)| {
        asked.is_sure && *word == said.word && asked.call.begin > said.asked.call.end
    };
    if group.last_words().any(|given| replaces(&given)) {
        return Err(wrong("last word", group, said, "which had been replaced"));
    }
    Ok(())
}

fn had_no_member_left(
    facts: &Facts<'_>,
    group: &GroupFacts<'_>,
    said: &Said<'_, '_>,
) -> Result<(), Violation> {
    let made_at = said.item.origin.map(|origin| origin.moved_at);
    let made_at = made_at.or(said.item.grants.first().map(|grant| grant.given.created_at));
    for member in group.members.iter().map(|index| &facts.items[*index]) {
        let after = said.seen.end;
        let granted = member.grants.iter().any(|grant| {
            let by_the_clock = grant.leased_at().zip(made_at).is_some_and(|(leased, made)| leased > made);
            grant.call.begin > after || by_the_clock
        });
        let judged = member.verdicts.iter().any(|judged| judged.verdict.is_ok() && judged.call.begin > after);
        let shown = member.shown().any(|(call, view)| call.begin > after && !view.phase.is_final());
        if granted || judged || shown {
            let what = format!("made at {made_at:?} while member {} lived on", member.made.serial);
            return Err(wrong("early end", group, said, &what));
        }
    }
    Ok(())
}

/// Only where the queue it had gone to was deleted may it come again.
fn each_once(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut seen: BTreeMap<u64, &ItemFacts<'_>> = BTreeMap::new();
    for item in facts.items.iter().filter(|item| item.maker == Maker::Group && !facts.is_deleted(item.queue))
    {
        if let Some(other) = seen.insert(item.made.serial, item) {
            let text = format!("item {} was made twice: {:?} and {:?}", item.made.serial, other.id, item.id);
            return Err(violation("last words", text));
        }
    }
    Ok(())
}

/// One for each group.
fn once(facts: &Facts<'_>, group: &GroupFacts<'_>, said: &[Said<'_, '_>]) -> Result<(), Violation> {
    let mut counted =
        said.iter().filter(|said| said.asked.is_sure && !facts.is_deleted(said.last_word.queue));
    let (first, second) = (counted.next(), counted.next());
    if let (Some(first), Some(second)) = (first, second) {
        let what = format!(
            "and {:?} item {} as well: {:?} {:?}",
            second.word, second.item.made.serial, first.item.id, second.item.id
        );
        return Err(wrong("last words", group, first, &what));
    }
    Ok(())
}

/// What was said is seen by somebody in the end, unless it may have ended before.
fn at_all(facts: &Facts<'_>, group: &GroupFacts<'_>, said: &[Said<'_, '_>]) -> Result<(), Violation> {
    if facts.is_deleted_by_force_since(group.queue, group.create.begin) {
        return Ok(());
    }
    for (word, is_so) in [
        (Word::End, is_done as fn(GroupState) -> bool),
        (Word::Abort, |state| matches!(state, GroupState::Aborted { .. })),
    ] {
        let over = group.views.iter().find(|(_, view)| is_so(view.state));
        let mut given = group.last_words().filter(|(_, given, _)| *given == word);
        let has_one = group.last_words().any(|(asked, given, _)| given == word && asked.is_sure);
        let was_said = said.iter().any(|said| said.word == word);
        let Some((call, _)) = over.filter(|_| has_one && !was_said) else { continue };
        if given.all(|(asked, _, last_word)| would_be_seen(facts, asked, last_word)) {
            let text = format!(
                "{} of q{} was over at {}, and its {word:?} item is nowhere",
                group.name, group.queue, call.end
            );
            return Err(violation("no last word", text));
        }
    }
    Ok(())
}

fn would_be_seen(facts: &Facts<'_>, asked: &Asked<'_>, LastWord { queue, made }: &LastWord) -> bool {
    let unseen = ItemFacts::new(made.clone(), *queue, asked.call);
    facts.is_there_at_the_end(*queue) && !may_have_ended(facts, &unseen)
}
