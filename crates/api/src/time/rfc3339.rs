//! RFC 3339 and nothing else: a library's parser takes far more, and what was once taken must be taken for ever.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, date};

use super::MICROS;

const EPOCH_DATE: Date = date(1970, 1, 1);
const EPOCH: DateTime = EPOCH_DATE.at(0, 0, 0, 0);
const SECONDS_OF_DAY: i64 = 86_400;
const DAY: i64 = SECONDS_OF_DAY * MICROS;

/// As far as the second. A `0` stands for any digit.
const CLOCK: &str = "0000-00-00T00:00:00";
const OFFSET: &str = "00:00";

/// Microseconds since 1970. What is finer is cut off.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (clock, rest) = text.split_at_checked(CLOCK.len())?;
    let (fraction, offset) = split_fraction(rest)?;
    let second = number(clock, 17, 2)?;
    let micros = minute(clock)? + second * MICROS + fraction - parse_offset(offset)?;
    let possible = match second {
        0..60 => true,
        // A leap second can only be the last one of a day, and then counts as the first one of the next.
        60 => micros.rem_euclid(DAY) < MICROS,
        _ => false,
    };
    possible.then_some(micros)
}

/// `micros` must be within `Time::MIN..=Time::MAX`. The digits are written here, not by jiff: each leased item shows two times, and
/// jiff's printer took a third of the time of encoding the item.
pub(super) fn print(micros: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (day, of_day) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let days = SignedDuration::from_secs(day * SECONDS_OF_DAY);
    let date = EPOCH_DATE.checked_add(days).map_err(|_| fmt::Error)?;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    put_digits(&mut text[0..4], i64::from(date.year()));
    put_digits(&mut text[5..7], i64::from(date.month()));
    put_digits(&mut text[8..10], i64::from(date.day()));
    let seconds = of_day / MICROS;
    put_digits(&mut text[11..13], seconds / 3600);
    put_digits(&mut text[14..16], seconds / 60 % 60);
    put_digits(&mut text[17..19], seconds % 60);
    put_digits(&mut text[20..26], of_day % MICROS);
    f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
}

/// `number` is not negative, and has no more digits than `place`.
fn put_digits(place: &mut [u8], mut number: i64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The beginning of the minute, as if it were UTC.
fn minute(clock: &str) -> Option<i64> {
    if !has_shape(clock, CLOCK) {
        return None;
    }
    let part = |at| i8::try_from(number(clock, at, 2)?).ok();
    let year = i16::try_from(number(clock, 0, 4)?).ok()?;
    let time = DateTime::new(year, part(5)?, part(8)?, part(11)?, part(14)?, 0, 0).ok()?;
    i64::try_from(time.duration_since(EPOCH).as_micros()).ok()
}

/// The fraction in microseconds, zero if there is none, and what comes after it.
fn split_fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(rest) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let (digits, rest) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let kept = &digits[..digits.len().min(6)];
    let micros: i64 = format!("{kept:0<6}").parse().ok()?;
    (!digits.is_empty()).then_some((micros, rest))
}

/// How far its clock is ahead of UTC.
fn parse_offset(offset: &str) -> Option<i64> {
    let (sign, ahead) = match offset.as_bytes().first()? {
        b'Z' | b'z' => return (offset.len() == 1).then_some(0),
        b'+' => (1, &offset[1..]),
        b'-' => (-1, &offset[1..]),
        _ => return None,
    };
    if !has_shape(ahead, OFFSET) {
        return None;
    }
    let (hours, minutes) = (number(ahead, 0, 2)?, number(ahead, 3, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60 * MICROS)
}

fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        mark => byte == mark,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

fn number(text: &str, at: usize, len: usize) -> Option<i64> {
    text.get(at..at + len)?.parse().ok()
}
