//! Items that come in: produced, produced once by a key, and imported.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::id::ItemNumber;
use windlass_core::item::Item;
use windlass_core::limits::IDEMPOTENCY_MARGIN;
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{
    Claim, Digest, Import, ImportItem, NewItem, Produce, ProduceOnce, Produced, ProducedOnce,
};

use super::{History, Imported, New, address_name, groups, intake, kind_name};
use crate::script::START;

/// A call with a key: when it was claimed, its digest, and what was answered.
pub(super) type Call = (Timestamp, Digest, Vec<Result<Produced, Refusal>>);

const DAY: Span = Span::from_secs(24 * 3600);

impl History {
    pub(super) fn produce(&mut self, items: &[New]) {
        let items: Vec<_> = items.iter().map(|item| self.new_item(*item)).collect();
        let takes = self.takes_all(&items);
        let reply = self.apply(Produce { items: items.clone() });
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        let produced = reply.expect("nothing stands against it");
        self.produced(&items, produced);
    }

    fn takes_all(&self, items: &[NewItem]) -> bool {
        items.iter().all(|item| self.takes(item.group.as_deref(), item.address.as_deref()))
    }

    /// The first call of a key within a day is carried out; the same again is told the same, and another one nothing.
    pub(super) fn produce_once(&mut self, key: u8, claimed: Option<u8>, new: &[New]) {
        let items: Vec<_> = new.iter().map(|item| self.new_item(*item)).collect();
        let digest = [new.len() as u8; 16];
        let claim = match claimed {
            None => Claim::First,
            // One of a few moments, so that some claims come again.
            Some(ago) => Claim::Of(Timestamp(self.now.0 / DAY.0 * DAY.0 + u64::from(ago))),
        };
        let kept = if claim == Claim::First { DAY } else { Span(DAY.0 + IDEMPOTENCY_MARGIN.0) };
        let known = self.calls.get(&key).filter(|(claimed_at, ..)| self.now < *claimed_at + kept).cloned();
        let overtaken =
            |(claimed_at, ..): &(Timestamp, _, _)| matches!(claim, Claim::Of(of) if of < *claimed_at);
        let overtaken = known.as_ref().is_some_and(overtaken);
        let known = known.filter(|(claimed_at, ..)| claim == Claim::First || claim == Claim::Of(*claimed_at));
        let key_name = intake::call_name(key);
        let by_call = claim == Claim::First || items.iter().any(|item| item.key().is_none());
        let takes = self.takes_all(&items) && (!by_call || self.takes_name(&key_name));
        let (indexes, held) = (Vec::new(), BTreeMap::new());
        let produce = ProduceOnce { key: key_name, digest, claim, indexes, held, items: items.clone() };
        let reply = self.apply(produce);
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        match known {
            _ if overtaken => assert_eq!(reply, Err(Refusal::KeyTaken)),
            Some((_, other, _)) if other != digest && claim == Claim::First => {
                assert_eq!(reply, Err(Refusal::KeyTaken));
            }
            Some((claimed_at, first, told)) => {
                let produced = once_told(reply, claimed_at);
                let again = told.len().min(items.len());
                assert_eq!(produced[..again], told[..again]);
                // A call of another moment has more items: the partition's part of the call has grown.
                if items.len() > again {
                    self.calls.insert(key, (claimed_at, first, produced.clone()));
                    self.produced(&items[again..], produced[again..].to_vec());
                }
            }
            None => {
                let ProducedOnce { claimed_at, items: produced } = reply.unwrap();
                self.calls.insert(key, (claimed_at, digest, produced.clone()));
                self.produced(&items, produced);
            }
        }
    }

    fn produced(&mut self, items: &[NewItem], produced: Vec<Result<Produced, Refusal>>) {
        for (item, produced) in items.iter().zip(produced) {
            let produced = produced.map(|produced| produced.number);
            let Some(number) = self.came(item.group.as_deref(), item.address.as_ref(), produced) else {
                continue;
            };
            self.produced_one(number, item);
        }
    }

    pub(super) fn produced_one(&mut self, number: ItemNumber, item: &NewItem) {
        self.not_before.insert(number, self.due_at(item).unwrap_or_default());
        let max_attempts = item.max_attempts.unwrap_or(self.settings.max_attempts);
        self.max_attempts.insert(number, max_attempts);
        self.made(number, item.dead_timeout);
    }

    /// An import gives new numbers, and keeps everything else.
    pub(super) fn import(&mut self, items: &[Imported]) {
        let import = |&(kind, priority, due, attempts, address, group): &Imported| ImportItem {
            kind: kind_name(kind),
            priority,
            group: group.map(groups::name),
            created_at: Some(START),
            changed_at: None,
            started: None,
            attempts: attempts.into(),
            due_at: (due > 0).then(|| self.now + Span::from_secs(due.into())),
            max_attempts: Some(u32::from(attempts) + 2),
            dead_timeout: (attempts == 2).then_some(Span::from_secs(60)),
            address: address.map(address_name),
            origin: None,
            cron: None,
            error: None,
            suspended: None,
            body: Bytes::new(),
            facts: None,
            hashes: Hashes::Unknown,
        };
        let items: Vec<_> = items.iter().map(import).collect();
        let takes = items.iter().all(|item| self.takes(item.group.as_deref(), item.address.as_deref()));
        let reply = self.apply(Import { items: items.clone() });
        if !takes {
            assert_eq!(reply, Err(Refusal::Moved));
            return;
        }
        let imported = reply.expect("nothing stands against it");
        for (item, imported) in items.into_iter().zip(imported) {
            let imported = imported.map(|imported| imported.number);
            let Some(number) = self.came(item.group.as_deref(), item.address.as_ref(), imported) else {
                continue;
            };
            self.not_before.insert(number, item.due_at.unwrap_or_default());
            self.attempts.insert(number, item.attempts);
            self.max_attempts.insert(number, item.attempts + 2);
            self.dead_at.extend(item.dead_timeout.map(|timeout| (number, START + timeout)));
        }
    }

    /// A new item, unless its group does not take it or one that is not final has its address.
    fn came(
        &mut self,
        group: Option<&str>,
        address: Option<&Arc<str>>,
        made: Result<ItemNumber, Refusal>,
    ) -> Option<ItemNumber> {
        if let Some(refusal) = self.refused_by_group(group) {
            assert_eq!(made, Err(refusal));
            return None;
        }
        let holder = address.and_then(|address| self.holders_of_addresses.get(address).copied());
        let holder = holder.filter(|number| self.is_live(*number));
        match (holder, made) {
            (Some(number), made) => {
                assert_eq!(made, Err(Refusal::DuplicateAddress { number }));
                None
            }
            (None, made) => {
                let number = made.expect("nothing stands against it");
                self.joined(group);
                self.arrived(address, number);
                Some(number)
            }
        }
    }

    pub(super) fn arrived(&mut self, address: Option<&Arc<str>>, number: ItemNumber) {
        assert!(self.made.last().is_none_or(|last| *last < number), "a number came again");
        self.made.push(number);
        self.holders_of_addresses.extend(address.map(|address| (address.clone(), number)));
    }

    pub(super) fn is_live(&self, number: ItemNumber) -> bool {
        self.partition.get(number).is_some_and(|item| !item.state.phase().is_final())
    }

    /// An address speaks of the latest item that bears it, if anything of that is left, or else of an earlier one.
    pub(super) fn check_addresses(&self) {
        let items = self.items();
        for address in (0..3).map(address_name) {
            let bears = |item: &&Item| {
                item.extras.as_ref().is_some_and(|extras| extras.address.as_ref() == Some(&address))
            };
            let latest = items.values().filter(bears).map(|item| item.number).max();
            assert_eq!(self.partition.item_at(&address), latest);
        }
    }

    pub(super) fn made(&mut self, number: ItemNumber, dead_timeout: Option<Span>) {
        let dead_timeout = dead_timeout.unwrap_or(self.settings.dead_timeout);
        if dead_timeout != Span::ZERO {
            self.dead_at.insert(number, self.now + dead_timeout);
        }
        let kept = self.partition.get(number).unwrap().extras.and_then(|extras| extras.dead_timeout);
        assert_eq!(kept.unwrap_or_default(), dead_timeout);
    }

    pub(super) fn due_at(&self, item: &NewItem) -> Option<Timestamp> {
        item.enqueue_at.or(item.delay.map(|delay| self.now + delay))
    }

    pub(super) fn new_item(
        &self,
        (kind, priority, due, max_attempts, lives, address, group): New,
    ) -> NewItem {
        NewItem {
            kind: kind_name(kind),
            priority,
            group: group.map(groups::name),
            enqueue_at: (due > 0 && due % 2 == 0).then(|| self.now + Span::from_secs(due.into())),
            delay: (due % 2 == 1).then(|| Span::from_secs(due.into())),
            max_attempts: max_attempts.map(u32::from),
            dead_timeout: lives.map(|secs| Span::from_secs(secs.into())),
            address: address.map(address_name),
            body: Bytes::new(),
            facts: None,
            hashes: Hashes::Unknown,
        }
    }
}

fn once_told(reply: Result<ProducedOnce, Refusal>, claimed: Timestamp) -> Vec<Result<Produced, Refusal>> {
    let ProducedOnce { claimed_at, items } = reply.unwrap();
    assert_eq!(claimed_at, claimed);
    items
}
