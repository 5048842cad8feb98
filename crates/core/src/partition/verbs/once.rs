//! Calls that are carried out once, however often they are sent: each is remembered under its key, with its answers.
//!
//! A call may concern several partitions. The home of its key claims it first; the others go by that claim, so that
//! they never take a call for one that its home has forgotten, or for another one of the same key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::footprint::Footprint;
use crate::id::ItemId;
use crate::limits::{
    IDEMPOTENCY_BYTES_MAX, IDEMPOTENCY_KEPT, IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_MARGIN, Invalid,
    check_idempotency_key, check_items,
};
use crate::mutant::{self, Mutant};
use crate::partition::verbs::route::Keys;
use crate::partition::{Output, Partition};
use crate::refusal::{Each, Refusal};
use crate::route::Slot;
use crate::row::{Answers, Key, Once, Row};
use crate::time::Timestamp;
use crate::verb::{Decided, Verb};
use crate::verbs::{NewItem, Produced};

/// Produces the share that one partition has of a call. The call is carried out once, however often it is sent.
#[derive(Clone, Debug)]
pub struct ProduceOnce {
    /// The client's name for the call.
    pub key: Arc<str>,
    /// Of all items of the call, those for other partitions included.
    pub digest: Digest,
    pub claim: Claim,
    /// Which items of the call these are. Empty: all of them.
    pub indexes: Vec<u16>,
    /// Those of them whose address an item of another partition holds, which was home to it before.
    pub held: BTreeMap<u16, ItemId>,
    /// None at the home of the key, if all belong elsewhere.
    pub items: Vec<NewItem>,
}

/// Calls with the same digest are the same.
pub type Digest = [u8; 16];

/// The partition that decides whether a key is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The home of the key does.
    First,
    /// Another partition goes by the moment at which the home did.
    Of(Timestamp),
}

/// Answers [`ProduceOnce`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProducedOnce {
    /// When the home of the key took note of the call for the first time.
    pub claimed_at: Timestamp,
    pub items: Each<Produced>,
}

type Answer = Result<Produced, Refusal>;

/// The calls that are remembered.
#[derive(Debug, Default, PartialEq)]
pub(in crate::partition) struct Calls {
    by_key: BTreeMap<Arc<str>, Once>,
    /// By when they are forgotten.
    ends: BTreeSet<(Timestamp, Arc<str>)>,
    bytes: usize,
}

impl Calls {
    pub(in crate::partition) fn insert(&mut self, once: Once) {
        let _replaced = self.remove(&once.key);
        self.bytes += once.bytes();
        self.ends.insert((once.removed_at(), Arc::clone(&once.key)));
        self.by_key.insert(Arc::clone(&once.key), once);
    }

    pub(in crate::partition) fn remove(&mut self, key: &str) -> Option<Once> {
        let once = self.by_key.remove(key)?;
        self.bytes -= once.bytes();
        self.ends.remove(&(once.removed_at(), Arc::clone(&once.key)));
        Some(once)
    }

    pub(in crate::partition) fn iter(&self) -> impl Iterator<Item = &Once> {
        self.by_key.values()
    }

    /// The next one to be forgotten, and when.
    pub(in crate::partition) fn next_end(&self) -> Option<(Timestamp, &Arc<str>)> {
        self.ends.first().map(|(at, key)| (*at, key))
    }

    pub(in crate::partition) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn get(&self, key: &str, now: Timestamp) -> Option<&Once> {
        self.by_key.get(key).filter(|once| now < once.forgotten_at())
    }

    /// A claim is its home's word that the call is remembered: whoever goes by it must not have forgotten it before.
    fn get_by(&self, claim: Claim, key: &str, now: Timestamp) -> Option<&Once> {
        match claim {
            Claim::First => self.get(key, now),
            Claim::Of(_) => self.by_key.get(key).filter(|once| now < once.removed_at()),
        }
    }
}

impl Once {
    fn of(
        key: Arc<str>,
        digest: Digest,
        claimed_at: Timestamp,
        answers: &BTreeMap<u16, Answer>,
        slots: BTreeSet<Slot>,
        unknown: Vec<u8>,
    ) -> Self {
        // Those of a call that all went to one partition need not be told apart.
        let is_whole = answers.keys().copied().eq(0..answers.len() as u16);
        let indexes = if is_whole { Box::default() } else { answers.keys().copied().collect() };
        let answers: Vec<Answer> = answers.values().cloned().collect();
        let slots = slots.into_iter().collect();
        Self { key, digest, claimed_at, indexes, answers: Answers::of(&answers), slots, unknown }
    }

    /// What the items of the call were answered that were answered here.
    pub fn by_index(&self) -> BTreeMap<u16, Answer> {
        let answers = self.answers.unpack();
        let indexes =
            if self.indexes.is_empty() { (0..answers.len() as u16).collect() } else { self.indexes.clone() };
        indexes.iter().copied().zip(answers).collect()
    }

    fn forgotten_at(&self) -> Timestamp {
        self.claimed_at + IDEMPOTENCY_KEPT
    }

    fn removed_at(&self) -> Timestamp {
        self.forgotten_at() + IDEMPOTENCY_MARGIN
    }
}

impl Verb for ProduceOnce {
    type Reply = ProducedOnce;
    const FOOTPRINT: Footprint = Footprint::Grows;

    fn check(&self) -> Result<(), Invalid> {
        check_idempotency_key(&self.key)?;
        if self.items.is_empty() { Ok(()) } else { check_items(&self.items) }
    }

    fn body_bytes(&self) -> usize {
        self.items.iter().map(NewItem::bytes).sum()
    }

    fn decide(self, partition: &mut Partition, now: Timestamp, out: &mut Output) -> Decided<Self> {
        partition.produce_once(now, self, out)
    }
}

impl Partition {
    /// What was answered before is told again, and the rest carried out: a call whose items have other homes by now
    /// may bring some of either.
    fn produce_once(
        &mut self,
        now: Timestamp,
        produce: ProduceOnce,
        out: &mut Output,
    ) -> Result<ProducedOnce, Refusal> {
        self.check_call_intake(&produce)?;
        let known = self.known(now, &produce)?;
        if known.is_none() {
            self.check_calls_left(&produce.key)?;
        }
        let ProduceOnce { key, digest, claim, indexes, held, items } = produce;
        let claimed_at = match (&known, claim) {
            (Some(known), _) => known.claimed_at,
            (None, Claim::First) => now,
            (None, Claim::Of(claimed_at)) => claimed_at,
        };
        let mut answers = known.as_ref().map(Once::by_index).unwrap_or_default();
        let mut slots: BTreeSet<Slot> = known.iter().flat_map(|known| known.slots.iter().copied()).collect();
        slots.extend((claim == Claim::First).then(|| Slot::of(&key)));
        let indexes = if indexes.is_empty() { (0..items.len() as u16).collect() } else { indexes };
        let sent = indexes.iter().copied().zip(items);
        let new: Vec<(u16, NewItem)> = sent.filter(|(index, _)| !answers.contains_key(index)).collect();
        if known.is_none() || !new.is_empty() {
            self.check_all(now, new.iter().map(|(_, item)| item))?;
            for (index, item) in new {
                slots.insert(Slot::of(item.key().unwrap_or(&key)));
                let made = match held.get(&index) {
                    Some(id) => Err(Refusal::HeldElsewhere { id: *id }),
                    None => self.produce_single(now, item, out),
                };
                answers.insert(index, made);
            }
            let (digest, unknown) = known.map_or((digest, Vec::new()), |known| (known.digest, known.unknown));
            self.record(
                Row::Once(Box::new(Once::of(key, digest, claimed_at, &answers, slots, unknown))),
                out,
            );
        }
        let items = indexes.iter().map(|index| answers[index].clone()).collect();
        Ok(ProducedOnce { claimed_at, items })
    }

    fn check_call_intake(&self, produce: &ProduceOnce) -> Result<(), Refusal> {
        let by_call = produce.claim == Claim::First || produce.items.iter().any(|item| item.key().is_none());
        if by_call {
            self.check_open()?;
            self.check_at_home(&produce.key)?;
        }
        self.check_intake(produce.items.iter().map(Keys::of_new))
    }

    /// Whether a call of that key was made here, and is still remembered.
    pub fn knows_call(&self, key: &str, now: Timestamp) -> bool {
        self.calls.get(key, now).is_some()
    }

    /// The call of that key that was made here, or this partition's part of it.
    pub fn call(&self, key: &str, now: Timestamp) -> Option<&Once> {
        self.calls.get(key, now)
    }

    /// What is known of the same call.
    fn known(&self, now: Timestamp, produce: &ProduceOnce) -> Result<Option<Once>, Refusal> {
        let Some(once) = self.calls.get_by(produce.claim, &produce.key, now) else { return Ok(None) };
        match produce.claim {
            Claim::First if once.digest != produce.digest => return Err(Refusal::KeyTaken),
            // Its home has made another one since: this one has come too late.
            Claim::Of(claimed_at) if claimed_at < once.claimed_at => return Err(Refusal::KeyTaken),
            // Its home has forgotten that call, and made another one.
            Claim::Of(claimed_at) if once.claimed_at != claimed_at => return Ok(None),
            Claim::First | Claim::Of(_) => {}
        }
        if mutant::active(Mutant::ForgetCall) {
            return Ok(None);
        }
        Ok(Some(once.clone()))
    }

    /// At the bound, a key that is there may still be taken over.
    fn check_calls_left(&self, key: &Arc<str>) -> Result<(), Refusal> {
        let full = self.calls.by_key.len() >= IDEMPOTENCY_KEYS_MAX;
        if full && !self.calls.by_key.contains_key(key) {
            return Err(TOO_MANY_KEYS);
        }
        if self.calls.bytes >= IDEMPOTENCY_BYTES_MAX {
            return Err(TOO_MANY_BYTES);
        }
        Ok(())
    }

    pub(in crate::partition) fn forget_next_call(&mut self, now: Timestamp, out: &mut Output) -> bool {
        match self.calls.next_end() {
            Some((end, key)) if end <= now => {
                self.erase_row(Key::Once(Arc::clone(key)), out);
                true
            }
            Some(_) | None => false,
        }
    }
}

const TOO_MANY_KEYS: Refusal = Refusal::TooMany {
    what: "idempotency keys of the last 24 hours in a partition",
    max: IDEMPOTENCY_KEYS_MAX,
};
const TOO_MANY_BYTES: Refusal = Refusal::TooMany {
    what: "bytes of idempotency keys and their answers of the last 24 hours in a partition",
    max: IDEMPOTENCY_BYTES_MAX,
};
