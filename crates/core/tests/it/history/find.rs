//! Walks through all that matches some filters, one page after each step, and what must be true of them, said without an
//! index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::group::Member;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Item, Phase, State};
use windlass_core::partition::{Between, Find, FindOrder, FindSlice, Found};
use windlass_core::row::Row;
use windlass_core::time::{Span, Timestamp};

use super::{History, address_name, groups, kind_name};
use crate::script::START;

const FINAL: [Phase; 4] = [Phase::Completed, Phase::Failed, Phase::Cancelled, Phase::Expired];
const PAGES: [(usize, usize); 3] = [(1, 100), (2, 3), (100, 2)];

/// A walk on its way.
pub(super) struct Walk {
    slice: FindSlice,
    /// What was there when the walk began, and has matched after each step since.
    steady: BTreeSet<ItemNumber>,
    seen: BTreeSet<ItemNumber>,
}

type Shown = BTreeMap<ItemNumber, (Item, Option<Member>)>;

pub(super) fn filters() -> Vec<Find> {
    let phases =
        |phases: &[Phase]| Find { phases: Some(phases.iter().copied().collect()), ..Find::default() };
    let kinds = BTreeSet::from([kind_name(0), kind_name(2), "unknown".into()]);
    vec![
        Find::default(),
        phases(&FINAL),
        phases(&[Phase::Cancelled]),
        phases(&[Phase::Leased, Phase::Suspended]),
        phases(&[Phase::Held, Phase::Failed]),
        phases(&[]),
        Find { kinds: Some(kinds), ..phases(&[Phase::Suspended, Phase::Completed]) },
        Find { group: Some(groups::name(0)), ..Find::default() },
        Find { group: Some(groups::name(1)), ..phases(&[Phase::Cancelled, Phase::Waiting]) },
        Find { address: Some(address_name(0)), ..Find::default() },
        Find {
            address: Some(address_name(1)),
            ..phases(&[Phase::Leased, Phase::Suspended, Phase::Completed])
        },
        Find { group: Some(groups::name(0)), address: Some(address_name(1)), ..phases(&FINAL) },
        Find { group: Some(groups::name(1)), ..phases(&[Phase::Failed, Phase::Suspended]) },
        Find { error_code: Some("max_attempts".into()), ..Find::default() },
        Find { client_id: Some("worker".into()), moved: Some(false), ..Find::default() },
        Find { moved: Some(true), ..phases(&FINAL) },
        Find {
            created: Between { from: Some(START + Span::from_secs(3)), until: None },
            changed: Between { from: None, until: Some(START + Span::from_secs(60)) },
            ..Find::default()
        },
    ]
}

fn matches(find: &Find, item: &Item, member: Option<&Member>) -> bool {
    let held = member.is_some_and(|member| member.held);
    let phase = if held { Phase::Held } else { item.state.phase() };
    let extras = item.extras.clone().unwrap_or_default();
    let code = extras.error.as_ref().and_then(|error| error.code.clone());
    let client_id = item.started().map(|(_, client_id)| client_id.clone());
    let asked = |asked: &Option<Arc<str>>, has: Option<Arc<str>>| asked.is_none() || *asked == has;
    let within = |between: Between, at| {
        between.from.is_none_or(|from| at >= from) && between.until.is_none_or(|until| at < until)
    };
    find.phases.as_ref().is_none_or(|phases| phases.contains(&phase))
        && find.kinds.as_ref().is_none_or(|kinds| kinds.contains(&item.kind))
        && asked(&find.group, member.map(|member| member.group.clone()))
        && asked(&find.address, extras.address)
        && asked(&find.client_id, client_id)
        && asked(&find.error_code, code)
        && find.moved.is_none_or(|moved| moved == extras.moved_to.is_some())
        && within(find.created, item.created_at)
        && within(find.changed, item.changed_at())
}

fn matching(find: &Find, shown: &Shown) -> BTreeSet<ItemNumber> {
    let matches = shown.iter().filter(|(_, (item, member))| matches(find, item, member.as_ref()));
    matches.map(|(number, _)| *number).collect()
}

impl History {
    fn shown(&self) -> Shown {
        let member = |item: Item| (item.number, (item.clone(), self.partition.member(&item)));
        self.items().into_values().map(member).collect()
    }

    /// Each filter finds in one slice what it takes, and each walk goes on by one page.
    pub(super) fn check_finds(&mut self) {
        let shown = self.shown();
        for (at, find) in filters().into_iter().enumerate() {
            let expected = matching(&find, &shown);
            self.check_find(&find, &expected, &shown);
            for (which, order) in [FindOrder::Newest, FindOrder::Oldest].into_iter().enumerate() {
                self.go_on((at, which), &find, order, &expected);
            }
        }
    }

    /// Counted from what final items show, but for those that the sweep has still to write down.
    pub(super) fn check_errors(&self) {
        let mut expected: BTreeMap<Arc<str>, (u64, Timestamp, ItemNumber)> = BTreeMap::new();
        for row in self.partition.rows() {
            let Row::Item(item) = row else { continue };
            let State::Final(outcome) = &item.state else { continue };
            let shown = self.partition.get(item.number).and_then(|item| item.extras?.error);
            let Some(error) = shown else { continue };
            let (count, at, latest) =
                expected.entry(error.code.unwrap_or_default()).or_insert((0, Timestamp(0), item.number));
            *count += 1;
            (*at, *latest) = (*at, *latest).max((outcome.finished_at, item.number));
        }
        let told: BTreeMap<_, _> = self
            .partition
            .errors(usize::MAX)
            .into_iter()
            .map(|error| (error.code, (error.count, error.latest_at, error.latest)))
            .collect();
        assert_eq!(told, expected);
    }

    fn check_find(&self, find: &Find, expected: &BTreeSet<ItemNumber>, shown: &Shown) {
        let whole = |order| FindSlice {
            find: Arc::new(find.clone()),
            order,
            after: None,
            until: self.partition.find_until(),
            matches_max: usize::MAX,
            looks_max: usize::MAX,
        };
        let oldest = self.partition.find(&whole(FindOrder::Oldest));
        assert_eq!(oldest.after, None);
        assert!(numbers(&oldest).eq(expected.iter().copied()), "{find:?}: {oldest:?}");
        for found in &oldest.items {
            assert_eq!(
                (&found.item, &found.member),
                (&shown[&found.item.number].0, &shown[&found.item.number].1)
            );
        }
        let newest = self.partition.find(&whole(FindOrder::Newest));
        assert!(numbers(&newest).eq(expected.iter().rev().copied()), "{find:?}: {newest:?}");
    }

    fn go_on(&mut self, key: (usize, usize), find: &Find, order: FindOrder, expected: &BTreeSet<ItemNumber>) {
        let (matches_max, looks_max) = PAGES[(key.0 + key.1) % PAGES.len()];
        let until = self.partition.find_until();
        let begun = || Walk {
            slice: FindSlice {
                find: Arc::new(find.clone()),
                order,
                after: None,
                until,
                matches_max,
                looks_max,
            },
            steady: expected.clone(),
            seen: BTreeSet::new(),
        };
        let mut walk = self.walks.remove(&key).unwrap_or_else(begun);
        walk.steady.retain(|number| expected.contains(number));
        let found = self.partition.find(&walk.slice);
        assert!(found.looked <= looks_max && found.items.len() <= matches_max);
        for number in numbers(&found) {
            assert!(expected.contains(&number) && number <= walk.slice.until, "{find:?} shows {number:?}");
            assert!(walk.seen.insert(number), "{find:?} shows {number:?} twice");
        }
        if found.after.is_some() {
            walk.slice.after = found.after;
            self.walks.insert(key, walk);
        } else {
            let missed: Vec<_> = walk.steady.difference(&walk.seen).collect();
            assert!(missed.is_empty(), "{find:?} does not show {missed:?}");
        }
    }
}

fn numbers(found: &Found) -> impl Iterator<Item = ItemNumber> {
    found.items.iter().map(|found| found.item.number)
}
