use windlass_api::payload::Payload;

use super::payload::{Form, payload, shown};

fn json(text: &str) -> Payload {
    Payload { json: Some(text.to_owned()), ..Payload::default() }
}

fn guessed(text: &str) -> Result<Payload, String> {
    payload(text.as_bytes().to_vec(), None)
}

#[test]
fn what_is_json_is_sent_as_json() {
    assert_eq!(guessed(r#"{"a": 1}"#), Ok(json(r#"{"a": 1}"#)));
    assert_eq!(guessed("42"), Ok(json("42")));
    assert_eq!(guessed(" null\n"), Ok(json("null")));
}

#[test]
fn what_is_not_json_is_sent_as_text_and_the_rest_as_bytes() {
    assert_eq!(guessed("hello"), Ok(Payload::from_utf8("hello")));
    assert_eq!(guessed(""), Ok(Payload::from_utf8("")));
    assert_eq!(payload(vec![0xff, 0], None), Ok(Payload::from_bytes(vec![0xff, 0])));
}

#[test]
fn what_begins_like_json_and_is_not_is_a_slip() {
    for slip in ["{a: 1}", "[1, 2", "\"open", "  {"] {
        let why = guessed(slip).unwrap_err();
        assert!(why.contains("not valid JSON") && why.contains("--as utf8"), "{why}");
    }
}

#[test]
fn the_form_that_is_named_wins() {
    assert_eq!(payload(b"42".to_vec(), Some(Form::Utf8)), Ok(Payload::from_utf8("42")));
    assert_eq!(payload(b"{x".to_vec(), Some(Form::Utf8)), Ok(Payload::from_utf8("{x")));
    assert_eq!(payload(b"42".to_vec(), Some(Form::Bytes)), Ok(Payload::from_bytes("42")));
    assert_eq!(payload(b"42".to_vec(), Some(Form::Json)), Ok(json("42")));
    assert!(payload(b"hello".to_vec(), Some(Form::Json)).is_err());
    assert!(payload(vec![0xff], Some(Form::Utf8)).is_err());
}

#[test]
fn each_form_looks_like_itself() {
    assert_eq!(shown(Some("{\"a\":1}"), None, None), "{\"a\":1}");
    assert_eq!(shown(None, Some("two\nlines"), None), "\"two\\nlines\"");
    assert_eq!(shown(None, None, Some(&[1, 2, 3])), "<3 bytes>");
    assert_eq!(shown(None, None, None), "-");
}
