//! Items by address. An address is given again only once its item is final, so of all that bear it the latest made is
//! the one that holds it, if any does; else the latest that is still kept. Who was cleared has ended, and is to be seen
//! as such until the sweep writes it down.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::id::ItemNumber;
use crate::mutant::{self, Mutant};
use crate::partition::Partition;
use crate::partition::entry::Entry;
use crate::refusal::Refusal;

#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Addresses(BTreeSet<Addressed>);

/// An item as its address finds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::partition) struct Addressed {
    pub(in crate::partition) address: Arc<str>,
    pub(in crate::partition) number: ItemNumber,
}

impl Addressed {
    /// Nothing of an item whose move alone is left is to be seen.
    pub(in crate::partition) fn of(number: ItemNumber, entry: &Entry) -> Option<Self> {
        let address = entry.address().filter(|_| !entry.state.is_forgotten())?;
        Some(Self { address: Arc::clone(address), number })
    }
}

impl Addresses {
    pub(in crate::partition) fn insert(&mut self, addressed: Addressed) {
        self.0.insert(addressed);
    }

    pub(in crate::partition) fn remove(&mut self, addressed: &Addressed) {
        self.0.remove(addressed);
    }

    pub(in crate::partition) fn iter(&self) -> impl Iterator<Item = &Addressed> {
        self.0.iter()
    }

    fn latest(&self, address: &Arc<str>) -> Option<ItemNumber> {
        self.of(address, ItemNumber(0)..=ItemNumber(u64::MAX)).next_back()
    }

    /// The items of an address, by number.
    pub(in crate::partition) fn of(
        &self,
        address: &Arc<str>,
        numbers: RangeInclusive<ItemNumber>,
    ) -> impl DoubleEndedIterator<Item = ItemNumber> {
        let at = |number: &ItemNumber| Addressed { address: Arc::clone(address), number: *number };
        let addressed = self.0.range(at(numbers.start())..=at(numbers.end()));
        addressed.map(|addressed| addressed.number)
    }
}

impl Partition {
    /// The item that an address speaks of: the one that is not final, else the latest that is still kept.
    pub fn item_at(&self, address: &Arc<str>) -> Option<ItemNumber> {
        self.addresses.latest(address)
    }

    /// The item that holds an address: one that is not final.
    pub fn holder(&self, address: &Arc<str>) -> Option<ItemNumber> {
        let lives = |number: &_| self.visible(*number).is_some_and(|entry| !entry.state.phase().is_final());
        self.item_at(address).filter(lives)
    }

    pub(in crate::partition) fn check_address_free(&self, address: Option<&Arc<str>>) -> Result<(), Refusal> {
        match address.and_then(|address| self.holder(address)) {
            Some(number) if !mutant::active(Mutant::ShareAddress) => {
                Err(Refusal::DuplicateAddress { number })
            }
            Some(_) | None => Ok(()),
        }
    }
}
