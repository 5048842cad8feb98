//! The kinds of the partition's items: each name once, items hold its index.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::KINDS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::partition) struct KindIndex(u16);

const _: () = assert!(KINDS_MAX < u16::MAX as usize, "a kind must fit its index");

impl KindIndex {
    pub(in crate::partition) const MIN: Self = Self(u16::MIN);
    pub(in crate::partition) const MAX: Self = Self(u16::MAX);

    /// The kind at a position of such a list.
    pub(in crate::partition) fn at(position: usize) -> Self {
        Self(u16::try_from(position).expect("kinds are bounded far below"))
    }

    /// For whoever keeps something of each kind in a list.
    pub(in crate::partition) fn position(self) -> usize {
        self.0.into()
    }
}

#[derive(Default)]
pub(in crate::partition) struct Kinds {
    by_name: BTreeMap<Arc<str>, KindIndex>,
    slots: Vec<Slot>,
    free: Vec<KindIndex>,
    /// The last one asked for: a batch is mostly of one kind.
    latest: usize,
}

struct Slot {
    name: Arc<str>,
    /// At none, the kind is forgotten and the slot free.
    items: u64,
}

impl Kinds {
    pub(in crate::partition) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(in crate::partition) fn find(&self, name: &str) -> Option<KindIndex> {
        self.by_name.get(name).copied()
    }

    pub(in crate::partition) fn name(&self, kind: KindIndex) -> &Arc<str> {
        &self.slots[kind.0 as usize].name
    }

    /// The index for a name, new or not. Counts no item: [`Kinds::join`] does, and must follow.
    pub(in crate::partition) fn index(&mut self, name: &Arc<str>) -> KindIndex {
        if let Some(slot) = self.slots.get(self.latest)
            && slot.items > 0
            && slot.name == *name
        {
            return KindIndex(self.latest as u16);
        }
        let kind = self.find(name).unwrap_or_else(|| self.add(name.clone()));
        self.latest = kind.0 as usize;
        kind
    }

    fn add(&mut self, name: Arc<str>) -> KindIndex {
        let slot = Slot { name: name.clone(), items: 0 };
        let kind = match self.free.pop() {
            Some(kind) => {
                self.slots[kind.0 as usize] = slot;
                kind
            }
            None => {
                self.slots.push(slot);
                KindIndex(u16::try_from(self.slots.len() - 1).expect("kinds are bounded far below"))
            }
        };
        self.by_name.insert(name, kind);
        kind
    }

    /// One more item of this kind.
    pub(in crate::partition) fn join(&mut self, kind: KindIndex) {
        self.slots[kind.0 as usize].items += 1;
    }

    /// One item less.
    pub(in crate::partition) fn part(&mut self, kind: KindIndex) {
        let slot = &mut self.slots[kind.0 as usize];
        slot.items -= 1;
        if slot.items == 0 {
            self.by_name.remove(&slot.name);
            self.free.push(kind);
        }
    }

    /// Every kind and how many items it has, by name.
    pub(in crate::partition) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.by_name.iter().map(|(name, kind)| (name, self.slots[kind.0 as usize].items))
    }
}
