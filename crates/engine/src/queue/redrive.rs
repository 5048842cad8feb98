//! Waiting items sent back to where they came from, slice by slice.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::verbs::{AddressedLetter, Asked, Redrive as Slice, RedriveTo, Redriven as SliceRedriven};

use super::QueueHandle;
use super::shares::{Share, shares};
use crate::commit::{Commit, Committed};
use crate::error::EngineError;
use crate::machine::call::Answer;
use crate::partition::handle::Handle;

/// The items of a dead queue to send on, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redrive {
    /// Unset: each item goes back where it came from, and stays if it came from nowhere.
    pub to: Option<QueueName>,
    /// Unset: every kind.
    pub kind: Option<Arc<str>>,
    /// Unset: all items that are there when the redrive begins.
    pub limit: Option<u64>,
}

/// What a redrive has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    pub moved: u64,
    /// Dead letters that stay because the address that they had is taken.
    pub skipped: u64,
}

/// The addresses that dead letters of one redrive are to have, and which dead letter each is for.
struct Addresses<F> {
    /// Hashes of queues and addresses: a redrive may be of many letters. A letter whose hash is that of another one stays.
    given: BTreeSet<u64>,
    /// The letters that were given an address when last some were asked about: a slice that ends before a letter has it asked
    /// about again.
    latest: BTreeSet<(PartitionId, ItemNumber)>,
    find: F,
}

impl QueueHandle {
    /// One partition after the other. One that cannot does not keep the others from it; if none could, or one may not have
    /// finished what it began, the caller is told.
    pub(crate) async fn redrive(
        &self,
        redrive: Redrive,
        queues: BTreeSet<Arc<str>>,
        find: impl Fn(&Arc<str>) -> Option<Arc<QueueHandle>>,
    ) -> Result<Committed<Redriven>, EngineError> {
        if redrive.to.as_ref().is_some_and(|to| *to == self.queue.name) {
            let rule = "another queue than the one that is redriven";
            return Err(Refusal::Invalid(Invalid { field: "to", rule }).into());
        }
        let to = match &redrive.to {
            Some(to) => RedriveTo::Queue(Arc::clone(&to.name)),
            None => RedriveTo::Origins(Arc::new(queues)),
        };
        let mut addresses = Addresses { given: BTreeSet::new(), latest: BTreeSet::new(), find };
        let mut done = Committed { value: Redriven::default(), commits: Vec::new() };
        let mut refused = None;
        for handle in &self.partitions {
            let before = done.value.moved;
            match redrive_partition(handle, &redrive, &to, &mut addresses, &mut done).await {
                Ok(()) => {}
                Err(error) if done.value.moved > before || error.is_unknown() => {
                    return Err(partly(done.value.moved, error));
                }
                Err(error) => refused = Some(error),
            }
        }
        match refused {
            Some(error) if done.commits.is_empty() => Err(error),
            Some(_) | None => Ok(done),
        }
    }
}

async fn redrive_partition<F: Fn(&Arc<str>) -> Option<Arc<QueueHandle>>>(
    handle: &Handle,
    redrive: &Redrive,
    to: &RedriveTo,
    addresses: &mut Addresses<F>,
    done: &mut Committed<Redriven>,
) -> Result<(), EngineError> {
    let (mut from, mut commit, mut unsure) = (None, None, None);
    let moved_before = done.value.moved;
    loop {
        let left = redrive.limit.map_or(u64::MAX, |limit| limit - done.value.moved);
        if left == 0 {
            break;
        }
        let limit = usize::try_from(left).unwrap_or(usize::MAX);
        let asked = BTreeMap::new();
        let mut slice = Slice { to: to.clone(), kind: redrive.kind.clone(), limit, from, asked };
        let question = slice.clone();
        let letters = handle.query(move |partition, now| partition.addressed_letters(now, &question)).await?;
        for (number, asked) in addresses.ask(handle.id, letters).await {
            let asked = asked.unwrap_or_else(|error| {
                unsure = Some(error);
                Asked::Taken
            });
            slice.asked.insert(number, asked);
        }
        let Answer { reply: SliceRedriven { count, skipped, next }, sequence } = handle.apply(slice).await?;
        done.value.moved += count;
        done.value.skipped += skipped;
        commit = Some(Commit { partition: handle.id, sequence });
        from = next;
        if from.is_none() {
            break;
        }
    }
    match unsure {
        Some(error) if done.value.moved == moved_before => return Err(error),
        Some(_) | None => done.commits.extend(commit),
    }
    Ok(())
}

impl<F: Fn(&Arc<str>) -> Option<Arc<QueueHandle>>> Addresses<F> {
    /// Whether each dead letter can have its address again: no item of the target queue holds it, and no other dead letter is to
    /// have it.
    /// An error where that is not known: then the dead letter stays, and holds up none behind it.
    async fn ask(
        &mut self,
        partition: PartitionId,
        letters: Vec<AddressedLetter>,
    ) -> Vec<(ItemNumber, Result<Asked, EngineError>)> {
        let shares =
            shares(letters.into_iter().enumerate(), |letter: &AddressedLetter| Arc::clone(&letter.to));
        let mut answers = Vec::new();
        let before = std::mem::take(&mut self.latest);
        for (to, Share { items: letters, .. }) in shares {
            let addresses: Vec<Arc<str>> = letters.iter().map(|letter| Arc::clone(&letter.address)).collect();
            let holders = match (self.find)(&to) {
                Some(queue) => queue.holders_of(&addresses).await,
                None => addresses.iter().map(|_| Ok(None)).collect(),
            };
            for (letter, holder) in letters.into_iter().zip(holders) {
                let was_given = before.contains(&(partition, letter.number));
                let judge = |holder| self.judge(partition, &letter, holder, was_given);
                answers.push((letter.number, holder.map(judge)));
            }
        }
        answers
    }

    /// `holder`: the item that holds the dead letter's address.
    fn judge(
        &mut self,
        partition: PartitionId,
        letter: &AddressedLetter,
        holder: Option<ItemId>,
        was_given: bool,
    ) -> Asked {
        let is_free = holder.is_none() && (self.given.insert(hash_of(letter)) || was_given);
        if is_free {
            self.latest.insert((partition, letter.number));
        }
        if is_free { Asked::Free } else { Asked::Taken }
    }
}

fn hash_of(letter: &AddressedLetter) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&letter.to, &letter.address).hash(&mut hasher);
    hasher.finish()
}

/// What was sent stays sent.
fn partly(count: u64, error: EngineError) -> EngineError {
    EngineError::unknown(format!("sent {count} items, but not all: {error}"))
}
