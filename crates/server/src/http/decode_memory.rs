//! What decoding a request takes, counted by an allocator: at its peak no more than a small multiple of the body and a
//! constant, whatever the body is; and in the end no more than is counted among the bytes in flight, and not much less.

use std::fmt::Write;

use allocation_counter::measure;
use proptest::prelude::*;
use prost::encoding::{WireType, encode_key, encode_varint};
use windlass_api::call::{EachCall, for_each_call};
use windlass_api::events::{EmitRequest, NewEvent};
use windlass_api::items::{CompleteRequest, Completion, NewItem, ProduceRequest};
use windlass_api::payload::Payload;
use windlass_api::shape::{Count, Field, Shape, Shaped};
use windlass_api::{Call, Time};

use super::wire::{Decoded, Encoding};

/// As `docs/operate/memory.md` says.
const PEAK_TIMES_BODY: usize = 4;
const PEAK_BYTES: usize = 8 << 20;
/// Beside what is counted: the first elements of a list.
const HELD_BYTES: usize = 8 << 10;
/// The weight of a request is at most so many times what the request holds: a list is counted as if it had just doubled.
const WEIGHT_TIMES_HELD: usize = 2;

/// Whether the body was taken.
fn hold<C: Call>(encoding: Encoding, body: &[u8]) -> bool {
    let mut decoded = None;
    let taken = measure(|| decoded = Some(encoding.decode::<C>(body)));
    let (peak, held) = (taken.bytes_max as usize, usize::try_from(taken.bytes_current).unwrap_or(0));
    let case = format!("{} in {encoding:?}, {} bytes", C::NAME, body.len());
    assert!(peak <= PEAK_TIMES_BODY * body.len() + PEAK_BYTES, "{case}: {peak} at the peak");
    match decoded {
        Some(Ok(Decoded { weight, .. })) => {
            assert!(held <= body.len() + weight + HELD_BYTES, "{case}: {held} are held, {weight} counted");
            assert!(weight <= WEIGHT_TIMES_HELD * held, "{case}: {weight} are counted, {held} held");
            true
        }
        Some(Err(_)) | None => false,
    }
}

/// How often fields come in a body.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    elements: usize,
    headers: usize,
    /// For each message that may come once.
    messages: usize,
    text_bytes: usize,
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let elements = prop_oneof![0..4_usize, 400..520_usize, 990..1010_usize, 5000..5001_usize];
    let headers = prop_oneof![0..4_usize, 6..13_usize, 31..34_usize, 1000..1001_usize];
    let text_bytes = prop_oneof![Just(0_usize), 1..40_usize];
    (elements, headers, prop_oneof![9 => Just(1), 1 => Just(2)], text_bytes).prop_map(
        |(elements, headers, messages, text_bytes)| Crowd {
            elements,
            headers: if elements > 1010 { headers.min(7) } else { headers },
            messages,
            text_bytes,
        },
    )
}

impl Crowd {
    fn times(self, count: Count) -> usize {
        match count {
            Count::One => self.messages,
            Count::List => self.elements,
            Count::Headers => self.headers,
        }
    }

    fn text(self, number: usize) -> String {
        format!("{number:0width$x}", width = self.text_bytes)
    }

    fn protobuf(self, shape: &Shape) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in shape.fields.unwrap_or_default() {
            for number in 0..self.times(field.count) {
                let value = match (field.count, field.shape.fields) {
                    (Count::Headers, _) => {
                        [b"\x0a".as_slice(), &prefixed(self.text(number).as_bytes())].concat()
                    }
                    (Count::One | Count::List, Some(_)) => self.protobuf(field.shape),
                    (Count::One | Count::List, None) => self.text(number).into_bytes(),
                };
                encode_key(field.tag, WireType::LengthDelimited, &mut bytes);
                bytes.extend(prefixed(&value));
            }
        }
        bytes
    }

    fn json(self, shape: &Shape) -> String {
        let fields = shape.fields.unwrap_or_default().iter().filter_map(|field| self.json_field(field));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }

    /// Times and durations are texts in JSON, and take nothing.
    fn json_field(self, field: &Field) -> Option<String> {
        let numbers = 0..self.times(field.count);
        let text = |number| format!("{:?}", self.text(number));
        let value = match (field.count, field.shape.fields) {
            (Count::Headers, _) => object(numbers.map(|number| format!("{}:\"\"", text(number)))),
            (Count::List, None) => list(numbers.map(text)),
            (Count::List, Some(_)) => list(numbers.map(|_| self.json(field.shape))),
            // `Kinds` is a plain list in JSON.
            (Count::One, Some([Field { count: Count::List, .. }])) => list((0..self.elements).map(text)),
            // `Headers` of an update are a plain object in JSON.
            (Count::One, Some([headers @ Field { count: Count::Headers, .. }])) => {
                object((0..self.times(headers.count)).map(|number| format!("{}:\"\"", text(number))))
            }
            (Count::One, Some([_, ..])) => self.json(field.shape),
            (Count::One, Some([]) | None) => return None,
        };
        Some(format!("{:?}:{value}", field.name))
    }
}

fn prefixed(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(value.len() as u64, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}

fn object(members: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

struct HoldAll {
    crowd: Crowd,
    taken: usize,
}

impl EachCall for HoldAll {
    fn visit<C: Call>(&mut self) {
        self.taken += usize::from(hold::<C>(Encoding::Protobuf, &self.crowd.protobuf(&C::SHAPE)));
        self.taken += usize::from(hold::<C>(Encoding::Json, self.crowd.json(&C::SHAPE).as_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn decoding_any_request_is_bounded_by_its_body(crowd in crowd()) {
        for_each_call(&mut HoldAll { crowd, taken: 0 });
    }
}

/// A list that has just doubled has no room to spare for headers of one letter, for which a decoder takes more than a letter.
#[test]
fn headers_of_one_letter_are_counted_as_what_they_hold() {
    for headers in 1..=32 {
        let crowd = Crowd { elements: 513, headers, messages: 1, text_bytes: 0 };
        assert!(hold::<ProduceRequest>(Encoding::Protobuf, &crowd.protobuf(&ProduceRequest::SHAPE)));
        assert!(hold::<ProduceRequest>(Encoding::Json, crowd.json(&ProduceRequest::SHAPE).as_bytes()));
    }
}

#[test]
fn the_largest_crowd_that_is_allowed_is_taken_in_both_encodings() {
    let crowd = Crowd { elements: 1000, headers: 32, messages: 1, text_bytes: 1 };
    assert!(hold::<ProduceRequest>(Encoding::Protobuf, &crowd.protobuf(&ProduceRequest::SHAPE)));
    assert!(hold::<ProduceRequest>(Encoding::Json, crowd.json(&ProduceRequest::SHAPE).as_bytes()));
    let mut all = HoldAll { crowd, taken: 0 };
    for_each_call(&mut all);
    let mut calls = Counter(0);
    for_each_call(&mut calls);
    assert_eq!(all.taken, 2 * calls.0, "of every call");
}

struct Counter(usize);

impl EachCall for Counter {
    fn visit<C: Call>(&mut self) {
        self.0 += 1;
    }
}

#[test]
fn a_field_that_is_sent_over_and_over_is_held_once() {
    const TIMES: usize = 300_000;
    // `queue`, and field 30, which nobody knows, both as empty texts; and the same within an item.
    let (queue, unknown) = ([0x0a, 0x01, b'q'].repeat(TIMES), [0xf2, 0x01, 0x00].repeat(TIMES));
    let item = [vec![0x1a], prefixed(&[0x0a, 0x01, b'1'].repeat(TIMES))].concat();
    for body in [queue, unknown, item] {
        assert!(hold::<ProduceRequest>(Encoding::Protobuf, &body), "protobuf allows it");
    }
    let body = format!("{{{}}}", vec![r#""queue":"""#; TIMES].join(","));
    assert!(!hold::<ProduceRequest>(Encoding::Json, body.as_bytes()), "JSON does not");
}

#[test]
fn nothing_that_follows_a_group_is_taken_unseen() {
    let crowd = Crowd { elements: 500_000, headers: 0, messages: 1, text_bytes: 0 };
    let hidden = [vec![0xfb, 0x01, 0xfc, 0x01], crowd.protobuf(&ProduceRequest::SHAPE)].concat();
    assert!(!hold::<ProduceRequest>(Encoding::Protobuf, &hidden));
}

#[test]
fn large_texts_take_little_more_than_their_letters() {
    const BYTES: usize = 4 << 20;
    let mut escaped = String::from(r#"{"queue":"q","items":[{"utf8":""#);
    while escaped.len() < BYTES {
        write!(escaped, r"\n{}", escaped.len()).expect("a string takes all");
    }
    escaped.push_str(r#""}]}"#);
    assert!(hold::<ProduceRequest>(Encoding::Json, escaped.as_bytes()));
    let texts = [
        format!(r#"{{"items":[{{"bytes":"{}"}}]}}"#, "AAAA".repeat(BYTES / 4)),
        format!(r#"{{"items":[{{"json":[{}0]}}]}}"#, "0,".repeat(BYTES / 2)),
        format!(r#"{{"items":[{{"json":{}{}}}]}}"#, "[".repeat(BYTES / 2), "]".repeat(BYTES / 2)),
    ];
    for text in texts {
        assert!(hold::<ProduceRequest>(Encoding::Json, text.as_bytes()));
    }
    let _unfinished = hold::<CompleteRequest>(Encoding::Json, "[".repeat(BYTES).as_bytes());
    let item =
        NewItem { utf8: Some("x".repeat(BYTES)), enqueue_at: Some(Time::default()), ..NewItem::default() };
    let request = ProduceRequest { items: vec![item], ..ProduceRequest::default() };
    assert!(hold::<ProduceRequest>(Encoding::Protobuf, &prost::Message::encode_to_vec(&request)));
}

/// As many as a list may have, each of one byte: what is counted for a payload besides its letters shows most.
#[test]
fn many_small_payloads_are_counted_as_what_they_hold() {
    const TIMES: usize = 1000;
    let payload = || Payload { json: Some("1".to_owned()), ..Payload::default() };
    let items = vec![NewItem { json: payload().json, ..NewItem::default() }; TIMES];
    let completions = vec![Completion { result: Some(payload()), ..Completion::default() }; TIMES];
    let events = vec![NewEvent { json: payload().json, ..NewEvent::default() }; TIMES];
    hold_in_both(&ProduceRequest { items, ..ProduceRequest::default() });
    hold_in_both(&CompleteRequest { items: completions, ..CompleteRequest::default() });
    hold_in_both(&EmitRequest { events, ..EmitRequest::default() });
}

fn hold_in_both<C: Call>(request: &C) {
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let body = encoding.encode(request).expect("requests are made of texts and numbers");
        assert!(hold::<C>(encoding, &body));
    }
}
