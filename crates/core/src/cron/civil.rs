//! From what clocks show to moments. Clocks that are put forward skip some times and clocks that are put back show some
//! twice: a time that does not exist comes when the gap ends, one that exists twice comes the first time. So the moments
//! never fall as the times on the clock grow, and several times in one gap are one moment.

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp as Moment};

use crate::time::Timestamp;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Times that have come already are passed over, up to so many: no clock was ever put back by more than a day.
const PASSED_OVER_MAX: usize = 86_400;

pub(super) fn zone(name: &str) -> Option<TimeZone> {
    // From the binary, whatever the machine has: see Cargo.toml.
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    (!zone.is_unknown()).then_some(zone)
}

/// Whether two names stand for the same zone: the database does not tell large letters from small ones.
pub(super) fn is_same_zone(one: &str, other: &str) -> bool {
    one == other || zone(one).is_some_and(|one| zone(other) == Some(one))
}

pub(super) fn next_after(expression: &Cron, zone: &TimeZone, moment: Timestamp) -> Option<Timestamp> {
    let after = Moment::from_microsecond(i64::try_from(moment.0).ok()?).ok()?;
    let mut time = start(zone, after)?;
    for _ in 0..PASSED_OVER_MAX {
        time = expression.find_next_occurrence(&time, false).ok()?;
        let next = moment_of(zone, time)?;
        if next > after {
            return u64::try_from(next.as_microsecond()).ok().map(Timestamp);
        }
    }
    None
}

/// What the clock shows, in whole seconds: the search begins with the second after it.
fn start(zone: &TimeZone, after: Moment) -> Option<DateTime> {
    let offset = zone.to_offset(after);
    let shown = offset.to_datetime(after).with().subsec_nanosecond(0).build().ok()?;
    match zone.to_ambiguous_timestamp(shown).offset() {
        // All that it shows for the second time has come already.
        AmbiguousOffset::Fold { before, after: later } if offset == later => {
            before.to_datetime(last_change(zone, after)?).checked_sub(SECOND).ok()
        }
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => {
            Some(shown)
        }
    }
}

fn moment_of(zone: &TimeZone, time: DateTime) -> Option<Moment> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { before, .. } => last_change(zone, before.to_timestamp(time).ok()?),
    }
}

/// When the clocks were changed last, at a moment or before it.
fn last_change(zone: &TimeZone, at: Moment) -> Option<Moment> {
    let mut changes = zone.preceding(at.checked_add(SECOND).ok()?).map(|change| change.timestamp());
    // Some changes are but of the name.
    changes.find(|change| {
        let before = change.checked_sub(SECOND).map(|before| zone.to_offset(before));
        before.is_ok_and(|before| before != zone.to_offset(*change))
    })
}
