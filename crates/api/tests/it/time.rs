//! Moments and spans: texts and protobuf, there and back.

use jiff::tz::{Offset, TimeZone};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::prost_types::{Duration, Timestamp};
use windlass_api::time::TimeError;
use windlass_api::{Span, Time};

fn any_time() -> impl Strategy<Value = Time> {
    (Time::MIN.as_micros()..=Time::MAX.as_micros()).prop_map(Time::from_micros)
}

fn any_span() -> impl Strategy<Value = Span> {
    (0..=Span::MAX.as_micros()).prop_map(Span::from_micros)
}

/// Made of what times and spans are made of, so that it comes close to being one.
fn almost() -> impl Strategy<Value = String> {
    "[0-9TtZz:. +dhmsu\\[\\]üa-]{0,40}"
}

proptest! {
    #[test]
    fn a_time_survives_as_text(time in any_time()) {
        let text = time.to_string();
        prop_assert_eq!(text.parse(), Ok(time));
        prop_assert_eq!(text.len(), "2026-01-31T12:00:00.000000Z".len());
    }

    #[test]
    fn a_time_survives_in_protobuf(time in any_time()) {
        let bytes = time.encode_to_vec();
        prop_assert_eq!(time.encoded_len(), bytes.len());
        prop_assert_eq!(Time::decode(bytes.as_slice()), Ok(time));
        let known = Timestamp::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(known.seconds * 1_000_000 + i64::from(known.nanos) / 1000, time.as_micros());
        prop_assert_eq!(known.encode_to_vec(), bytes);
    }

    #[test]
    fn a_time_at_any_offset_is_told_in_utc(
        micros in 0..253_000_000_000_000_000_i64,
        minutes in -1439..=1439_i32,
    ) {
        let moment = jiff::Timestamp::from_microsecond(micros).unwrap();
        let there = TimeZone::fixed(Offset::from_seconds(minutes * 60).unwrap());
        let clock = moment.to_zoned(there).datetime();
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
        let time: Time = format!("{clock:.6}{sign}{hours:02}:{rest:02}").parse().unwrap();
        prop_assert_eq!(time.as_micros(), micros);
        prop_assert_eq!(time.to_string(), format!("{moment:.6}"));
    }

    #[test]
    fn a_span_survives_as_text(span in any_span()) {
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn a_span_survives_in_protobuf(span in any_span()) {
        let bytes = span.encode_to_vec();
        prop_assert_eq!(span.encoded_len(), bytes.len());
        prop_assert_eq!(Span::decode(bytes.as_slice()), Ok(span));
        let known = Duration::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(known.seconds as u64 * 1_000_000 + known.nanos as u64 / 1000, span.as_micros());
        prop_assert_eq!(known.encode_to_vec(), bytes);
    }

    #[test]
    fn whatever_is_read_as_a_time_or_a_span_can_be_written_and_read_again(text in almost()) {
        if let Ok(time) = text.parse::<Time>() {
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
        if let Ok(span) = text.parse::<Span>() {
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in any::<String>()) {
        let _read = (text.parse::<Time>(), text.parse::<Span>());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in any::<Vec<u8>>()) {
        let _read = (Time::decode(bytes.as_slice()), Span::decode(bytes.as_slice()));
    }

    #[test]
    fn any_moment_can_be_printed(micros in any::<i64>()) {
        let printed = Time::from_micros(micros).to_string();
        prop_assert!(printed.parse::<Time>().is_ok(), "{}", printed);
    }

    #[test]
    fn seconds_and_nanoseconds_may_come_in_any_order(time in any_time()) {
        let known = Timestamp::decode(time.encode_to_vec().as_slice()).unwrap();
        let (seconds, nanos) = (Timestamp { nanos: 0, ..known }, Timestamp { seconds: 0, ..known });
        let bytes = [nanos.encode_to_vec(), seconds.encode_to_vec()].concat();
        prop_assert_eq!(Time::decode(bytes.as_slice()), Ok(time));
    }
}

fn micros(text: &str) -> Result<u64, TimeError> {
    text.parse().map(Span::as_micros)
}

#[test]
fn spans_of_the_contract_are_understood() {
    assert_eq!(micros("250ms"), Ok(250_000));
    assert_eq!(micros("30s"), Ok(30_000_000));
    assert_eq!(micros("5m"), Ok(300_000_000));
    assert_eq!(micros("1h30m"), Ok(5_400_000_000));
    assert_eq!(micros("7d"), Ok(604_800_000_000));
    assert_eq!(micros("0s"), Ok(0));
    assert_eq!(micros("1d2h3m4s5ms6us"), Ok(93_784_005_006));
    assert_eq!(micros("36500d"), Ok(Span::MAX.as_micros()));
}

#[test]
fn spans_are_answered_in_the_same_form() {
    for text in ["250ms", "30s", "5m", "1h30m", "7d", "0s", "1d2h3m4s5ms6us", "36500d"] {
        assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
    }
    assert_eq!("48h".parse::<Span>().unwrap().to_string(), "2d");
    assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
}

#[test]
fn what_is_no_span_is_refused() {
    let wrong = [
        "", "5", "m", "1m1m", "1s1m", "-5s", "+5s", "1.5s", " 5s", "5 s", "5s ", "5S", "5min", "5µs", "s5",
        "5s5", "1h 30m", "PT5S", "٣s",
    ];
    for text in wrong {
        assert_eq!(micros(text), Err(TimeError::NotASpan), "{text:?}");
    }
    let long = ["99999999999999999999d", "36501d", "36500d1us", "18446744073709551615s", "213503983d"];
    for text in long {
        assert_eq!(micros(text), Err(TimeError::TooLong), "{text:?}");
    }
}

fn utc(text: &str) -> Result<String, TimeError> {
    text.parse::<Time>().map(|time| time.to_string())
}

#[test]
fn times_are_answered_in_utc_with_six_digits() {
    let same = |text: &str, told: &str| assert_eq!(utc(text).as_deref(), Ok(told), "{text}");
    same("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z");
    same("2026-01-31t12:00:00z", "2026-01-31T12:00:00.000000Z");
    same("2026-01-31 12:00:00Z", "2026-01-31T12:00:00.000000Z");
    same("2026-01-31T13:00:00.5+01:00", "2026-01-31T12:00:00.500000Z");
    same("2026-01-31T06:30:00-05:30", "2026-01-31T12:00:00.000000Z");
    same("2026-01-31T12:00:00-00:00", "2026-01-31T12:00:00.000000Z");
    same("2026-03-01T00:30:00+23:59", "2026-02-28T00:31:00.000000Z");
    same("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z");
    same("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z");
    same("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z");
    same("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z");
    same("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z");
}

#[test]
fn what_is_finer_than_a_microsecond_is_cut_off() {
    assert_eq!(utc("2026-01-31T12:00:00.1234567Z").as_deref(), Ok("2026-01-31T12:00:00.123456Z"));
    assert_eq!(utc("2026-01-31T12:00:00.999999999999999Z").as_deref(), Ok("2026-01-31T12:00:00.999999Z"));
    assert_eq!(utc("1960-01-31T12:00:00.0000009Z").as_deref(), Ok("1960-01-31T12:00:00.000000Z"));
}

/// Unix time does not count it. Nothing is due before the time that was asked for.
#[test]
fn a_leap_second_counts_as_the_next_second_and_is_taken_only_where_one_can_be() {
    assert_eq!(utc("2016-12-31T23:59:60Z").as_deref(), Ok("2017-01-01T00:00:00.000000Z"));
    assert_eq!(utc("2016-12-31T15:59:60.25-08:00").as_deref(), Ok("2017-01-01T00:00:00.250000Z"));
    for text in ["2016-12-31T12:30:60Z", "2016-12-31T23:59:60+01:00", "2016-12-31T23:59:61Z"] {
        assert_eq!(utc(text), Err(TimeError::NotATime), "{text}");
    }
}

#[test]
fn what_is_not_rfc_3339_is_no_time() {
    let wrong = [
        "",
        "now",
        "1769860800",
        "2026-01-31",
        "12:00:00Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00Z",
        "2026-01-31T12Z",
        "2026-01-31T120000Z",
        "20260131T120000Z",
        "2026-1-31T12:00:00Z",
        "2026-W05-6T12:00:00Z",
        "2026-031T12:00:00Z",
        "+002026-01-31T12:00:00Z",
        "-2026-01-31T12:00:00Z",
        "12026-01-31T12:00:00Z",
        "2026-01-31_12:00:00Z",
        "2026-01-31  12:00:00Z",
        "2026-01-31T12:00:00 Z",
        " 2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00.5",
        "2026-01-31T12:00:00.-5Z",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+1:00",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+01:60",
        "2026-01-31T12:00:00+01:00:00",
        "2026-01-31T12:00:00+01:00[Europe/Berlin]",
        "2026-01-31T12:00:00Z[UTC]",
        "2026-01-31T12:00:00[Europe/Berlin]",
        "2026-01-31T12:00:00Z[u-ca=gregory]",
        "2026-01-31T12:00:00−01:00",
        "2026-00-31T12:00:00Z",
        "2026-13-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-32T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:+5Z",
        "٢026-01-31T12:00:00Z",
        "2026-01-31T12:00:0üZ",
    ];
    for text in wrong {
        assert_eq!(utc(text), Err(TimeError::NotATime), "{text:?}");
    }
}

#[test]
fn every_sign_of_a_time_is_looked_at() {
    let good = "2026-01-31T12:00:00.5+01:00";
    for (at, sign) in good.char_indices() {
        let others: &[char] = match sign {
            'T' => &['T', 't', ' '],
            '+' => &['+', '-'],
            _ if sign.is_ascii_digit() => &['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'],
            _ => &[sign],
        };
        for wrong in (' '..='~').filter(|sign| !others.contains(sign)) {
            let mut text = good.to_owned();
            text.replace_range(at..=at, wrong.encode_utf8(&mut [0; 4]));
            assert_eq!(utc(&text), Err(TimeError::NotATime), "{text}");
        }
    }
}

#[test]
fn a_time_that_could_not_be_answered_is_out_of_range() {
    for text in ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"] {
        assert_eq!(utc(text), Err(TimeError::OutOfRange), "{text:?}");
    }
}

#[test]
fn what_is_no_text_is_refused_with_an_example() {
    let refusal = serde_json::from_str::<Span>("5").unwrap_err().to_string();
    assert!(refusal.contains("expected a duration like 250ms"), "{refusal}");
    let refusal = serde_json::from_str::<Time>("1769860800").unwrap_err().to_string();
    assert!(refusal.contains("expected a time like 2026-01-31T12:00:00Z"), "{refusal}");
}

#[test]
fn protobuf_that_makes_no_sense_is_refused() {
    let time = |seconds, nanos| Time::decode(Timestamp { seconds, nanos }.encode_to_vec().as_slice());
    let span = |seconds, nanos| Span::decode(Duration { seconds, nanos }.encode_to_vec().as_slice());
    for (seconds, nanos) in [(0, -1), (1, 1_000_000_000), (0, i32::MIN), (i64::MAX, 0), (i64::MIN, 0)] {
        assert!(time(seconds, nanos).is_err(), "{seconds} s {nanos} ns is no time");
        assert!(span(seconds, nanos).is_err(), "{seconds} s {nanos} ns is no span");
    }
    assert!(span(-1, 0).is_err(), "a span has no direction");
    assert!(span(36_500 * 86_400, 1000).is_err(), "a span has an end");
    assert_eq!(span(36_500 * 86_400, 0), Ok(Span::MAX));
    assert_eq!(time(Time::MIN.as_micros() / 1_000_000, 0), Ok(Time::MIN));
    assert!(time(Time::MIN.as_micros() / 1_000_000 - 1, 0).is_err());
}
