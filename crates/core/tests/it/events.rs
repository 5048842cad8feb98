use windlass_core::event::{NewEvent, unpack};
use windlass_core::id::{ItemId, ItemNumber};
use windlass_core::item::{LeaseEnd, Phase, State};
use windlass_core::limits::{EVENT_BATCH_OVERHEAD, EVENT_OVERHEAD, EVENTS_BYTES_MAX, EVENTS_MAX};
use windlass_core::news::News;
use windlass_core::partition::oldest_event_of;
use windlass_core::refusal::Refusal;
use windlass_core::row::{Change, Key, Part, Row};
use windlass_core::settings::RetainPayload;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{Clear, Delete, Emitted};

use crate::script::{Script, at_once, event, events, stranger};

fn event_count(script: &Script, number: ItemNumber) -> u64 {
    script.get(number).extras.map_or(0, |extras| extras.event_count)
}

/// The first and the last number of each batch that is kept.
fn batches(script: &Script) -> Vec<(u64, u64)> {
    let batch = |row| match row {
        Row::Events(batch) => Some((batch.first_seq, batch.last_seq)),
        _ => None,
    };
    script.partition.rows().filter_map(batch).collect()
}

/// The number of the first event that a reader still finds: whole batches are kept, but only so many events count.
fn first_event(script: &Script, number: ItemNumber) -> Option<u64> {
    let first = script.partition.rows().find_map(|row| match row {
        Row::Events(batch) if batch.item == number => Some(batch.first_seq),
        _ => None,
    });
    Some(first?.max(oldest_event_of(event_count(script, number))))
}

#[test]
fn events_are_numbered_from_one_and_go_on_with_the_next_attempt() {
    let mut script = Script::new();
    let number = script.produce_one();
    let first = script.lease_one();
    let emitted = |first_seq, last_seq| Ok(Emitted { first_seq, last_seq, cancel_requested: false });
    assert_eq!(script.emit(first, events(2)), emitted(1, 2));
    assert_eq!(script.emit(first, events(1)), emitted(3, 3));
    script.retry(at_once(first)).unwrap();
    let second = script.lease_one();
    assert_eq!(script.emit(second, events(4)), emitted(4, 7));
    assert_eq!(event_count(&script, number), 7);
    assert_eq!(batches(&script), [(1, 2), (3, 3), (4, 7)]);
    assert_eq!(script.totals.emitted, 7);
}

#[test]
fn many_large_events_are_several_bodies_in_one_step() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    let of_bytes = |bytes| NewEvent { content: vec![b'x'; bytes].into(), bytes: bytes as u64 };
    let [large, huge, small] = [50 << 10, 200 << 10, 10].map(of_bytes);
    let sent = vec![large.clone(), large.clone(), large.clone(), huge, small.clone(), small];
    let emitted = script.emit(held, sent).unwrap();
    assert_eq!((emitted.first_seq, emitted.last_seq), (1, 6));
    assert_eq!(batches(&script), [(1, 2), (3, 3), (4, 4), (5, 6)]);
}

#[test]
fn a_batch_of_events_is_one_body_that_tells_when() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.pass(Span::from_secs(1));
    script.emit(held, vec![event("one"), event(""), event("three")]).unwrap();
    let bodies: Vec<_> = script
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::PutBody { number: of, part, body } => Some((*of, *part, body.clone())),
            _ => None,
        })
        .collect();
    let [(of, part, body)] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!((*of, *part), (number, Part::Events(1)));
    let (at, contents) = unpack(body.clone()).unwrap();
    assert_eq!(at, script.now);
    assert_eq!(contents, ["one", "", "three"]);
    for cut in [1, 9, body.len() - 1] {
        assert_eq!(unpack(body.slice(..cut)), None, "cut at {cut}");
    }
}

#[test]
fn only_the_holder_of_the_permit_emits() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    assert_eq!(script.emit(stranger(held), events(1)), Err(Refusal::LeaseLost { reason: None }));
    script.pass(Span::from_secs(60));
    let lost = |reason| Err(Refusal::LeaseLost { reason: Some(reason) });
    assert_eq!(script.emit(held, events(1)), lost(LeaseEnd::Expired));
    script.sweep();
    let held = script.lease_one();
    script.emit(held, events(1)).unwrap();
    script.complete(held, None).unwrap();
    assert_eq!(script.emit(held, events(1)), lost(LeaseEnd::Completed));
    assert_eq!(script.changes, []);
    assert_eq!(event_count(&script, number), 1);
    let nobody = windlass_core::verbs::Held { id: ItemId { number: ItemNumber(9), ..held.id }, ..held };
    assert_eq!(script.emit(nobody, events(1)), Err(Refusal::NotFound));
}

#[test]
fn an_emit_after_a_number_that_is_not_the_last_is_refused_and_told_the_last() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    script.emit_after(held, Some(0), events(2)).unwrap();
    assert_eq!(script.emit_after(held, Some(0), events(2)), Err(Refusal::NotAfter { last_seq: 2 }));
    assert_eq!(script.emit_after(held, Some(3), events(2)), Err(Refusal::NotAfter { last_seq: 2 }));
    assert_eq!(script.changes, []);
    assert_eq!(script.emit_after(held, Some(2), events(1)).unwrap().last_seq, 3);
}

#[test]
fn an_emit_says_that_the_item_is_to_stop_and_leaves_the_deadline_alone() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    let before = script.get(number).state;
    script.pass(Span::from_secs(10));
    assert!(!script.emit(held, events(1)).unwrap().cancel_requested);
    assert_eq!(script.get(number).state, before);
    script.cancel(number).unwrap();
    assert!(script.emit(held, events(1)).unwrap().cancel_requested);
}

#[test]
fn no_more_than_a_thousand_events_and_no_less_than_one_are_emitted_at_once() {
    let mut script = Script::new();
    script.produce_one();
    let held = script.lease_one();
    for count in [0, 1001] {
        let Err(Refusal::Invalid(invalid)) = script.emit(held, events(count)) else { panic!("{count}") };
        assert_eq!(invalid.to_string(), "`events` must be 1 to 1000 events");
    }
    assert_eq!(script.emit(held, events(1000)).unwrap().last_seq, 1000);
}

#[test]
fn the_oldest_batches_go_once_the_newest_ten_thousand_are_in_later_ones() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.emit(held, events(400)).unwrap();
    for _ in 0..10 {
        script.emit(held, events(960)).unwrap();
    }
    assert_eq!(first_event(&script, number), Some(1), "there are ten thousand");
    script.emit(held, events(399)).unwrap();
    assert_eq!(batches(&script)[0], (1, 400));
    assert_eq!(first_event(&script, number), Some(400), "only the newest count");
    script.emit(held, events(1)).unwrap();
    assert!(script.changes.contains(&Change::Remove(Key::Events(number, Some(1)))));
    assert_eq!(batches(&script)[0], (401, 1360));
    assert_eq!(first_event(&script, number), Some(401));
    assert_eq!(event_count(&script, number), 400 + EVENTS_MAX);
}

#[test]
fn the_oldest_batches_go_when_the_bytes_are_too_many_but_never_the_newest() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    let large = |mebibytes: u64| vec![NewEvent { bytes: mebibytes << 20, ..event("large") }];
    for _ in 0..16 {
        script.emit(held, large(1)).unwrap();
    }
    assert_eq!(first_event(&script, number), Some(1));
    assert_eq!(script.get(number).extras.unwrap().event_bytes, EVENTS_BYTES_MAX);
    script.emit(held, large(2)).unwrap();
    assert_eq!(first_event(&script, number), Some(3));
    script.emit(held, large(17)).unwrap();
    assert_eq!(batches(&script), [(18, 18)]);
    assert_eq!(script.get(number).extras.unwrap().event_bytes, 17 << 20);
}

#[test]
fn an_item_with_events_is_kept_for_its_time_and_then_goes_with_all_of_them_in_one_step() {
    let mut script =
        Script::with_settings(Settings { retention: Span::from_secs(10), ..Settings::default() });
    let number = script.produce_one();
    let held = script.lease_one();
    for _ in 0..300 {
        script.emit(held, events(1)).unwrap();
    }
    script.complete(held, None).unwrap();
    assert_eq!(script.phase(number), Some(Phase::Completed));
    assert_eq!(event_count(&script, number), 300);
    script.pass(Span::from_secs(10));
    script.sweep();
    assert_eq!(script.phase(number), None);
    assert_eq!(
        script.changes,
        [Change::Remove(Key::Events(number, None)), Change::Remove(Key::Item(number))]
    );
    assert_eq!(batches(&script), []);
}

#[test]
fn events_count_against_the_bytes_that_a_queue_keeps_also_those_without_a_payload() {
    let of_each = EVENT_BATCH_OVERHEAD + 2 * EVENT_OVERHEAD;
    for (content, bytes) in [("", of_each), ("done", of_each + 2 * 4)] {
        for (retention_max_bytes, first) in [(2 * bytes, Some(Phase::Completed)), (2 * bytes - 1, None)] {
            let mut script = Script::with_settings(Settings { retention_max_bytes, ..Settings::default() });
            let numbers = [script.produce_one(), script.produce_one()];
            for _ in numbers {
                let held = script.lease_one();
                script.emit(held, vec![event(content); 2]).unwrap();
                script.complete(held, None).unwrap();
            }
            script.sweep();
            assert_eq!(numbers.map(|number| script.phase(number)), [first, Some(Phase::Completed)]);
        }
    }
}

#[test]
fn what_batches_cost_counts_however_an_item_ends_and_only_of_those_that_are_left() {
    let settings = Settings { retain_payload: RetainPayload::None, ..Settings::default() };
    let mut script = Script::with_settings(settings);
    let [completed, cleared, failed] = [(); 3].map(|()| script.produce_one());
    for leased in script.lease(3) {
        script.emit(leased.held(), vec![NewEvent { bytes: EVENTS_BYTES_MAX, ..event("large") }]).unwrap();
        script.emit(leased.held(), vec![event("")]).unwrap();
        script.emit(leased.held(), vec![event(""), event("one")]).unwrap();
        let done = match leased.id.number {
            number if number == completed => script.complete(leased.held(), None),
            number if number == cleared => script.release(leased.held()),
            _ => script.retry(crate::script::RetryItem { dead: true, ..at_once(leased.held()) }).map(drop),
        };
        done.unwrap();
    }
    script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false });
    let kept_bytes = |script: &Script, number| match script.get(number).state {
        State::Final(outcome) => outcome.kept_bytes,
        other => panic!("{other:?}"),
    };
    let events = 2 * EVENT_BATCH_OVERHEAD + 3 * EVENT_OVERHEAD + 3;
    assert_eq!(kept_bytes(&script, cleared), events, "as it is seen before the sweep");
    script.sweep();
    assert_eq!([completed, cleared].map(|number| kept_bytes(&script, number)), [events; 2]);
    let error = script.get(failed).extras.unwrap().error.unwrap();
    let error_len = error.message.len() + error.code.unwrap().len();
    let attempt = u64::from(script.get(failed).extras.unwrap().attempt_bytes);
    assert_eq!(kept_bytes(&script, failed), events + attempt + error_len as u64);
}

#[test]
fn ten_thousand_events_that_were_emitted_one_by_one_are_all_kept() {
    let mut script = Script::new();
    let number = script.produce_one();
    let held = script.lease_one();
    script.emit_singly(held, EVENTS_MAX as usize);
    assert_eq!((batches(&script).len() as u64, first_event(&script, number)), (EVENTS_MAX, Some(1)));
    script.emit(held, events(1)).unwrap();
    assert_eq!((batches(&script).len() as u64, first_event(&script, number)), (EVENTS_MAX, Some(2)));
}

/// Items that have ended, each with so many batches of events, once their time is over.
fn forgettable(items: usize, batches: usize) -> Script {
    let mut script =
        Script::with_settings(Settings { retention: Span::from_secs(10), ..Settings::default() });
    script.produce(crate::script::items(items));
    for leased in script.lease(items) {
        script.emit_singly(leased.held(), batches);
        script.complete(leased.held(), None).unwrap();
    }
    script.pass(Span::from_secs(10));
    script
}

#[test]
fn the_more_batches_items_have_the_fewer_go_with_one_slice_of_the_sweep() {
    let swept = |items, batches| forgettable(items, batches).sweep_some(30);
    assert_eq!(swept(40, 1), 30);
    assert_eq!(swept(20, 64), 15);
    assert_eq!(swept(10, 5 * 64), 5);
    assert_eq!(swept(2, 30 * 64), 1);
}

#[test]
fn an_item_with_more_batches_than_a_slice_may_hold_goes_all_the_same() {
    let mut script = forgettable(3, 200);
    for left in [2, 1, 0] {
        assert_eq!((script.sweep_some(1), script.partition.retained()), (1, left));
    }
    assert_eq!((script.sweep_some(1), batches(&script)), (0, Vec::new()));
}

#[test]
fn a_cleared_item_keeps_its_events_and_a_deleted_one_does_not() {
    let mut script = Script::new();
    let (cleared, deleted) = (script.produce_one(), script.produce_one());
    for leased in script.lease(2) {
        script.emit(leased.held(), events(1)).unwrap();
        script.release(leased.held()).unwrap();
    }
    script.apply(Delete(vec![deleted])).unwrap();
    assert_eq!(batches(&script), [(1, 1)]);
    script.clear(Clear { waiting: true, scheduled: false, leased: false, suspended: false });
    script.sweep();
    assert_eq!((script.phase(cleared), event_count(&script, cleared)), (Some(Phase::Cancelled), 1));
    assert_eq!(first_event(&script, cleared), Some(1));
}

#[test]
fn a_dead_item_keeps_its_events_here_until_its_time_is_over_whether_or_not_it_has_arrived() {
    let mut script = Script::with_settings(Settings {
        dead_queue: Some("dead".into()),
        retention: Span::from_secs(10),
        ..Settings::default()
    });
    let number = script.produce_one();
    let held = script.lease_one();
    script.emit(held, events(1)).unwrap();
    script.retry(crate::script::RetryItem { dead: true, ..at_once(held) }).unwrap();
    assert_eq!((script.phase(number), batches(&script).len()), (Some(Phase::Failed), 1));
    script.pass(Span::from_secs(10));
    script.sweep();
    assert_eq!((script.phase(number), batches(&script).len()), (None, 0));
    assert_eq!(script.partition.moving(), 1);
}

#[test]
fn who_follows_an_item_hears_of_its_events_and_its_states_in_order_and_of_its_end_once() {
    let mut script = Script::new();
    let number = script.produce_one();
    let mut heard = Vec::new();
    let mut hear = |script: &Script| {
        heard.extend(script.news.iter().filter_map(|news| match news {
            News::Changed(changed) => Some((changed.phase, changed.event_count)),
            News::Ended(ended) => {
                Some((ended.item.state.phase(), ended.item.extras.as_ref().unwrap().event_count))
            }
            News::Available | News::Outgoing | News::Died(_) => None,
        }));
    };
    assert_eq!(script.partition.follow(number), script.partition.get(number));
    let held = script.lease_one();
    hear(&script);
    script.emit(held, events(2)).unwrap();
    hear(&script);
    script.extend(held, None).unwrap();
    hear(&script);
    script.suspend(held, Some("which colour?")).unwrap();
    let [News::Changed(changed)] = &script.news[..] else { panic!("{:?}", script.news) };
    assert_eq!((changed.number, changed.reason.as_deref()), (number, Some("which colour?")));
    hear(&script);
    script.resume(number, Some("blue")).unwrap();
    hear(&script);
    let held = script.lease_one();
    hear(&script);
    script.complete(held, None).unwrap();
    hear(&script);
    script.pass(Span::from_secs(48 * 3600));
    script.sweep();
    hear(&script);
    let expected = [
        (Phase::Leased, 0),
        (Phase::Leased, 2),
        (Phase::Suspended, 2),
        (Phase::Waiting, 3),
        (Phase::Leased, 3),
        (Phase::Completed, 3),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn nothing_is_told_of_an_item_that_nobody_follows_any_more() {
    let mut script = Script::new();
    let number = script.produce_one();
    script.partition.follow(number);
    script.partition.unfollow(number);
    let held = script.lease_one();
    script.emit(held, events(1)).unwrap();
    assert_eq!(script.news, []);
    script.complete(held, None).unwrap();
    assert_eq!(script.news, []);
    assert_eq!(script.partition.follow(number).unwrap().state.phase(), Phase::Completed);
}
