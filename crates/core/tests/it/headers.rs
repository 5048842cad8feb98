//! Items found by their headers: what the index tells, and what is left to a look into the record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use allocation_counter::measure;
use bytes::Bytes;
use proptest::prelude::*;
use windlass_core::effort::{Looked, looks};
use windlass_core::headers::{Hashes, IndexedNames, MAY_HAVE_ANY, REFERENCE, header_hash};
use windlass_core::id::ItemNumber;
use windlass_core::item::Phase;
use windlass_core::limits::check_settings;
use windlass_core::partition::{Find, FindOrder, FindSlice, Found, FoundItem};
use windlass_core::settings::{Keep, Settings, SettingsChange};
use windlass_core::time::Span;
use windlass_core::verbs::{
    Clear, Configure, CreateGroup, NewEnd, NewItem, Rerun, StartGroup, Update, UpdateItem,
};

use crate::script::{RetryItem, START, Script, again, assert_same, item, items, open_group, rebuilt};

fn settings(version: u64, names: &[&str]) -> Settings {
    let indexed_headers = names.iter().map(|name| Arc::from(*name)).collect();
    Settings { version, indexed_headers, ..Settings::default() }
}

fn configure(script: &mut Script, names: &[&str]) {
    let version = script.partition.settings().version + 1;
    script.apply(Configure(settings(version, names))).unwrap();
}

fn indexed(names: &[&str]) -> Script {
    let mut script = Script::new();
    configure(&mut script, names);
    script
}

/// An item whose hashes were computed under the present setting.
fn with(script: &Script, headers: &[(&str, &str)]) -> NewItem {
    let hashes = script.partition.settings().hashes(headers.iter().copied());
    NewItem { facts: Some(Bytes::from_static(b"facts")), hashes, ..item("default") }
}

fn asked(headers: &[(&str, &str)]) -> Find {
    let hash = |(name, value): &(&str, &str)| (Arc::from(*name), header_hash(name, value));
    Find { headers: headers.iter().map(hash).collect(), ..Find::default() }
}

fn found(script: &Script, find: &Find, order: FindOrder) -> Found {
    let until = script.partition.find_until();
    let find = Arc::new(find.clone());
    let (matches_max, looks_max) = (usize::MAX, usize::MAX);
    script.partition.find(&FindSlice { find, order, after: None, until, matches_max, looks_max })
}

/// What may match, as small slices tell it.
fn in_pages(script: &Script, find: &Find, order: FindOrder) -> Vec<FoundItem> {
    let (find, until) = (Arc::new(find.clone()), script.partition.find_until());
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let (find, matches_max, looks_max) = (Arc::clone(&find), 2, 3);
        let slice = FindSlice { find, order, after, until, matches_max, looks_max };
        let found = script.partition.find(&slice);
        assert!(found.items.len() <= 2 && found.looked <= 3);
        items.extend(found.items);
        after = found.after;
        if after.is_none() {
            return items;
        }
    }
}

/// What may match, the oldest first, and how many items were looked at.
fn find(script: &Script, headers: &[(&str, &str)]) -> (Vec<ItemNumber>, u64) {
    let before = looks(Looked::Items);
    let found = found(script, &asked(headers), FindOrder::Oldest);
    assert!(found.items.iter().all(|found| found.to_verify));
    (found.items.into_iter().map(|found| found.item.number).collect(), looks(Looked::Items) - before)
}

#[test]
fn the_hash_of_a_header_is_frozen() {
    assert_ne!(header_hash("tenant", "a"), header_hash("tenan", "ta"));
    assert_eq!(header_hash("", ""), 0x71b8_262b_b6e2_e086);
    assert_eq!(header_hash("tenant", "acme"), 0x1558_5daa_e396_4a74);
}

#[test]
fn the_names_that_are_indexed_are_the_same_in_any_order() {
    let names = |names: &[&str]| IndexedNames::of(&settings(1, names).indexed_headers);
    assert_eq!(names(&["a", "b"]), names(&["b", "a"]));
    assert_ne!(names(&["a", "b"]), names(&["ab"]));
    assert_ne!(names(&["a"]), names(&[]));
}

#[test]
fn a_queue_indexes_at_most_eight_different_headers() {
    let check = |names: &[&str]| check_settings(&settings(1, names)).map_err(|invalid| invalid.field);
    assert_eq!(check(&["a", "b", "c", "d", "e", "f", "g", "h"]), Ok(()));
    assert_eq!(check(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]), Err("indexed_headers"));
    assert_eq!(check(&["a", "a"]), Err("indexed_headers"));
    assert_eq!(check(&[""]), Err("indexed_headers"));
}

#[test]
fn a_change_of_settings_names_the_indexed_headers_in_any_order() {
    let has = settings(1, &["a", "b"]);
    let given = |names: &[&str]| SettingsChange {
        indexed_headers: Some(settings(1, names).indexed_headers),
        ..SettingsChange::default()
    };
    assert_eq!(has.first_difference(&given(&["b", "a"])), None);
    assert_eq!(has.first_difference(&given(&["a"])), Some("indexed_headers"));
    assert_eq!(has.changed(given(&["c"])).indexed_headers, [Arc::from("c")]);
    assert_eq!(has.changed(SettingsChange::default()).indexed_headers, has.indexed_headers);
}

#[test]
fn a_filter_on_an_indexed_header_looks_only_at_items_that_have_it() {
    let mut script = indexed(&["tenant", REFERENCE]);
    script.produce(items(20));
    let new = [
        with(&script, &[("tenant", "a"), (REFERENCE, "1"), ("trace", "x")]),
        with(&script, &[("tenant", "b"), (REFERENCE, "1")]),
        with(&script, &[("trace", "x")]),
    ];
    let made = script.produce(new);
    assert_eq!(find(&script, &[("tenant", "a")]), (vec![made[0]], 1));
    assert_eq!(find(&script, &[(REFERENCE, "1")]), (vec![made[0], made[1]], 2));
    assert_eq!(find(&script, &[("tenant", "b"), (REFERENCE, "1")]).0, [made[1]]);
    assert_eq!(find(&script, &[("tenant", "c")]), (vec![], 0));
    assert_eq!(
        find(&script, &[("trace", "x")]),
        (made, 23),
        "a header that is not indexed is looked for in all"
    );
}

/// Fails the first waiting item.
fn fail_one(script: &mut Script) -> ItemNumber {
    let held = script.lease_one();
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    held.id.number
}

/// What is found in either order, and how many items were looked at in each.
fn found_and_looked(script: &Script, find: &Find) -> (Vec<ItemNumber>, [usize; 2]) {
    let both = [FindOrder::Oldest, FindOrder::Newest].map(|order| found(script, find, order));
    let numbers = |found: &Found| found.items.iter().map(|found| found.item.number).collect::<Vec<_>>();
    let newest: Vec<ItemNumber> = numbers(&both[1]).into_iter().rev().collect();
    assert_eq!(numbers(&both[0]), newest);
    (newest, both.map(|found| found.looked))
}

#[test]
fn a_filter_on_states_looks_only_at_items_of_these_states_beside_an_indexed_header() {
    let mut script = indexed(&["tenant"]);
    let of_x = |script: &Script| with(script, &[("tenant", "x")]);
    script.produce([of_x(&script)]);
    let failed = fail_one(&mut script);
    script.produce([with(&script, &[("tenant", "y")])]);
    fail_one(&mut script);
    script.produce((0..200).map(|_| of_x(&script)).collect::<Vec<_>>());
    let in_phases = |phases: &[Phase]| Find {
        phases: Some(phases.iter().copied().collect()),
        ..asked(&[("tenant", "x")])
    };
    let of_failed = in_phases(&[Phase::Failed, Phase::Suspended, Phase::Leased]);
    assert_eq!(found_and_looked(&script, &of_failed), (vec![failed], [1, 1]));
    assert_eq!(found_and_looked(&script, &in_phases(&[])), (vec![], [0, 0]));
    let (waiting, looked) = found_and_looked(&script, &in_phases(&[Phase::Waiting]));
    assert_eq!((waiting.len(), looked), (200, [201, 201]), "waiting items have no order: the header decides");
}

#[test]
fn of_several_filters_with_an_index_the_narrowest_decides_how_many_items_are_looked_at() {
    let mut script = indexed(&["common"]);
    configure(&mut script, &["common", "rare"]);
    script.apply(open_group("g")).unwrap();
    let new =
        |rare: &str| NewItem { group: Some("g".into()), ..with(&script, &[("common", "x"), ("rare", rare)]) };
    let new: Vec<NewItem> = (0..100).map(|at| new(if at == 50 { "yes" } else { "no" })).collect();
    let made = script.produce(new);
    let lone =
        script.produce([NewItem { address: Some("here".into()), ..with(&script, &[("common", "x")]) }])[0];
    let both = asked(&[("common", "x"), ("rare", "yes")]);
    assert_eq!(found_and_looked(&script, &both), (vec![made[50]], [1, 1]));
    let in_group = Find { group: Some("g".into()), ..asked(&[("rare", "yes")]) };
    assert_eq!(found_and_looked(&script, &in_group), (vec![made[50]], [1, 1]));
    let here = Find { address: Some("here".into()), ..asked(&[("common", "x")]) };
    assert_eq!(found_and_looked(&script, &here), (vec![lone], [1, 1]));
    let nowhere = Find { group: Some("g".into()), ..here };
    assert_eq!(found_and_looked(&script, &nowhere), (vec![], [0, 0]));
}

#[test]
fn items_that_share_no_two_of_the_filters_are_looked_at_no_more_than_the_fewer_of_them() {
    let mut script = indexed(&["a", "b"]);
    let new = |at: usize| match at % 3 {
        0 => with(&script, &[("b", "x")]),
        _ => with(&script, &[("a", "x")]),
    };
    let new: Vec<NewItem> = (0..300).map(new).collect();
    script.produce(new);
    let both = asked(&[("a", "x"), ("b", "x")]);
    let (none, looked) = found_and_looked(&script, &both);
    assert!(none.is_empty() && looked.iter().all(|looked| (10..=100).contains(looked)), "{looked:?}");
    assert_eq!(in_pages(&script, &both, FindOrder::Newest), []);
}

#[test]
fn the_items_from_before_a_header_was_indexed_are_those_that_another_index_has() {
    let mut script = indexed(&["a"]);
    let of = |script: &Script, b: &str| with(script, &[("a", "x"), ("b", b)]);
    let old = script.produce([of(&script, "x"), with(&script, &[("a", "y"), ("b", "x")])])[0];
    script.produce(items(50));
    configure(&mut script, &["a", "b"]);
    let new: Vec<NewItem> = (0..50).map(|at| of(&script, if at == 20 { "x" } else { "y" })).collect();
    let new = script.produce(new)[20];
    let both = asked(&[("a", "x"), ("b", "x")]);
    assert_eq!(found_and_looked(&script, &both), (vec![old, new], [2, 2]));
}

#[test]
fn an_item_without_headers_is_not_left_to_the_record() {
    let mut script = Script::new();
    script.produce(items(1));
    let made = script.produce([with(&script, &[])])[0];
    let by_record = Find { by_record: true, ..Find::default() };
    let found = found(&script, &by_record, FindOrder::Oldest);
    assert_eq!(found.items.len(), 1);
    assert_eq!((found.items[0].item.number, found.items[0].to_verify), (made, true));
}

#[test]
fn an_item_whose_hashes_nobody_computed_may_have_any_header() {
    let mut script = indexed(&["tenant"]);
    let unknown = NewItem { hashes: Hashes::Unknown, ..with(&script, &[]) };
    let stale = with(&indexed(&["other"]), &[("other", "a")]);
    let new = [unknown, stale, with(&script, &[("tenant", "b")]), item("default")];
    let made = script.produce(new);
    let hashes = |number| script.get(number).extras.unwrap_or_default().header_hashes.to_vec();
    assert_eq!(hashes(made[0]), [MAY_HAVE_ANY]);
    assert_eq!(hashes(made[3]), []);
    assert_eq!(find(&script, &[("tenant", "a")]), (vec![made[0], made[1]], 2));
}

#[test]
fn nothing_is_kept_of_headers_in_a_queue_that_indexes_none() {
    let mut script = Script::new();
    let new = with(&indexed(&["tenant"]), &[("tenant", "a")]);
    let made = script.produce([new])[0];
    assert_eq!(script.get(made).extras.unwrap().header_hashes.to_vec(), []);
}

#[test]
fn a_change_of_the_setting_counts_for_later_items_and_older_ones_are_walked() {
    let mut script = indexed(&["tenant"]);
    let old = script.produce([with(&script, &[("tenant", "a"), ("trace", "x")]), item("default")]);
    configure(&mut script, &["trace", "tenant"]);
    let new = script.produce([with(&script, &[("tenant", "a"), ("trace", "x")]), item("default")]);
    assert_eq!(find(&script, &[("tenant", "a")]), (vec![old[0], new[0]], 2), "this name stayed");
    assert_eq!(find(&script, &[("trace", "x")]), (vec![old[0], new[0]], 3));
    assert_eq!(find(&script, &[("trace", "y")]), (vec![old[0]], 2), "the record tells");
    configure(&mut script, &[]);
    configure(&mut script, &["tenant"]);
    assert_eq!(find(&script, &[("tenant", "b")]), (vec![old[0], new[0]], 4), "the name came anew");
    let copy = rebuilt(&script.partition, START);
    assert_eq!(copy.settings(), script.partition.settings());
}

#[test]
fn the_older_items_of_a_change_are_those_of_the_states_that_are_asked_for() {
    let mut script = Script::new();
    script.produce(items(10));
    let failed = script.produce([NewItem { kind: "x".into(), ..with(&script, &[]) }]);
    let held = script.lease_with(1, crate::script::kinds(&["x"]))[0].held();
    script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
    configure(&mut script, &["tenant"]);
    let find = Find { phases: Some([Phase::Failed].into()), ..asked(&[("tenant", "a")]) };
    let found = found(&script, &find, FindOrder::Newest);
    assert_eq!((found.items[0].item.number, found.looked), (failed[0], 1));
}

#[test]
fn a_rerun_has_the_headers_of_the_item_that_ended() {
    let mut script = indexed(&["tenant"]);
    let made = script.produce([with(&script, &[("tenant", "a")])])[0];
    let rerun = |script: &mut Script, number| {
        let held = script.lease_one();
        script.retry(RetryItem { dead: true, ..again(held) }).unwrap();
        script.apply(Rerun { number, queue: "q".into(), delay: None }).unwrap().number
    };
    let second = rerun(&mut script, made);
    assert_eq!(find(&script, &[("tenant", "a")]), (vec![made, second], 2));
    assert_eq!(find(&script, &[("tenant", "b")]), (vec![], 0));
    configure(&mut script, &["tenant", "trace"]);
    let third = rerun(&mut script, second);
    assert_eq!(find(&script, &[("tenant", "b")]), (vec![third], 1), "not known under the new setting");
}

#[test]
fn an_end_item_has_the_headers_of_its_template() {
    let mut script = indexed(&["tenant"]);
    let end = Some(NewEnd { queue: None, item: with(&script, &[("tenant", "a")]) });
    script.apply(CreateGroup { end, items: items(1), ..open_group("g") }).unwrap();
    script.apply(StartGroup("g".into())).unwrap();
    let held = script.lease_one();
    script.complete(held, None).unwrap();
    assert_eq!(find(&script, &[("tenant", "a")]).1, 1);
    assert_eq!(find(&script, &[("tenant", "b")]).1, 0);
}

/// Bytes per item of a partition whose items have so many headers, all of which are indexed or none.
fn bytes_per_item(headers: usize, is_indexed: bool) -> f64 {
    const ITEMS: usize = 20_000;
    let names: Vec<String> = (0..headers).map(|at| format!("name{at}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut script = if is_indexed { indexed(&names) } else { Script::new() };
    let settings = script.partition.settings().clone();
    let new = |at: usize| {
        let value = at.to_string();
        let hashes = settings.hashes(names.iter().map(|name| (*name, &*value)));
        NewItem { facts: Some(Bytes::from_static(b"facts")), hashes, ..item("default") }
    };
    for first in (0..ITEMS).step_by(1000) {
        script.produce((first..first + 1000).map(new));
    }
    let mut copy = None;
    let taken = measure(|| copy = Some(rebuilt(&script.partition, START)));
    taken.bytes_current as f64 / ITEMS as f64
}

#[test]
fn an_indexed_header_takes_at_most_32_bytes_of_memory() {
    for headers in [1, 2, 8] {
        let each = (bytes_per_item(headers, true) - bytes_per_item(headers, false)) / headers as f64;
        println!("{headers} indexed headers: {each:.1} bytes each");
        assert!(each <= 32.0, "{each} bytes each of {headers}");
    }
}

/// What happens to a queue whose items have headers.
#[derive(Clone, Debug)]
enum Step {
    /// Values of the headers `a` and `b`, and whose hashes come with it: 0 nobody's, 1 older ones, 2 and 3 those of the settings.
    Produce(Option<u8>, Option<u8>, u8),
    Index(u8),
    Fail,
    Rerun(usize),
    /// The headers of an earlier item, as they are produced.
    Update(usize, Option<u8>, Option<u8>, u8),
    Clear,
    Sweep,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let value = || prop::option::of(0..3u8);
    prop_oneof![
        6 => (value(), value(), 0..4u8).prop_map(|(a, b, whose)| Step::Produce(a, b, whose)),
        1 => (0..4u8).prop_map(Step::Index),
        2 => Just(Step::Fail),
        1 => (0..10usize).prop_map(Step::Rerun),
        2 => (0..10usize, value(), value(), 0..4u8)
            .prop_map(|(at, a, b, whose)| Step::Update(at, a, b, whose)),
        1 => Just(Step::Clear),
        2 => Just(Step::Sweep),
        1 => Just(Step::Pass),
    ]
}

type Headers = BTreeMap<&'static str, &'static str>;

const VALUES: [&str; 3] = ["0", "1", "2"];

fn headers(a: Option<u8>, b: Option<u8>) -> Headers {
    let named = [("a", a), ("b", b)].into_iter();
    named.filter_map(|(name, value)| Some((name, VALUES[usize::from(value?)]))).collect()
}

fn names(bits: u8) -> Vec<&'static str> {
    ["a", "b"].into_iter().enumerate().filter(|(at, _)| bits & 1 << at != 0).map(|(_, name)| name).collect()
}

struct Queue {
    script: Script,
    earlier: Settings,
    made: BTreeMap<ItemNumber, Headers>,
}

impl Queue {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Produce(a, b, whose) => self.produce(headers(a, b), whose),
            Step::Index(bits) => {
                self.earlier = self.script.partition.settings().clone();
                let version = self.earlier.version + 1;
                let next = Settings { keep: Keep::All, ..settings(version, &names(bits)) };
                self.script.apply(Configure(next)).unwrap();
            }
            Step::Fail => {
                let leased = self.script.lease(1);
                for leased in leased {
                    self.script.retry(RetryItem { dead: true, ..again(leased.held()) }).unwrap();
                }
            }
            Step::Rerun(at) => {
                let Some(number) = self.made.keys().rev().nth(at).copied() else { return };
                let rerun = Rerun { number, queue: "q".into(), delay: None };
                if let Ok(produced) = self.script.apply(rerun) {
                    self.made.insert(produced.number, self.made[&number].clone());
                }
            }
            Step::Update(at, a, b, whose) => self.update(at, headers(a, b), whose),
            Step::Clear => {
                self.script.clear(Clear { waiting: true, scheduled: true, leased: true, suspended: true });
            }
            Step::Sweep => drop(self.script.sweep_some(3)),
            Step::Pass => self.script.pass(Span::from_secs(1)),
        }
    }

    fn hashes(&self, headers: &Headers, whose: u8) -> Hashes {
        let pairs = || headers.iter().map(|(name, value)| (*name, *value));
        match whose {
            0 => Hashes::Unknown,
            1 => self.earlier.hashes(pairs()),
            _ => self.script.partition.settings().hashes(pairs()),
        }
    }

    fn update(&mut self, at: usize, headers: Headers, whose: u8) {
        let Some(number) = self.made.keys().rev().nth(at).copied() else { return };
        let hashes = self.hashes(&headers, whose);
        let facts = (!headers.is_empty()).then(|| Bytes::from_static(b"facts"));
        let record = Some((Bytes::from_static(b"body"), facts));
        let update = UpdateItem { record, hashes, ..UpdateItem::new(number) };
        if self.script.apply(Update(vec![update])).unwrap().remove(0).is_ok() {
            self.made.insert(number, headers);
        }
    }

    fn produce(&mut self, headers: Headers, whose: u8) {
        let hashes = self.hashes(&headers, whose);
        let facts = (!headers.is_empty()).then(|| Bytes::from_static(b"facts"));
        let number = self.script.produce([NewItem { facts, hashes, ..item("default") }])[0];
        self.made.insert(number, headers);
    }

    /// What is found once the records were looked into is what a walk finds.
    fn check(&self) {
        let all = found(&self.script, &Find::default(), FindOrder::Oldest);
        let there = all.items.iter().map(|found| (found.item.number, found.item.state.phase()));
        let there: BTreeMap<ItemNumber, Phase> = there.collect();
        let wanted = [headers(Some(0), None), headers(None, Some(1)), headers(Some(2), Some(1))];
        let phases = [None, Some(BTreeSet::from([Phase::Failed, Phase::Cancelled]))];
        for (wanted, phases) in
            wanted.iter().flat_map(|wanted| phases.iter().map(move |phases| (wanted, phases)))
        {
            let has = |number: &ItemNumber| {
                wanted.iter().all(|(name, value)| self.made[number].get(name) == Some(value))
            };
            let is_asked_for = |phase: &Phase| phases.as_ref().is_none_or(|phases| phases.contains(phase));
            let expected = there.iter().filter(|(number, phase)| has(number) && is_asked_for(phase));
            let expected: Vec<ItemNumber> = expected.map(|(number, _)| *number).collect();
            let pairs: Vec<_> = wanted.iter().map(|(name, value)| (*name, *value)).collect();
            let find = Find { phases: phases.clone(), ..asked(&pairs) };
            for order in [FindOrder::Oldest, FindOrder::Newest] {
                let found = found(&self.script, &find, order);
                assert_eq!(in_pages(&self.script, &find, order), found.items, "{find:?} {order:?}");
                let mut numbers: Vec<_> = found.items.iter().map(|found| found.item.number).collect();
                assert!(order == FindOrder::Newest || numbers.is_sorted(), "{numbers:?}");
                numbers.sort_unstable();
                assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "twice: {numbers:?}");
                numbers.retain(has);
                assert_eq!(numbers, expected, "{find:?} {order:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_find_by_headers_misses_nothing_that_a_walk_finds(steps in prop::collection::vec(step(), 1..40)) {
        let mut queue = Queue {
            script: Script::with_settings(Settings { keep: Keep::All, ..Settings::default() }),
            earlier: Settings::default(),
            made: BTreeMap::new(),
        };
        for step in &steps {
            queue.step(step);
            queue.check();
        }
        assert_same(&rebuilt(&queue.script.partition, START), &queue.script.partition);
    }
}
