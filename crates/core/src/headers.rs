//! Headers by which items are found. The core never looks into records: whoever makes an item computes hashes of those of its
//! headers that the queue indexes, and whoever finds it by a hash looks into the record before the item is shown.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::hash::{fnv1a, splitmix64};
use crate::id::ItemNumber;
use crate::settings::Settings;

/// How many headers a queue may index.
pub const INDEXED_HEADERS_MAX: usize = 8;

/// The name that stands for an item's reference, which is not among its headers. A header of this name is not indexed.
pub const REFERENCE: &str = "reference";

/// Stands for the hashes of an item of which nobody computed them: the item may have any header. No header's hash.
pub const MAY_HAVE_ANY: u64 = 0;

/// FNV-1a of name, zero and value, through SplitMix64. Frozen: what is stored must be found again.
pub fn header_hash(name: &str, value: &str) -> u64 {
    let pair = [name.as_bytes(), &[0], value.as_bytes()].concat();
    match splitmix64(fnv1a(&pair)) {
        MAY_HAVE_ANY => MAY_HAVE_ANY + 1,
        hash => hash,
    }
}

/// Stands for the names of the headers that a queue indexes, in whatever order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedNames(pub u64);

impl IndexedNames {
    pub fn of(names: &[Arc<str>]) -> Self {
        let names: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
        let hashes = names.into_iter().map(|name| fnv1a(name.as_bytes()));
        Self(hashes.fold(0, |all, hash| splitmix64(all ^ hash)))
    }
}

/// What is known of the headers of an item to be. Of an item without facts it does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hashes {
    /// Nobody looked at its headers.
    #[default]
    Unknown,
    /// The hashes of those of its headers that have one of the names.
    Known { names: IndexedNames, hashes: Box<[u64]> },
}

impl Hashes {
    /// The bytes of it that have no fixed length.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Known { hashes, .. } => 8 * (1 + hashes.len()),
        }
    }
}

/// The hashes that the row of an item keeps, sorted. None and one take no memory of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct ItemHashes(Few);

#[derive(Clone, PartialEq, Eq)]
enum Few {
    /// `NONE` for none.
    AtMostOne(u64),
    /// More than one, or `NONE` as the hash of a header.
    Many(Box<[u64]>),
}

const NONE: u64 = u64::MAX;
const _: () = assert!(size_of::<ItemHashes>() <= 16, "memory of items with any extras is promised");

impl Deref for ItemHashes {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match &self.0 {
            Few::AtMostOne(NONE) => &[],
            Few::AtMostOne(hash) => std::slice::from_ref(hash),
            Few::Many(hashes) => hashes,
        }
    }
}

impl From<&[u64]> for ItemHashes {
    fn from(hashes: &[u64]) -> Self {
        Self(match hashes {
            [] => Few::AtMostOne(NONE),
            [hash] if *hash != NONE => Few::AtMostOne(*hash),
            many => Few::Many(many.into()),
        })
    }
}

impl Default for ItemHashes {
    fn default() -> Self {
        Self(Few::AtMostOne(NONE))
    }
}

impl fmt::Debug for ItemHashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Settings {
    /// What a new item with these headers is found by. Its reference is among them, under [`REFERENCE`], and no header of that
    /// name.
    pub fn hashes<'a>(&self, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Hashes {
        let is_indexed = |name: &str| self.indexed_headers.iter().any(|indexed| **indexed == *name);
        let indexed = headers.into_iter().filter(|(name, _)| is_indexed(name));
        let hashes: BTreeSet<u64> = indexed.map(|(name, value)| header_hash(name, value)).collect();
        let names = IndexedNames::of(&self.indexed_headers);
        Hashes::Known { names, hashes: hashes.into_iter().collect() }
    }

    /// The first item whose headers of a name are known for certain; none if the name is not indexed.
    pub(crate) fn indexed_since(&self, name: &str) -> Option<ItemNumber> {
        self.indexed_since.get(name).copied()
    }
}
