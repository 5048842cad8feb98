use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::headers::Hashes;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::item::{End, Phase};
use windlass_core::refusal::Refusal;
use windlass_core::settings::{RetainPayload, Settings};
use windlass_core::time::Span;
use windlass_core::verbs::{
    Clear, Delete, Departing, Departure, Import, ImportItem, NewItem, Produce, Produced,
};

use crate::script::{RetryItem, Script, again, at_once, error, item};

const ALL: Clear = Clear { waiting: true, scheduled: true, leased: true, suspended: false };

fn at(address: &str) -> NewItem {
    NewItem { address: Some(address.into()), ..item("default") }
}

fn found(script: &Script, address: &str) -> Option<ItemNumber> {
    script.partition.item_at(&Arc::from(address))
}

fn judged(script: &mut Script, items: impl IntoIterator<Item = NewItem>) -> Vec<Result<ItemNumber, Refusal>> {
    let items = script.apply(Produce { items: items.into_iter().collect() }).unwrap();
    items.into_iter().map(|item| item.map(|item| item.number)).collect()
}

fn taken_by(number: ItemNumber) -> Result<ItemNumber, Refusal> {
    Err(Refusal::DuplicateAddress { number })
}

#[test]
fn an_address_is_refused_while_its_item_is_not_final_and_the_others_of_the_call_are_made() {
    let mut script = Script::new();
    let first = script.produce([at("a")])[0];
    let items = judged(&mut script, [item("default"), at("a"), at("b")]);
    assert!(items[0].is_ok() && items[2].is_ok(), "{items:?}");
    assert_eq!(items[1], taken_by(first));
    assert_eq!((script.partition.counts().waiting, script.totals.produced), (3, 3));

    let held = script.lease_one();
    assert_eq!(judged(&mut script, [at("a")]), [taken_by(first)], "leased");
    script.retry(again(held)).unwrap();
    assert_eq!(judged(&mut script, [at("a")]), [taken_by(first)], "scheduled");
}

#[test]
fn of_two_items_of_one_batch_with_one_address_the_second_is_refused() {
    let mut script = Script::new();
    let items = judged(&mut script, [at("a"), at("a")]);
    let first = *items[0].as_ref().unwrap();
    assert_eq!(items[1], taken_by(first));
}

#[test]
fn a_batch_that_is_refused_item_by_item_changes_nothing() {
    let mut script = Script::new();
    let first = script.produce([at("a")])[0];
    assert_eq!(judged(&mut script, [at("a"), at("a")]), [taken_by(first), taken_by(first)]);
    assert!(script.changes.is_empty());
}

#[test]
fn an_address_is_free_again_once_its_item_is_final() {
    let settings = Settings { max_attempts: 1, dead_timeout: Span::from_secs(60), ..Settings::default() };
    type Ending = fn(&mut Script, ItemNumber);
    let endings: [(Ending, Option<Phase>); 6] = [
        (
            |script, _| {
                let held = script.lease_one();
                script.complete(held, None).unwrap();
            },
            Some(Phase::Completed),
        ),
        (
            |script, _| {
                let held = script.lease_one();
                script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
            },
            Some(Phase::Failed),
        ),
        (
            |script, _| {
                script.pass(Span::from_secs(61));
                script.sweep();
            },
            Some(Phase::Expired),
        ),
        (
            |script, number| {
                script.cancel(number).unwrap();
            },
            Some(Phase::Cancelled),
        ),
        (
            |script, _| {
                script.clear(ALL);
            },
            Some(Phase::Cancelled),
        ),
        (
            |script, number| {
                script.apply(Delete(vec![number])).unwrap();
            },
            None,
        ),
    ];
    for (end, phase) in endings {
        let mut script = Script::with_settings(settings.clone());
        let first = script.produce([at("a")])[0];
        end(&mut script, first);
        assert_eq!(script.phase(first), phase, "an address is something to show");
        assert_eq!(found(&script, "a"), phase.map(|_| first));
        let second = script.produce([at("a")])[0];
        assert_eq!(found(&script, "a"), Some(second));
        script.sweep();
        assert_eq!((script.phase(first), found(&script, "a")), (phase, Some(second)), "swept up or not");
    }
}

#[test]
fn an_address_that_nobody_holds_speaks_of_the_latest_one_kept() {
    let mut script = Script::new();
    assert_eq!(found(&script, "a"), None);
    let mut made = Vec::new();
    for _ in 0..3 {
        made.extend(script.produce([at("a")]));
        let held = script.lease_one();
        script.complete(held, None).unwrap();
        script.pass(Span::from_secs(1));
    }
    assert_eq!(found(&script, "a"), Some(made[2]));
    let live = script.produce([at("a")])[0];
    script.apply(Delete(vec![live])).unwrap();
    assert_eq!(found(&script, "a"), Some(made[2]), "nothing is kept of what was deleted");
    assert_eq!(found(&script, "b"), None);

    script.pass(Settings::default().retention);
    script.sweep();
    assert_eq!(found(&script, "a"), None, "forgotten with the last one that bore it");
}

#[test]
fn a_cleared_item_is_kept_as_cancelled_for_its_address_alone() {
    let mut script = Script::new();
    let numbers = script.produce([at("a"), item("default")]);
    assert_eq!(script.clear(ALL), 2);
    assert_eq!((script.phase(numbers[0]), script.phase(numbers[1])), (Some(Phase::Cancelled), None));
    assert_eq!(script.partition.retained(), 1);
    assert_eq!(script.cancel(numbers[0]), Ok(Phase::Cancelled));
    script.sweep();
    assert_eq!((script.phase(numbers[0]), script.partition.retained()), (Some(Phase::Cancelled), 1));
}

#[test]
fn a_moved_item_tells_its_old_address_and_the_old_one_keeps_it() {
    let settings = Settings { max_attempts: 1, dead_queue: Some("dead".into()), ..Settings::default() };
    let mut script = Script::with_settings(settings);
    let number = script.produce([at("a")])[0];
    let held = script.lease_one();
    script.retry(RetryItem { error: Some(error("no")), ..at_once(held) }).unwrap();
    assert_eq!((script.phase(number), found(&script, "a")), (Some(Phase::Failed), Some(number)));
    let next = script.produce([at("a")])[0];
    assert_eq!(found(&script, "a"), Some(next), "free while the first is on its way");

    script.assign("dead", PartitionId(9), 10);
    let departures = script.partition.departures(PartitionId(9), 10);
    let [Departure { what: Departing::Item(item), .. }] = &departures[..] else { panic!("{departures:?}") };
    assert_eq!(item.address.as_deref(), Some("a"));
}

#[test]
fn an_item_sent_back_by_a_redrive_gives_its_address_up() {
    let mut script = Script::new();
    script.produce([at("a")]);
    let redrive = windlass_core::verbs::Redrive {
        to: windlass_core::verbs::RedriveTo::Queue("elsewhere".into()),
        kind: None,
        limit: 10,
        from: None,
        asked: BTreeMap::new(),
    };
    let redriven = script.apply(redrive).unwrap();
    assert_eq!((redriven.count, redriven.next), (1, None));
    assert_eq!(script.phase(found(&script, "a").unwrap()), Some(Phase::Cancelled));
    assert!(judged(&mut script, [at("a")])[0].is_ok());
}

#[test]
fn an_import_takes_addresses_and_is_refused_those_that_are_taken() {
    let mut script = Script::new();
    let first = script.produce([at("a")])[0];
    let import = |address: &str| ImportItem {
        kind: "default".into(),
        group: None,
        priority: 0,
        created_at: None,
        changed_at: None,
        started: None,
        attempts: 0,
        due_at: None,
        max_attempts: None,
        dead_timeout: None,
        address: Some(address.into()),
        origin: None,
        cron: None,
        error: None,
        suspended: None,
        body: bytes::Bytes::new(),
        facts: None,
        hashes: Hashes::Unknown,
    };
    let items = vec![import("a"), import("b"), import("b")];
    let imported = script.apply(Import { items }).unwrap();
    let Ok(Produced { number, .. }) = imported[1] else { panic!("{imported:?}") };
    assert_eq!(imported[0], Err(Refusal::DuplicateAddress { number: first }));
    assert_eq!(imported[2], Err(Refusal::DuplicateAddress { number }));
    assert_eq!(found(&script, "b"), Some(number));
}

#[test]
fn a_lease_and_the_item_show_the_address() {
    let mut script = Script::new();
    let number = script.produce([at("a")])[0];
    assert_eq!(script.get(number).extras.unwrap().address.as_deref(), Some("a"));
    assert_eq!(script.lease(1)[0].address.as_deref(), Some("a"));
}

#[test]
fn what_is_kept_for_an_address_counts_its_bytes() {
    let settings =
        Settings { retention_max_bytes: 5, retain_payload: RetainPayload::None, ..Settings::default() };
    let mut script = Script::with_settings(settings);
    let numbers = script.produce([at("four"), at("44")]);
    for number in &numbers {
        script.cancel(*number).unwrap();
    }
    script.sweep();
    assert_eq!((script.phase(numbers[0]), script.phase(numbers[1])), (None, Some(Phase::Cancelled)));
    assert_eq!(script.get(numbers[1]).state.phase(), Phase::Cancelled);
    let windlass_core::item::State::Final(outcome) = script.get(numbers[1]).state else { panic!() };
    assert_eq!((outcome.end, outcome.kept_bytes), (End::Cancelled, 2));
}

#[test]
fn an_address_has_1_to_512_bytes() {
    let mut script = Script::new();
    for address in [String::new(), "x".repeat(513), "a\0b".into()] {
        let refused = script.apply(Produce { items: vec![at(&address)] });
        assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "address"));
    }
    assert!(judged(&mut script, [at(&"é".repeat(256))])[0].is_ok());
}
