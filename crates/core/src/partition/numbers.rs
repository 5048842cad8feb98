//! Numbers of items, places at the tail, permits, and moves. Each is the larger of "one more than the last" and the time in
//! microseconds: so none is issued again with another meaning, even where the last ones issued were lost.

use super::{Output, Partition};
use crate::id::{ItemNumber, NUMBER_MAX, Permit};
use crate::item::MoveNumber;
use crate::mutant::{self, Mutant};
use crate::refusal::{Limit, Refusal};
use crate::row::Numbers;
use crate::time::Timestamp;

impl Partition {
    /// Before items are made: whether there are numbers for them. There are until the year 2255.
    pub(super) fn check_numbers_left(&self, now: Timestamp, items: usize) -> Result<(), Refusal> {
        let last = next(self.numbers.item, now).and_then(|first| first.checked_add(items as u64));
        match last {
            Some(last) if last <= NUMBER_MAX => Ok(()),
            Some(_) | None => Err(Refusal::AtLimit { limit: Limit::ItemNumbers, max: NUMBER_MAX as usize }),
        }
    }

    pub(super) fn issue_number(&self, now: Timestamp, out: &mut Output) -> ItemNumber {
        let numbers = self.numbers_in(out);
        if mutant::active(Mutant::ReuseNumber) {
            numbers.item = self.items.last().map_or(0, |(number, _)| number.0) + 1;
        } else {
            numbers.item = next(numbers.item, now).expect("checked before the first was issued");
        }
        ItemNumber(numbers.item)
    }

    /// A place behind everything that waits now, from the numbers of items: so that a new item, whose place is its
    /// number, stands behind it in turn. Its own place when there are no more.
    pub(super) fn issue_tail_place(&self, now: Timestamp, own: u64, out: &mut Output) -> u64 {
        let numbers = self.numbers_in(out);
        let Some(place) = next(numbers.item, now) else { return own };
        numbers.item = place;
        place
    }

    /// None when there are no more.
    pub(super) fn issue_permit(&self, now: Timestamp, out: &mut Output) -> Option<Permit> {
        let last = out.numbers.as_ref().unwrap_or(&self.numbers).permit;
        let permit = next(last, now)?;
        self.numbers_in(out).permit = permit;
        Some(Permit(permit))
    }

    /// One for all targets: so that it only grows for each of them. None when there are no more.
    pub(super) fn issue_move(&self, now: Timestamp, out: &mut Output) -> Option<MoveNumber> {
        let numbers = self.numbers_in(out);
        numbers.moved = MoveNumber(next(numbers.moved.0, now)?);
        Some(numbers.moved)
    }

    fn numbers_in<'a>(&self, out: &'a mut Output) -> &'a mut Numbers {
        out.numbers.get_or_insert_with(|| self.numbers.clone())
    }
}

/// The number after `last`; none when there are no more.
pub(crate) fn next(last: u64, now: Timestamp) -> Option<u64> {
    // A clock that shows a time beyond all numbers is of no use here; counting on still is.
    let clock = if now.0 <= NUMBER_MAX { now.0 } else { 0 };
    let number = clock.max(last.checked_add(1)?);
    (number <= NUMBER_MAX).then_some(number)
}
