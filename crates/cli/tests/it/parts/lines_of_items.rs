use std::io::Read;

use windlass_api::items::NewItem;

use super::item_line;
use super::lines::{BadLine, Batch, Limits, Lines};

fn plain(line: &[u8]) -> Result<Option<NewItem>, String> {
    item_line::parse(line, &NewItem::default()).map(Some)
}

fn batches(input: &str, limit: usize) -> Vec<Result<Batch<NewItem>, BadLine>> {
    Lines::new(input.as_bytes(), plain, Limits::of_items(limit)).collect()
}

fn sizes(batches: &[Result<Batch<NewItem>, BadLine>]) -> Vec<usize> {
    batches.iter().map(|batch| batch.as_ref().map_or(0, |batch| batch.items.len())).collect()
}

#[test]
fn lines_come_in_batches_that_know_where_they_stand() {
    let found = batches("{\"json\":1}\n\n  \n{\"utf8\":\"x\"}\n{\"bytes\":\"eA==\"}", 2);
    assert_eq!(sizes(&found), [2, 1]);
    let lines: Vec<u64> = found.iter().flat_map(|batch| batch.as_ref().unwrap().lines.clone()).collect();
    assert_eq!(lines, [1, 4, 5]);
}

#[test]
fn a_batch_is_no_larger_than_its_bytes() {
    let line = format!("{{\"utf8\":\"{}\"}}\n", "x".repeat(3 << 20));
    let found = batches(&line.repeat(3), 1000);
    assert_eq!(sizes(&found), [1, 1, 1]);
    let bytes: usize = found.iter().map(|batch| batch.as_ref().unwrap().bytes).sum();
    assert_eq!(bytes, line.len() * 3);
}

#[test]
fn a_bad_line_comes_after_what_stands_before_it_and_ends_it_all() {
    let found = batches("{\"json\":1}\n{\"jsn\":1}\n{\"json\":2}\n", 1000);
    assert_eq!(sizes(&found), [1, 0]);
    let bad = found[1].as_ref().unwrap_err();
    assert_eq!(bad.line, 2);
    assert!(bad.why.contains("unknown field `jsn`") && bad.why.contains("column"), "{}", bad.why);
}

#[test]
fn an_item_needs_one_payload() {
    let why = |input: &str| batches(input, 10)[0].as_ref().unwrap_err().why.clone();
    assert!(why("{\"kind\":\"a\"}").contains("no payload"));
    assert!(why("{\"json\":1,\"utf8\":\"a\"}").contains("more than one payload"));
    assert!(why("plain").contains("expected value"));
    assert!(why("{\"bytes\":\"?\"}").contains("base64"));
}

#[test]
fn flags_hold_for_items_that_do_not_say_otherwise() {
    let defaults = NewItem {
        kind: Some("bulk".into()),
        priority: Some(9),
        dead_timeout: Some("1h".parse().unwrap()),
        headers: [("a".into(), "1".into()), ("b".into(), "1".into())].into(),
        ..NewItem::default()
    };
    let own = br#"{"json":1,"kind":"own","dead_timeout":"5m","headers":{"b":"2"}}"#;
    let items = [own.as_slice(), b"{\"json\":2}"].map(|line| item_line::parse(line, &defaults).unwrap());
    assert_eq!([0, 1].map(|at| items[at].dead_timeout.unwrap().to_string()), ["5m", "1h"]);
    assert_eq!(items[0].kind.as_deref(), Some("own"));
    assert_eq!(items[0].priority, Some(9));
    assert_eq!(items[0].headers, [("a".into(), "1".into()), ("b".into(), "2".into())].into());
    assert_eq!(items[1].kind.as_deref(), Some("bulk"));
}

#[test]
fn a_line_that_says_when_its_item_is_due_says_all_of_that() {
    let defaults = NewItem { delay: Some("1h".parse().unwrap()), ..NewItem::default() };
    let times =
        |line: &[u8]| item_line::parse(line, &defaults).map(|item| (item.enqueue_at, item.delay)).unwrap();
    assert_eq!(times(b"{\"json\":1}"), (None, defaults.delay));
    assert_eq!(times(br#"{"json":1,"delay":"5m"}"#), (None, Some("5m".parse().unwrap())));
    let at = "2026-01-31T12:00:00Z";
    assert_eq!(
        times(format!(r#"{{"json":1,"enqueue_at":"{at}"}}"#).as_bytes()),
        (Some(at.parse().unwrap()), None)
    );
}

/// Gives one line, and then fails the test if it is asked for more before that line was handed out.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.0.is_empty(), "it reads on, and lets what it has wait");
        let read = self.0.read(buffer)?;
        Ok(read)
    }
}

#[test]
fn what_has_been_read_does_not_wait_for_what_has_not() {
    let mut lines = Lines::new(Slow(b"{\"json\":1}\n{\"json\":2}\n"), plain, Limits::of_items(1000));
    assert_eq!(lines.next().unwrap().unwrap().items.len(), 2);
}
