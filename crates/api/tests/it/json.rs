//! JSON payloads that are accepted can be read.

use proptest::prelude::*;
use serde_json::Value;
use windlass_api::json::{LEVELS_MAX, Unreadable, check, read};

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// Well-formed JSON within and beyond the bounds.
fn text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?",
        (990_usize..1010).prop_map(|digits| format!("0.{}", "7".repeat(digits))),
    ];
    let piece = prop_oneof![
        Just(r"\ud83d\ude00".to_owned()),
        Just(r"\ud83d".to_owned()),
        Just(r"\uDE00".to_owned()),
        Just(r"\\".to_owned()),
        Just(r"\u0041".to_owned()),
        Just(r#"\""#.to_owned()),
        "[a-z\\[\\]{}0-9 ü]{0,8}",
    ];
    let string = prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()));
    let leaf = prop_oneof![4 => number, 4 => string.clone(), 1 => Just("null".to_owned())];
    let tree = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(", "))),
            prop::collection::vec((string.clone(), inner), 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    let depth = prop_oneof![Just(0_usize), 120_usize..135];
    (tree, depth).prop_map(|(tree, depth)| format!("{}{tree}{}", "[".repeat(depth), "]".repeat(depth)))
}

proptest! {
    #[test]
    fn whatever_is_accepted_can_be_read(text in text()) {
        if check(&text).is_ok() {
            let value: Value = read(&text).expect("it was accepted");
            prop_assert!(text.len() >= LEVELS_MAX || serde_json::from_str::<Value>(&text).expect("not deep") == value);
        }
    }

    #[test]
    fn no_text_makes_the_check_panic(text in "[\\[\\]{}\"\\\\ud8cf0-9eü.-]{0,40}") {
        let _any = check(&text);
    }
}

#[test]
fn the_bounds_are_what_they_say() {
    for (text, expected) in [
        (nested(128), Ok(())),
        (nested(129), Err(Unreadable::Levels)),
        (format!("[{0},{0}]", nested(127)), Ok(())),
        ("7".repeat(1000), Ok(())),
        ("7".repeat(1001), Err(Unreadable::Digits)),
        (format!("-1.5e{}", "0".repeat(998)), Ok(())),
        (format!("-1.5e{}", "0".repeat(999)), Err(Unreadable::Digits)),
        (format!("[{0}, {0}]", "7".repeat(1000)), Ok(())),
        (format!(r#""{}{}""#, "[".repeat(200), "7".repeat(2000)), Ok(())),
        (r#""\ud83d\ude00""#.to_owned(), Ok(())),
        (r#""\\ud83d""#.to_owned(), Ok(())),
        (r#""\ud83d""#.to_owned(), Err(Unreadable::Surrogate)),
        (r#""\ud83d \ude00""#.to_owned(), Err(Unreadable::Surrogate)),
        (r#""\ude00\ud83d""#.to_owned(), Err(Unreadable::Surrogate)),
        (r#"{"\ud83d": 1}"#.to_owned(), Err(Unreadable::Surrogate)),
    ] {
        assert_eq!(check(&text), expected, "{text}");
    }
    assert!(serde_json::from_str::<Value>(&nested(128)).is_err(), "as `read` says");
    read::<Value>(&nested(128)).expect("readable");
    assert!(read::<Value>(&nested(100_000)).is_err(), "and the stack is not exhausted");
}
