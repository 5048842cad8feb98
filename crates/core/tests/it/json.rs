//! Which JSON texts stand for the same value.

use windlass_core::json::is_same;

#[test]
fn values_are_the_same_however_they_are_written() {
    let same = [
        (r#"{"a":1,"b":[true,null]}"#, " { \"b\" : [ true , null ] ,\n\"a\":1 } "),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#""é\n/""#, r#""\u00e9\u000A\/""#),
        (r#""\ud83d\ude00""#, "\"😀\""),
        ("1", "1.0"),
        ("10e-1", "1"),
        ("-0", "0.0e5"),
        ("1200", "1.2E+3"),
        ("0.00012", "1.2e-4"),
        ("123456789012345678901234567890", "12345678901234567890123456789e1"),
        ("{}", "{ }"),
        ("[]", "[\t]"),
    ];
    for (one, other) in same {
        assert!(is_same(one, other) && is_same(other, one), "{one} {other}");
    }
}

#[test]
fn other_values_are_not_the_same() {
    let others = [
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        ("[1,2]", "[2,1]"),
        ("[1]", "1"),
        ("\"1\"", "1"),
        ("1", "-1"),
        ("1", "10"),
        ("0.1", "0.01"),
        ("123456789012345678901234567890", "123456789012345678901234567891"),
        ("null", "false"),
        ("\"a\"", "\"A\""),
        ("{}", "[]"),
    ];
    for (one, other) in others {
        assert!(!is_same(one, other) && !is_same(other, one), "{one} {other}");
    }
}

#[test]
fn texts_that_are_not_read_are_the_same_only_letter_by_letter() {
    let deep = |brackets: usize| format!("{}1{}", "[".repeat(brackets), "]".repeat(brackets));
    let spaced = |brackets: usize| deep(brackets).replace('1', " 1 ");
    assert!(is_same(&deep(128), &spaced(128)));
    assert!(!is_same(&deep(129), &spaced(129)));
    for text in [
        deep(100_000).as_str(),
        "{",
        "\"",
        "\"\\",
        "\"\\u12",
        "\"\\ud800\"",
        "{\"a\"",
        "{\"a\":",
        "[1,",
        "nul",
        "",
    ] {
        assert!(is_same(text, text) && !is_same(text, &format!(" {text}")), "{text}");
    }
    assert!(!is_same("1e99999999999999999999", "10e99999999999999999998"));
}
