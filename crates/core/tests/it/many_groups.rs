//! Costs of stats, lists and clears beside many groups, counted in lanes, groups and items looked at.

use windlass_core::effort::{Looked, looks};
use windlass_core::group::GroupState;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::partition::{Counts, Partition, Reason};
use windlass_core::verb::Verb;
use windlass_core::verbs::{CancelGroup, Clear, CreateGroup, List, Produce};

use crate::script::{START, assert_same, item, items, open_group, rebuilt};

const FEW: usize = 10;
const MANY: usize = 20_000;
const PAGE: usize = 20;
const WAITING: Clear = Clear { waiting: true, scheduled: false, leased: false, suspended: false };

fn apply<V: Verb>(partition: &mut Partition, verb: V) -> V::Reply {
    partition.apply(START, verb).reply.unwrap()
}

fn clear(partition: &mut Partition) -> u64 {
    apply(partition, WAITING)
}

/// Groups of two members each, every second one started, and then an item that stands behind them all.
fn with_groups(groups: usize) -> Partition {
    let mut partition = Partition::new(PartitionId(1), START);
    for number in 0..groups {
        let start = number % 2 == 0;
        apply(
            &mut partition,
            CreateGroup { items: items(2), start, ..open_group(&format!("group-{number}")) },
        );
    }
    apply(&mut partition, Produce { items: vec![item("default")] });
    // As a writer does after each commit.
    partition.next_oldest_waiting();
    partition
}

fn page(partition: &Partition, pivot: Option<ItemNumber>) -> Vec<ItemNumber> {
    let items = partition.list(List::Queue, pivot, PAGE).unwrap();
    items.into_iter().map(|item| item.number).collect()
}

fn whole_list(partition: &Partition) -> Vec<ItemNumber> {
    let items = partition.list(List::Queue, None, usize::MAX).unwrap();
    items.into_iter().map(|item| item.number).collect()
}

/// How many lanes, groups and items some work looks at, and what comes of it.
fn looks_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = looks(Looked::Indexed);
    let done = work();
    (looks(Looked::Indexed) - before, done)
}

/// Asserts that `looks`, which tells how many looks something takes, grows little from few groups to many.
fn assert_bounded(looks: impl Fn(Partition) -> u64) {
    let (few, many) = (looks(with_groups(FEW)), looks(with_groups(MANY)));
    assert!(many <= few + 500, "{few} looks beside {FEW} groups, {many} beside {MANY}");
}

#[test]
fn stats_do_not_look_at_every_group() {
    assert_bounded(|partition| {
        let stats = || (partition.kind_counts(), partition.oldest_waiting(), partition.waiting_by_priority());
        looks_of(stats).0
    });
    let counts = with_groups(MANY).kind_counts();
    let (waiting, held) = (MANY as u64 + 1, MANY as u64);
    assert_eq!(counts["default"], Counts { waiting, held, ..Counts::default() });
}

#[test]
fn a_page_looks_at_what_it_shows() {
    assert_bounded(|partition| looks_of(|| assert_eq!(page(&partition, None).len(), PAGE)).0);
    // Anywhere in the queue.
    assert_bounded(|partition| {
        let all = whole_list(&partition);
        let (pivot, rest) = (all[all.len() - PAGE - 1], &all[all.len() - PAGE..]);
        looks_of(|| assert_eq!(page(&partition, Some(pivot)), rest)).0
    });
}

#[test]
fn pages_show_the_queue_in_its_order() {
    let partition = with_groups(100);
    let all = whole_list(&partition);
    assert_eq!(all.len(), 201);
    assert!(all.is_sorted());
    let mut paged = page(&partition, None);
    while let Some(pivot) = paged.last().copied().filter(|_| paged.len() < all.len()) {
        paged.extend(page(&partition, Some(pivot)));
    }
    assert_eq!(paged, all);
}

#[test]
fn a_clear_looks_at_few_groups_and_the_sweep_ends_the_rest() {
    assert_bounded(|mut partition| looks_of(|| clear(&mut partition)).0);
    let mut partition = with_groups(MANY);
    assert_eq!(clear(&mut partition), 2 * MANY as u64 + 1);
    assert_eq!(partition.counts(), Counts::default());
    assert!(partition.kind_counts().is_empty());
    assert_eq!(partition.oldest_waiting(), None);
    assert!(whole_list(&partition).is_empty());
    let left = partition.group("group-1").unwrap();
    assert_eq!((left.live, left.ended.cancelled), (Counts::default(), 2));
    let started = MANY as u64 / 2;
    let ended = |partition: &Partition| {
        let groups = partition.list_groups(None, MANY).into_iter();
        groups.filter(|group| matches!(group.state, GroupState::Done { .. })).count() as u64
    };
    assert_eq!(partition.unfinished() + ended(&partition), started, "those that were started are to end");
    partition.audit().unwrap();
    assert_same(&rebuilt(&partition, START), &partition);
    while partition.sweep(START, 1000).reply.unwrap() > 0 {}
    assert_eq!((partition.unfinished(), ended(&partition)), (0, started));
    partition.audit().unwrap();
}

#[test]
fn members_that_were_cancelled_or_cleared_are_on_no_page() {
    let mut partition = with_groups(4);
    apply(&mut partition, CancelGroup("group-0".into()));
    assert_eq!(whole_list(&partition).len(), 7);
    assert_eq!(clear(&mut partition), 7);
    assert!(whole_list(&partition).is_empty());
    apply(&mut partition, Produce { items: items(1) });
    assert_eq!(whole_list(&partition).len(), 1);
    partition.audit().unwrap();
}

#[test]
fn an_item_before_many_groups_is_explained_without_a_look_at_them() {
    assert_bounded(|partition| {
        let first = whole_list(&partition)[0];
        let (looks, explained) = looks_of(|| partition.explain(first).unwrap());
        assert!(!explained.reasons.iter().any(|reason| matches!(reason, Reason::Behind { .. })));
        looks
    });
}
