use super::capture::{RESULT_BYTES_MAX, Tail, Whole};

#[test]
fn the_end_of_what_was_said_is_kept() {
    let mut tail = Tail::default();
    tail.push(b"first\n");
    assert_eq!(tail.text(), "first");
    tail.push(&[b'x'; 10_000]);
    tail.push(b" last\n");
    let text = tail.text();
    assert!(text.ends_with("xx last") && text.len() <= 3800, "{} bytes", text.len());
}

#[test]
fn the_end_is_a_text_whatever_was_said() {
    let mut tail = Tail::default();
    tail.push(&[0xff; 4000]);
    tail.push(b"a\0b");
    let text = tail.text();
    assert!(text.len() <= 3800 && text.ends_with("a\u{fffd}b"), "{text}");
}

#[test]
fn all_is_kept_unless_it_is_too_much() {
    let mut whole = Whole::default();
    whole.push(&vec![b'x'; RESULT_BYTES_MAX - 1]);
    whole.push(b"y");
    assert_eq!(whole.into_bytes().map(|bytes| bytes.len()), Some(RESULT_BYTES_MAX));
    let mut whole = Whole::default();
    whole.push(&vec![b'x'; RESULT_BYTES_MAX]);
    whole.push(b"y");
    assert_eq!(whole.into_bytes(), None);
}
