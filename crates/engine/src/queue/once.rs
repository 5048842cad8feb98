//! Calls with an idempotency key: carried out once, however often they are sent.
//!
//! The home of the key takes note of the call before any other partition hears of it, and a partition remembers its
//! part together with what it made. So another call of the same key is refused wherever its items belong, and a call
//! that reached only some partitions is completed by sending it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use windlass_core::id::{ItemId, PartitionId};
use windlass_core::limits;
use windlass_core::refusal::Refusal;
use windlass_core::row::Once;
use windlass_core::time::Timestamp;
use windlass_core::verbs::{Claim, Digest, NewItem, ProduceOnce, ProducedOnce};

use super::QueueHandle;
use super::keyed::{produced_items, worst};
use super::produce::ProducedItem;
use super::room::places_needed;
use super::shares::{Asked, Share, judged, shares};
use crate::commit::{Commit, Judged};
use crate::error::EngineError;
use crate::machine::call::{Answer, Awaited, received};
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;
use crate::store::{StoreError, Term};

/// What every partition is told of a call.
#[derive(Clone)]
struct Call {
    key: Arc<str>,
    digest: Digest,
    /// The items whose address is held in a partition that was home to it before.
    held: BTreeMap<u16, ItemId>,
}

/// What is known of a call from before its key, or keys of its items, had other homes.
#[derive(Default)]
struct MadeBefore {
    claimed_at: Option<Timestamp>,
    answers: BTreeMap<usize, Result<ProducedItem, EngineError>>,
}

impl QueueHandle {
    /// Items without a key of their own are at home with the call's.
    pub(crate) async fn produce_once(
        &self,
        key: Arc<str>,
        items: Vec<NewItem>,
    ) -> Result<Judged<ProducedItem>, EngineError> {
        limits::check_idempotency_key(&key).map_err(Refusal::Invalid)?;
        self.check_homes(items.iter().map(|item| (item.group.as_ref(), item.address.as_ref())))?;
        let known = self.ask_former_homes(Some(&key), &items).await?;
        let call = Call { digest: digest(&items), key, held: known.by_index() };
        let home = self.home(&call.key)?;
        let mut results = vec![Err(self.unavailable()); items.len()];
        let at_home = Term::now(&*self.store, home.id);
        let claims: Vec<Term> = known.calls.iter().map(|(term, _)| *term).chain([at_home]).collect();
        let before = self.made_before(&call, known.calls)?;
        let decided: BTreeSet<usize> = before.answers.keys().chain(known.unsure.keys()).copied().collect();
        known.unsure.into_iter().for_each(|(index, error)| results[index] = Err(error));
        before.answers.into_iter().for_each(|(index, answer)| results[index] = answer);
        let open: Vec<(usize, NewItem)> =
            items.into_iter().enumerate().filter(|(index, _)| !decided.contains(index)).collect();
        let wanted: Vec<&NewItem> = open.iter().map(|(_, item)| item).collect();
        let mut reserved = self.places_of(&call, before.claimed_at, &wanted, home).await?;
        let belongs = |item: &NewItem| {
            if item.key().is_some() { self.home_of(item, &known.groups) } else { Some(home.id) }
        };
        let mut shares = shares(open, belongs);
        let (claimed_at, commit) = match before.claimed_at {
            Some(claimed_at) => (claimed_at, None),
            None => {
                let share = shares.remove(&Some(home.id)).unwrap_or_default();
                let (claimed_at, commit) =
                    self.claim(&call, home, share, &mut reserved, &mut results).await?;
                (claimed_at, Some(commit))
            }
        };
        self.sync_claims(&claims, shares.keys().flatten().copied()).await?;
        let asked = self.pass_with_routes(|| {
            let ask = |(home, share)| self.ask_once(&call, claimed_at, home, share, &mut reserved);
            shares.into_iter().filter_map(ask).collect::<Vec<_>>()
        });
        let asked = match asked.await {
            Err(EngineError::Refused(Refusal::Moved)) => return Err(Refusal::Moved.into()),
            // If the queue is gone by now, or the server shuts down, what was made stands and the rest was not.
            asked => asked.unwrap_or_default(),
        };
        let mut judged =
            judged(asked, results, |partition, once: ProducedOnce| produced_items(partition, once.items))
                .await;
        let is_judged =
            |result: &Result<_, EngineError>| !matches!(result, Err(EngineError::Unavailable { .. }));
        if !judged.results.iter().any(is_judged) {
            return Err(worst(judged));
        }
        judged.commits.splice(0..0, commit);
        if judged.commits.is_empty() {
            judged.commits = known.commits;
        }
        Ok(judged)
    }

    /// The home of the key takes note of the call, with its own share of it.
    async fn claim(
        &self,
        call: &Call,
        home: &Handle,
        Share { indexes, items }: Share<NewItem>,
        reserved: &mut Reserved,
        results: &mut [Result<ProducedItem, EngineError>],
    ) -> Result<(Timestamp, Commit), EngineError> {
        let places = reserved.split(items.len());
        let claim = call.verb(Claim::First, &indexes, items);
        let first = self.pass_with_routes(|| home.submit_with(claim, Some(places))).await??;
        let (claimed_at, made, commit) = claimed(home.id, first).await?;
        indexes.into_iter().zip(made).for_each(|(index, result)| results[index] = result);
        Ok((claimed_at, commit))
    }

    /// Makes the claim durable before partitions in other stores act on it: if a power loss took the claim and left their
    /// parts, the same call would get another claim, and be carried out there again.
    async fn sync_claims(
        &self,
        claims: &[Term],
        others: impl Iterator<Item = PartitionId> + Clone,
    ) -> Result<(), EngineError> {
        for claim in claims {
            let synced = self.sync_claim(*claim, others.clone()).await;
            synced.map_err(|error| EngineError::unknown(format!("made in part: {error}")))?;
        }
        Ok(())
    }

    /// In one store a power loss takes no commit without those after it: nothing needs to be synced there.
    async fn sync_claim(
        &self,
        claim: Term,
        mut others: impl Iterator<Item = PartitionId>,
    ) -> Result<(), StoreError> {
        let store = self.store.name_of(claim.partition);
        if others.any(|other| self.store.name_of(other) != store) {
            return self.store.sync(claim).await;
        }
        if self.store.epoch(claim.partition) == claim.epoch { Ok(()) } else { Err(StoreError::Fenced) }
    }

    /// What those who were home to the call, or to items of it, were told to do before they were not.
    fn made_before(&self, call: &Call, known: Vec<(Term, Once)>) -> Result<MadeBefore, EngineError> {
        let mut before = MadeBefore::default();
        for (Term { partition, .. }, once) in known {
            if once.digest == call.digest {
                before.claimed_at = before.claimed_at.max(Some(once.claimed_at));
                let (indexes, answers): (Vec<u16>, Vec<_>) = once.by_index().into_iter().unzip();
                let answers = produced_items(partition, answers);
                before.answers.extend(indexes.into_iter().map(usize::from).zip(answers));
            } else if self.former_homes(&call.key).any(|former| former == partition) {
                return Err(Refusal::KeyTaken.into());
            }
        }
        Ok(before)
    }

    /// What was taken in before has its places: a call that is sent again needs none.
    async fn places_of(
        &self,
        call: &Call,
        claimed_before: Option<Timestamp>,
        items: &[&NewItem],
        home: &Handle,
    ) -> Result<Reserved, EngineError> {
        let needed = places_needed(items.iter().copied());
        let refused = match self.places.reserve(needed, self.queue.settings.max_items) {
            Ok(reserved) => return Ok(reserved),
            Err(refused) => refused,
        };
        let key = Arc::clone(&call.key);
        let knows = home.query(move |partition, now| partition.knows_call(&key, now)).await?;
        if knows || claimed_before.is_some() {
            return self.places.reserve(items.len(), 0);
        }
        self.reserve_what_fits(items, refused).await
    }

    fn ask_once(
        &self,
        call: &Call,
        claimed_at: Timestamp,
        home: Option<PartitionId>,
        Share { indexes, items }: Share<NewItem>,
        reserved: &mut Reserved,
    ) -> Option<Asked<ProducedOnce>> {
        let handle = self.find(home?).ok()?;
        let places = reserved.split(items.len());
        let verb = call.verb(Claim::Of(claimed_at), &indexes, items);
        let answer = handle.submit_with(verb, Some(places));
        Some(Asked { partition: handle.id, indexes, answer })
    }
}

impl Call {
    fn verb(&self, claim: Claim, indexes: &[usize], items: Vec<NewItem>) -> ProduceOnce {
        let Self { key, digest, held } = self.clone();
        let indexes = indexes.iter().map(|index| *index as u16).collect();
        ProduceOnce { key, digest, claim, indexes, held, items }
    }
}

type Made = Vec<Result<ProducedItem, EngineError>>;

/// What the home of the key said.
async fn claimed(
    home: PartitionId,
    answer: Awaited<ProducedOnce>,
) -> Result<(Timestamp, Made, Commit), EngineError> {
    let Answer { reply, sequence } = received(answer.await)?;
    let made = produced_items(home, reply.items);
    Ok((reply.claimed_at, made, Commit { partition: home, sequence }))
}

/// What makes two calls the same: all that was given for each item, in the order of the items. Not how it was written:
/// JSON and protobuf, or fields in another order, come to the same; the payload counts as it was sent. Frozen, for it
/// outlives the server; a field that is not set leaves nothing, so that further ones can be added.
fn digest(items: &[NewItem]) -> Digest {
    let mut hash = Sha256::new();
    for item in items {
        let mut field = |tag: u8, bytes: &[u8]| {
            hash.update([tag]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(1, item.kind.as_bytes());
        field(2, &[item.priority]);
        let number = |number: u64| number.to_le_bytes();
        let optional = [
            (3, item.enqueue_at.map(|at| number(at.0))),
            (4, item.max_attempts.map(|attempts| number(attempts.into()))),
            (5, item.dead_timeout.map(|timeout| number(timeout.0))),
            // As it was given: the moment that comes of it is another with every repeat.
            (8, item.delay.map(|delay| number(delay.0))),
        ];
        for (tag, value) in optional {
            value.iter().for_each(|value| field(tag, value));
        }
        item.address.iter().for_each(|address| field(6, address.as_bytes()));
        item.group.iter().for_each(|group| field(7, group.as_bytes()));
        // The last of each item. Its facts are part of it.
        field(0, &item.body);
    }
    // Half of it is plenty.
    *hash.finalize().first_chunk().expect("the hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_core::time::Span;

    use super::*;

    fn item() -> NewItem {
        NewItem::plain("default", Bytes::from_static(b"payload"))
    }

    #[test]
    fn a_digest_is_of_everything_given_and_of_the_order() {
        let others = [
            NewItem { kind: "other".into(), ..item() },
            NewItem { priority: 1, ..item() },
            NewItem { enqueue_at: Some(Timestamp(1)), ..item() },
            NewItem { delay: Some(Span(1)), ..item() },
            NewItem { max_attempts: Some(1), ..item() },
            NewItem { dead_timeout: Some(Span(1)), ..item() },
            NewItem { address: Some("a".into()), ..item() },
            NewItem { group: Some("a".into()), ..item() },
            NewItem { body: Bytes::from_static(b"other"), ..item() },
        ];
        let mut digests: Vec<Digest> = others.iter().map(|other| digest(&[item(), other.clone()])).collect();
        digests.extend(others.iter().map(|other| digest(&[other.clone(), item()])));
        digests.extend([digest(&[item()]), digest(&[item(), item()])]);
        let count = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), count);
        assert_eq!(digest(&[item()]), digest(&[item()]));
    }

    #[test]
    fn a_digest_stays_what_it_is() {
        let full = NewItem {
            kind: "mail".into(),
            priority: 7,
            enqueue_at: Some(Timestamp(1)),
            max_attempts: Some(2),
            dead_timeout: Some(Span(3)),
            address: Some("a".into()),
            ..item()
        };
        let digest = u128::from_be_bytes(digest(&[item(), full]));
        assert_eq!(digest, 0x4571_8e0c_b273_56ef_c78d_af67_be19_633a);
        let member = NewItem { group: Some("g".into()), ..item() };
        let digest = u128::from_be_bytes(super::digest(&[member]));
        assert_eq!(digest, 0xf4c6_fc54_0790_5809_48e6_a183_d256_7ba5);
    }
}
