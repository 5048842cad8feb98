//! A member says whose it is, for as long as it is seen. What is no member says nothing.

use super::super::facts::{Facts, violation};
use crate::history::Violation;

pub(in crate::check) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    for item in &facts.items {
        let group = item.made.group.as_ref();
        let granted = item.grants.iter().map(|grant| grant.given.group.as_ref());
        let shown = item.shown().map(|(_, view)| view.group.as_ref());
        if let Some(other) = granted.chain(shown).find(|told| *told != group) {
            let text = format!("item {} of {group:?} is shown as one of {other:?}", item.made.serial);
            return Err(violation("member", text));
        }
    }
    Ok(())
}
