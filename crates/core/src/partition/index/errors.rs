//! The error codes of final items that are kept: how many items have each, and which of them ended last. Every code is kept,
//! also beyond the number that is told, so that which ones are told depends on the items alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::containers::SortedMap;
use crate::effort::{self, Looked};
use crate::id::ItemNumber;
use crate::partition::index::lanes::Key;
use crate::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CodeIndex(u32);

#[derive(Default)]
pub(in crate::partition) struct Errors {
    by_name: BTreeMap<Arc<str>, CodeIndex>,
    codes: Vec<Code>,
    free: Vec<CodeIndex>,
    /// The items of each code by the time of their end.
    ends: SortedMap<(CodeIndex, Timestamp, ItemNumber), ()>,
    /// The most frequent first.
    by_count: BTreeSet<(Reverse<u64>, Arc<str>, CodeIndex)>,
    by_latest: BTreeSet<(Timestamp, ItemNumber, CodeIndex)>,
}

const _: () = assert!(size_of::<(CodeIndex, Timestamp, ItemNumber)>() <= 24, "memory per error is promised");

struct Code {
    name: Arc<str>,
    count: u64,
    latest: (Timestamp, ItemNumber),
}

/// An item that ended with an error.
#[derive(Clone, Debug)]
pub(in crate::partition) struct Failure {
    /// Empty if the error has none.
    pub(in crate::partition) code: Arc<str>,
    pub(in crate::partition) at: Timestamp,
    pub(in crate::partition) number: ItemNumber,
}

/// How many items have a code, and which of them ended last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::partition) struct Share {
    pub(in crate::partition) code: Arc<str>,
    pub(in crate::partition) count: u64,
    pub(in crate::partition) latest: (Timestamp, ItemNumber),
}

impl Errors {
    pub(in crate::partition) fn insert(&mut self, failure: &Failure) {
        let Failure { code, at, number } = failure;
        let latest = (*at, *number);
        let index = match self.by_name.get(code) {
            Some(index) => *index,
            None => self.add(Arc::clone(code)),
        };
        self.ends.insert((index, *at, *number), ());
        self.take_out_of_orders(index);
        let code = self.code_mut(index);
        code.latest = if code.count == 0 { latest } else { code.latest.max(latest) };
        code.count += 1;
        self.put_in_orders(index);
    }

    pub(in crate::partition) fn remove(&mut self, failure: &Failure) {
        let index =
            *self.by_name.get(&failure.code).expect("the code of an item is known while it has items");
        self.ends.remove(&(index, failure.at, failure.number));
        self.take_out_of_orders(index);
        let last = (index, Timestamp(u64::MAX), ItemNumber(u64::MAX));
        let latest = self.ends.range_back(..=last).next().filter(|((of, _, _), ())| *of == index);
        let Some(((_, at, number), ())) = latest else {
            self.by_name.remove(&failure.code);
            self.free.push(index);
            return;
        };
        let code = self.code_mut(index);
        code.latest = (at, number);
        code.count -= 1;
        self.put_in_orders(index);
    }

    fn add(&mut self, name: Arc<str>) -> CodeIndex {
        let code = Code { name: Arc::clone(&name), count: 0, latest: (Timestamp(0), ItemNumber(0)) };
        let index = match self.free.pop() {
            Some(index) => {
                self.codes[index.0 as usize] = code;
                index
            }
            None => {
                self.codes.push(code);
                CodeIndex(u32::try_from(self.codes.len() - 1).expect("kept items are bounded far below"))
            }
        };
        self.by_name.insert(name, index);
        index
    }

    fn code(&self, index: CodeIndex) -> &Code {
        &self.codes[index.0 as usize]
    }

    fn code_mut(&mut self, index: CodeIndex) -> &mut Code {
        &mut self.codes[index.0 as usize]
    }

    fn take_out_of_orders(&mut self, index: CodeIndex) {
        let Code { name, count, latest: (at, number) } = self.code(index);
        let (by_count, by_latest) = ((Reverse(*count), Arc::clone(name), index), (*at, *number, index));
        self.by_count.remove(&by_count);
        self.by_latest.remove(&by_latest);
    }

    fn put_in_orders(&mut self, index: CodeIndex) {
        let Code { name, count, latest: (at, number) } = self.code(index);
        let (by_count, by_latest) = ((Reverse(*count), Arc::clone(name), index), (*at, *number, index));
        self.by_count.insert(by_count);
        self.by_latest.insert(by_latest);
    }

    fn share(&self, index: CodeIndex) -> Share {
        let Code { name, count, latest } = self.code(index);
        Share { code: Arc::clone(name), count: *count, latest: *latest }
    }

    /// The most frequent codes, and what all others come to under the name `rest`.
    pub(in crate::partition) fn shares(
        &self,
        codes_max: usize,
        rest: &Arc<str>,
    ) -> (Vec<Share>, Option<Share>) {
        let first = self.by_count.iter().take(codes_max).inspect(|_| effort::look(Looked::Indexed));
        let told: BTreeSet<CodeIndex> = first.clone().map(|(_, _, index)| *index).collect();
        let shares: Vec<Share> = first.map(|(_, _, index)| self.share(*index)).collect();
        let count = self.ends.len() as u64 - shares.iter().map(|share| share.count).sum::<u64>();
        // No more codes are passed over than are told.
        let latest = self.by_latest.iter().rev().find(|(_, _, index)| !told.contains(index));
        let others =
            latest.map(|(at, number, _)| Share { code: Arc::clone(rest), count, latest: (*at, *number) });
        (shares, others)
    }

    /// By name: the order in which codes came up differs between a partition and its rebuilt self.
    fn shown(&self) -> Shown<'_> {
        let name = |index: CodeIndex| &self.code(index).name;
        let mut ends: BTreeMap<&Arc<str>, Vec<Key>> = BTreeMap::new();
        for ((index, at, number), ()) in &self.ends {
            ends.entry(name(index)).or_default().push((at.0, number));
        }
        let by_count = self.by_count.iter().map(|(Reverse(count), name, _)| (*count, name)).collect();
        let by_latest =
            self.by_latest.iter().map(|(at, number, index)| (at.0, *number, name(*index))).collect();
        (ends, by_count, by_latest)
    }
}

type Shown<'a> =
    (BTreeMap<&'a Arc<str>, Vec<Key>>, Vec<(u64, &'a Arc<str>)>, Vec<(u64, ItemNumber, &'a Arc<str>)>);

impl PartialEq for Errors {
    fn eq(&self, other: &Self) -> bool {
        self.shown() == other.shown()
    }
}

impl fmt::Debug for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}
