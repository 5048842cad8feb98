//! What items are found by that have headers or a reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Partition;
use super::entry::Entry;
use crate::headers::{Hashes, IndexedNames, ItemHashes, MAY_HAVE_ANY};
use crate::id::ItemNumber;
use crate::settings::Settings;

impl Partition {
    /// What the row of an item with so many bytes of facts keeps of its hashes. Hashes of other names than the queue indexes now
    /// say nothing.
    pub(super) fn header_hashes(&self, hashes: &Hashes, facts_bytes: u64) -> ItemHashes {
        if facts_bytes == 0 || self.settings.indexed_headers.is_empty() {
            return ItemHashes::default();
        }
        match hashes {
            Hashes::Known { names, hashes } if *names == self.indexed_names() => ItemHashes::from(&**hashes),
            Hashes::Known { .. } | Hashes::Unknown => ItemHashes::from(&[MAY_HAVE_ANY][..]),
        }
    }

    fn indexed_names(&self) -> IndexedNames {
        IndexedNames::of(&self.settings.indexed_headers)
    }

    /// Hashes for a copy of this item: `Unknown` unless the item was hashed under every currently indexed name.
    pub(super) fn hashes_of(&self, number: ItemNumber, entry: &Entry) -> Hashes {
        let names = &self.settings.indexed_headers;
        let is_known =
            |name: &Arc<str>| self.settings.indexed_since(name).is_some_and(|since| since <= number);
        if !names.iter().all(is_known) {
            return Hashes::Unknown;
        }
        Hashes::Known { names: self.indexed_names(), hashes: entry.header_hashes().into() }
    }

    /// From which item on each of the names counts. A name that was indexed before goes on counting.
    pub(super) fn indexed_since(&self, settings: &Settings) -> BTreeMap<Arc<str>, ItemNumber> {
        let next = ItemNumber(self.numbers.item + 1);
        let since = |name: &Arc<str>| self.settings.indexed_since(name).unwrap_or(next);
        settings.indexed_headers.iter().map(|name| (Arc::clone(name), since(name))).collect()
    }
}
