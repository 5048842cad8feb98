//! Payloads come out as they went in.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use serde_json::value::RawValue;
use windlass_api::items::{LeasedItem, NewItem};
use windlass_api::payload::Payload;

fn json_text(text: &str) -> String {
    format!(r#"{{"json":{text}}}"#)
}

fn rewritten(json: &str) -> String {
    let payload: Payload = serde_json::from_str(json).expect("a payload");
    serde_json::to_string(&payload).expect("what was read can be written")
}

#[test]
fn null_is_a_payload_and_not_the_absence_of_one() {
    let item: NewItem = serde_json::from_str(r#"{"json": null}"#).unwrap();
    assert_eq!(item.json.as_deref(), Some("null"));
    assert_eq!(serde_json::to_string(&item).unwrap(), r#"{"json":null}"#);
    let read = NewItem::decode(item.encode_to_vec().as_slice()).unwrap();
    assert_eq!(read.json.as_deref(), Some("null"));

    let none: NewItem = serde_json::from_str("{}").unwrap();
    assert_eq!(none.json, None);
    assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
}

#[test]
fn json_is_kept_as_its_text() {
    let texts = [
        "123456789012345678901234567890",
        "1.000000000000000000000000000001",
        "1e400",
        "-0.0",
        r#"{"z":1,"a":2,"m":{"y":[],"b":{}}}"#,
        r#"{"twice":1,"twice":2}"#,
        r#"{ "spaces" : [ 1 , 2 ] }"#,
        r#""\u00fc \ud83d\ude00 ü""#,
        r#""""#,
        "true",
        "[]",
    ];
    for text in texts {
        assert_eq!(rewritten(&json_text(text)), json_text(text));
        let leased = LeasedItem { json: Some(text.to_owned()), ..LeasedItem::default() };
        let reply = serde_json::to_string(&leased).unwrap();
        let fields: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_str(&reply).unwrap();
        assert_eq!(fields["json"].get(), text);
    }
}

#[test]
fn an_empty_payload_is_a_payload() {
    assert_eq!(rewritten(r#"{"utf8":""}"#), r#"{"utf8":""}"#);
    assert_eq!(rewritten(r#"{"bytes":""}"#), r#"{"bytes":""}"#);
    let read = Payload::decode(Payload::from_utf8("").encode_to_vec().as_slice()).unwrap();
    assert_eq!(read, Payload::from_utf8(""));
    let read = Payload::decode(Payload::from_bytes(Bytes::new()).encode_to_vec().as_slice()).unwrap();
    assert_eq!(read, Payload::from_bytes(Bytes::new()));
}

#[test]
fn what_is_not_base64_is_refused() {
    for text in ["!", "YQ", "YQ=", "YQ===", "Y Q=", "YQ==\\n", "-_-_", "YR==", "ü"] {
        let refusal = serde_json::from_str::<Payload>(&format!(r#"{{"bytes": "{text}"}}"#)).unwrap_err();
        assert!(refusal.to_string().contains("not base64"), "{text}: {refusal}");
    }
    assert!(serde_json::from_str::<Payload>(r#"{"bytes": [1, 2]}"#).is_err());
}

#[test]
fn broken_json_inside_a_request_is_refused() {
    for text in ["", "{", "01", "nul", "'a'", "NaN"] {
        assert!(serde_json::from_str::<Payload>(&json_text(text)).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_survive_both_encodings(bytes in any::<Vec<u8>>()) {
        let payload = Payload::from_bytes(bytes.clone());
        let json = serde_json::to_string(&payload).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Payload>(&json).unwrap(), &payload);
        prop_assert_eq!(&Payload::decode(payload.encode_to_vec().as_slice()).unwrap(), &payload);
        prop_assert_eq!(payload.as_bytes(), bytes);
    }

    #[test]
    fn any_text_survives_both_encodings(text in any::<String>()) {
        let payload = Payload::from_utf8(text.clone());
        let json = serde_json::to_string(&payload).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Payload>(&json).unwrap(), &payload);
        prop_assert_eq!(&Payload::decode(payload.encode_to_vec().as_slice()).unwrap(), &payload);
        prop_assert_eq!(payload.as_bytes(), text.as_bytes());
    }
}
