//! When a cron runs: what is written, and the moments it stands for.

use std::fmt;

use jiff::tz::TimeZone;

use super::{civil, expression};
use crate::time::{Span, Timestamp};

pub const SCHEDULE_BYTES_MAX: usize = 256;
pub const TIMEZONE_BYTES_MAX: usize = 64;
/// What is due more often is no schedule.
pub const EVERY_MIN: Span = Span::from_secs(1);

/// A schedule that was read.
#[derive(Clone, Debug)]
pub struct Schedule(When);

#[derive(Clone, Debug)]
enum When {
    /// So many spans after a moment.
    Every { from: Timestamp, span: Span },
    /// Whenever the clocks of a place show a time that the expression matches.
    Clock { expression: Box<croner::Cron>, zone: TimeZone },
}

/// Why a text is no schedule, or no time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// The field's name in the API.
    pub field: &'static str,
    /// Completes the sentence that begins with it: which part of the value is wrong, and what it may be.
    pub problem: String,
}

impl Schedule {
    /// `from` is what `@every` counts from. An expression that never matches is refused too.
    pub fn parse(text: &str, timezone: &str, from: Timestamp) -> Result<Self, ScheduleError> {
        let zone = civil::zone(timezone).ok_or_else(|| ScheduleError::zone(timezone))?;
        let when = match expression::read(text)? {
            expression::Read::Every(span) => When::Every { from, span },
            expression::Read::Clock(expression) => When::Clock { expression, zone },
        };
        let schedule = Self(when);
        if schedule.next_after(from).is_none() {
            return Err(ScheduleError::schedule(format!(
                "`{text}` never comes: no month it names has such a day"
            )));
        }
        Ok(schedule)
    }

    /// The first time after a moment.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            When::Every { from, span } => {
                let past = (moment - *from).0 / span.0;
                let next = if moment < *from { Some(0) } else { past.checked_add(1) };
                from.0.checked_add(next?.max(1).checked_mul(span.0)?).map(Timestamp)
            }
            When::Clock { expression, zone } => civil::next_after(expression, zone, moment),
        }
    }

    /// The last time before `end`, if one at or after `first`, itself a time of the schedule, is known to be.
    pub fn last_before(&self, end: Timestamp, first: Timestamp) -> Timestamp {
        // The next time after a moment never falls as the moment grows, so the last one can be halved down to.
        let (mut known, mut unknown) = (first, end);
        while unknown.0.saturating_sub(known.0) > 1 {
            let middle = Timestamp(known.0 + (unknown.0 - known.0) / 2);
            match self.next_after(middle) {
                Some(next) if next < end => known = next,
                Some(_) | None => unknown = middle,
            }
        }
        known
    }

    /// Every time after a moment.
    pub fn times_after(&self, moment: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next_after(moment), |last| self.next_after(*last))
    }
}

impl ScheduleError {
    pub(super) fn schedule(problem: String) -> Self {
        Self { field: "schedule", problem }
    }

    fn zone(name: &str) -> Self {
        let shown: String = name.chars().take(TIMEZONE_BYTES_MAX).collect();
        let problem =
            format!("must be a name of the IANA time zone database like Europe/Berlin, not `{shown}`");
        Self { field: "timezone", problem }
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.problem)
    }
}

impl std::error::Error for ScheduleError {}
