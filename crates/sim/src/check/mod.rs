//! The history checker: was there anything in this run that must never be?
//!
//! It knows nothing of the engine's inside. It goes by what callers were told, when, and what was left at the end.
//! Every rule is sound: it complains only where no run of a correct engine could have given these answers. Where a
//! call's effect is unknown, everything it may have done is allowed for.

mod addresses;
mod attempt_log;
mod attempts;
mod chains;
mod changes;
mod closes;
mod counts;
mod crons;
mod damage;
mod ends;
mod expiry;
mod facts;
mod grants;
mod groups;
mod inputs;
mod live;
mod looks;
mod lost;
mod many;
mod moves;
mod order;
mod payload;
mod permits;
mod repeats;
mod reruns;
mod rules;
mod service;
mod stalls;
mod streams;
mod suffix;
mod suspends;
mod time;
mod turns;
mod unique;
mod waits;
mod walks;

pub use self::damage::excuses;
pub(crate) use self::damage::is_damaged;
pub use self::facts::{Facts, Granting, ItemFacts, Judgement, Maker, Verb};
pub use self::groups::GroupFacts;
pub use self::repeats::merged;
pub(crate) use self::stalls::{answered_meanwhile, closed_meanwhile};
pub(crate) use self::walks::{Seen, Walk};

use crate::history::{History, Violation};

type Rule = fn(&Facts<'_>) -> Result<(), Violation>;

/// Hold however much was lost.
const ALWAYS: [Rule; 14] = [
    unique::check,
    grants::check,
    time::check,
    expiry::check,
    turns::check,
    counts::check,
    service::check,
    stalls::check,
    ends::check_undone,
    suffix::check,
    groups::check_held,
    groups::check_members,
    groups::check_each_view,
    damage::check_unfounded,
];

/// Hold as long as what was acknowledged holds.
const LOSSLESS: [Rule; 29] = [
    payload::check,
    changes::check,
    reruns::check,
    chains::check,
    many::check,
    walks::check,
    attempt_log::check,
    permits::check,
    addresses::check,
    ends::check,
    attempts::check,
    looks::check,
    order::check,
    moves::check,
    lost::check,
    waits::check,
    streams::check,
    closes::check,
    suspends::check,
    inputs::check,
    live::check,
    counts::check_readout,
    rules::check,
    groups::check_views,
    groups::check_names,
    groups::check_cancelled,
    groups::check_last_words,
    groups::check_counts,
    crons::check,
];

pub fn check(history: &History) -> Result<(), Violation> {
    let history = &many::spelled_out(&merged(history)?);
    let facts = Facts::gather(history)?;
    if damage::is_told(history) {
        return damage::ROTTEN.iter().try_for_each(|rule| rule(&facts));
    }
    for rule in ALWAYS {
        rule(&facts)?;
    }
    if history.is_lossless() {
        for rule in LOSSLESS {
            rule(&facts)?;
        }
    }
    Ok(())
}
