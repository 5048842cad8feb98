//! Schedules as they are written: five fields, six with seconds first, and words for the common ones.

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronPattern};

use super::schedule::{EVERY_MIN, SCHEDULE_BYTES_MAX, ScheduleError};
use crate::time::Span;

pub(super) enum Read {
    Every(Span),
    Clock(Box<Cron>),
}

const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What a field is called, and what it may hold besides `*`, lists, ranges and steps.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L for the last, 15W for the weekday nearest to the 15th"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day of the week", "0 to 7 or SUN to SAT, 5L for the last Friday, 1#2 for the second Monday"),
];

pub(super) fn read(text: &str) -> Result<Read, ScheduleError> {
    if text.len() > SCHEDULE_BYTES_MAX {
        return Err(ScheduleError::schedule(format!("must be at most {SCHEDULE_BYTES_MAX} bytes")));
    }
    let text = text.trim();
    let Some(word) = text.strip_prefix('@') else { return clock(text) };
    match word.split_once(char::is_whitespace) {
        Some(("every", span)) => every(span.trim()),
        Some(_) | None => {
            let (_, fields) = WORDS.iter().find(|(known, _)| *known == text).ok_or_else(|| {
                let known: Vec<&str> = WORDS.iter().map(|(known, _)| *known).collect();
                ScheduleError::schedule(format!(
                    "has the word `{text}`; there are {} and `@every 90s`",
                    known.join(", ")
                ))
            })?;
            clock(fields)
        }
    }
}

/// Whether two texts are read as the same fields. Texts that differ only in `*` for a day and all days by number are not the
/// same: the parser treats such days differently. Texts that cannot be read are compared by their letters.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    match (read(one), read(other)) {
        (Ok(Read::Every(one)), Ok(Read::Every(other))) => one == other,
        (Ok(Read::Clock(one)), Ok(Read::Clock(other))) => pattern_of(&one) == pattern_of(&other),
        (Ok(Read::Every(_)), Ok(Read::Clock(_))) | (Ok(Read::Clock(_)), Ok(Read::Every(_))) => false,
        (Err(_), _) | (_, Err(_)) => one == other,
    }
}

/// The times that an expression matches, without `step` and `from_wildcard`, which the parser keeps to describe how the fields
/// were written: `*/30` matches the same minutes as `0,30`.
fn pattern_of(expression: &Cron) -> CronPattern {
    let mut pattern = expression.pattern.clone();
    let CronPattern { seconds, minutes, hours, days, months, days_of_week, .. } = &mut pattern;
    for field in [seconds, minutes, hours, days, months, days_of_week] {
        (field.step, field.from_wildcard) = (1, false);
    }
    pattern
}

fn clock(text: &str) -> Result<Read, ScheduleError> {
    let given: Vec<&str> = text.split_whitespace().collect();
    if !matches!(given.len(), 5 | 6) {
        return Err(ScheduleError::schedule(format!(
            "must have five fields (minute, hour, day of the month, month, day of the week), or six with the second \
             first, or be a word like @hourly or `@every 90s`; `{text}` has {}",
            given.len()
        )));
    }
    // The parser knows characters that are more than one byte, and nothing good comes of them.
    let parsed = if text.is_ascii() { parser().parse(text).ok() } else { None };
    parsed.map(|parsed| Read::Clock(Box::new(parsed))).ok_or_else(|| wrong_field(&given))
}

fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build()
}

/// Says which field is wrong, by trying each alone.
fn wrong_field(given: &[&str]) -> ScheduleError {
    let named = &FIELDS[FIELDS.len() - given.len()..];
    for (index, field) in given.iter().enumerate() {
        let alone: Vec<&str> =
            (0..given.len()).map(|other| if other == index { field } else { "*" }).collect();
        if !field.is_ascii() || parser().parse(&alone.join(" ")).is_err() {
            let (name, allowed) = named[index];
            return ScheduleError::schedule(format!("has `{field}` as {name}, which must be {allowed}"));
        }
    }
    ScheduleError::schedule(format!("cannot be read: `{}`", given.join(" ")))
}

fn every(text: &str) -> Result<Read, ScheduleError> {
    match span(text) {
        Some(span) if span >= EVERY_MIN => Ok(Read::Every(span)),
        Some(_) => Err(ScheduleError::schedule(format!("must be every 1s or more, not `@every {text}`"))),
        None => Err(ScheduleError::schedule(format!(
            "must be like `@every 30s`, `@every 5m`, `@every 1h30m` or `@every 7d`, not `@every {text}`"
        ))),
    }
}

/// Largest first, as they must be written.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];
/// A hundred years.
const SPAN_MAX: u64 = 36_500 * 86_400_000_000;

fn span(text: &str) -> Option<Span> {
    let mut units = UNITS.iter();
    let (mut rest, mut micros) = (text, 0u64);
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
        let (unit, tail) = tail.split_at(tail.bytes().take_while(u8::is_ascii_alphabetic).count());
        // The units are used up as they are found: each once, and larger ones first.
        let (_, factor) = units.find(|(known, _)| *known == unit)?;
        micros = number.parse::<u64>().ok()?.checked_mul(*factor)?.checked_add(micros)?;
        rest = tail;
    }
    (1..=SPAN_MAX).contains(&micros).then_some(Span(micros))
}
