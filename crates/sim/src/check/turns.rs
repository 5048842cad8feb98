//! A worker's turn does not lease an item that it settles.

use super::facts::{Facts, Granting, ItemFacts, violation};
use crate::history::Violation;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    facts.items.iter().try_for_each(check_item)
}

fn check_item(item: &ItemFacts<'_>) -> Result<(), Violation> {
    let settled_by = |grant: &Granting<'_>| {
        let mut settled = item.verdicts.iter().filter(|judged| judged.verdict.is_ok());
        grant.call.turn.is_some() && settled.any(|judged| judged.call.turn == grant.call.turn)
    };
    match item.grants.iter().find(|grant| settled_by(grant)) {
        Some(grant) => {
            let serial = item.made.serial;
            let text = format!("the turn at {} settled item {serial} and leased it", grant.call.begin);
            Err(violation("turn", text))
        }
        None => Ok(()),
    }
}
