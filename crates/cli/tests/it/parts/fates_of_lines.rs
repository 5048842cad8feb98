use super::fates::{Fate, Fates, Lines, Ranges};

fn lines(from: u64, to: u64) -> Lines {
    Lines { from, to }
}

#[test]
fn lines_that_follow_one_another_are_told_together_in_whatever_order_they_come() {
    let mut ranges = Ranges::default();
    for part in [lines(7, 9), lines(1, 2), lines(12, 12), lines(3, 6)] {
        ranges.add(part);
    }
    assert_eq!(ranges.to_string(), "lines 1 to 9, line 12");
    assert_eq!(serde_json::to_string(&ranges).unwrap(), r#"[{"from":1,"to":9},{"from":12,"to":12}]"#);
}

#[test]
fn what_became_of_lines_is_told_with_where_it_stopped() {
    let mut fates = Fates::default();
    assert_eq!(fates.shown("produced"), "nothing was sent");
    let sent = [3, 5, 6, 9].map(|to| fates.send(to));
    assert_eq!(sent, [lines(1, 3), lines(4, 5), lines(6, 6), lines(7, 9)]);
    let became = [Fate::Done, Fate::Unknown, Fate::Done, Fate::NotDone];
    sent.into_iter().zip(became).rev().for_each(|(lines, fate)| fates.add(lines, fate));
    let shown = "produced: lines 1 to 3, line 6\nnot produced: lines 7 to 9\n\
                 may or may not be produced: lines 4 to 5\nnothing after line 9 was sent";
    assert_eq!(fates.shown("produced"), shown);
    fates.all_sent = true;
    assert!(fates.shown("imported").ends_with("be imported: lines 4 to 5\nall lines were sent"));
}
