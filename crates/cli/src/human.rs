//! Numbers, lengths and moments as people like to read them.

use std::time::Duration;

use unicode_width::UnicodeWidthChar;
use windlass_api::Time;

/// `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 item`, `2,000 items`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// `512 B`, `1.5 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Its two largest units, and no more: `250ms`, `12s`, `4h 12m`, `3d`.
pub(crate) fn length(span: Duration) -> String {
    let seconds = span.as_secs();
    if seconds == 0 {
        return format!("{}ms", span.as_millis());
    }
    let units = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m")];
    let units = units.into_iter().chain([(seconds % 60, "s")]);
    let parts = units.skip_while(|(number, _)| *number == 0).take(2).filter(|(number, _)| *number > 0);
    parts.map(|(number, unit)| format!("{number}{unit}")).collect::<Vec<_>>().join(" ")
}

/// `5m ago`, `in 30s`, `now`.
pub(crate) fn relative(time: Time, now: Time) -> String {
    let distance = Duration::from_micros(time.as_micros().abs_diff(now.as_micros()));
    if distance < Duration::from_secs(1) {
        return "now".into();
    }
    if time > now { format!("in {}", length(distance)) } else { format!("{} ago", length(distance)) }
}

/// `2026-01-31 12:00:00 UTC (5m ago)`.
pub(crate) fn moment(time: Time, now: Time) -> String {
    let exact = time.to_string();
    let seconds = exact.split_once('.').map_or(exact.as_str(), |(seconds, _)| seconds);
    format!("{} UTC ({})", seconds.replace('T', " "), relative(time, now))
}

/// Safe for a terminal, on one line, at most `most` columns wide before the `…`.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let (mut shown, mut taken) = (String::new(), 0_usize);
    // Characters without a width are bounded too.
    let letters_max = most.saturating_mul(4);
    for (index, letter) in text.chars().enumerate() {
        taken += columns(letter);
        if taken > most || index >= letters_max {
            shown.push('…');
            break;
        }
        if is_unsafe(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// How many columns of a terminal a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(letter: char) -> usize {
    letter.width().unwrap_or_default()
}

/// Whether a terminal may do something else with the character than to show it.
pub(crate) fn is_unsafe(letter: char) -> bool {
    letter.is_control() || turns_text(letter) || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// Makes what comes after it run the other way, so that a text reads as what it is not.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
