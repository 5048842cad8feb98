use windlass_api::items::LeasedItem;
use windlass_api::payload::Payload;

use super::facts::{VARIABLES, facts};

/// What a command finds in `WINDLASS_INPUT`.
fn told(input: Option<Payload>) -> Result<Option<String>, String> {
    let place = VARIABLES.iter().position(|name| *name == "WINDLASS_INPUT").unwrap();
    facts("mail", &LeasedItem { input, ..LeasedItem::default() }).map(|facts| facts[place].clone())
}

#[test]
fn an_answer_is_told_as_it_is_and_bytes_as_base64() {
    assert_eq!(told(None), Ok(None));
    let json = Payload { json: Some("{\"approved\": true}".into()), ..Payload::default() };
    assert_eq!(told(Some(json)), Ok(Some("{\"approved\": true}".into())));
    assert_eq!(told(Some(Payload::from_utf8("yes\n"))), Ok(Some("yes\n".into())));
    assert_eq!(told(Some(Payload::from_bytes(vec![0xff, 0]))), Ok(Some("/wA=".into())));
}

#[test]
fn an_answer_that_fits_no_variable_is_not_told_in_part() {
    let largest = "x".repeat(120 << 10);
    assert_eq!(told(Some(Payload::from_utf8(largest.clone()))), Ok(Some(largest.clone())));
    let why = told(Some(Payload::from_utf8(largest + "x"))).unwrap_err();
    assert_eq!(why, "the answer has 122881 bytes, and WINDLASS_INPUT at most 122880");
    assert!(told(Some(Payload::from_bytes(vec![0; 90 << 10]))).is_ok());
    assert!(told(Some(Payload::from_bytes(vec![0; (90 << 10) + 1]))).unwrap_err().contains("122884 bytes"));
    assert!(told(Some(Payload::from_utf8("a\0b"))).unwrap_err().contains("a zero byte"));
}
