//! Those who were home to a key before: as long as one may know it, nobody takes the key for new without asking there.
//!
//! That is safe because a former home has given the key up before it answers: it can only forget what it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::effort::{self, Looked};
use windlass_core::id::{ItemId, ItemNumber, PartitionId};
use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::Partition;
use windlass_core::refusal::Refusal;
use windlass_core::route::Slot;
use windlass_core::row::Once;

use super::QueueHandle;
use super::produce::Arriving;
use crate::commit::Commit;
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::store::Term;

/// What former homes know of the items of a call, which go by their place in it.
#[derive(Default)]
pub(super) struct Known {
    /// The items that hold an address.
    pub(super) held: BTreeMap<usize, ItemId>,
    /// Who has which group.
    pub(super) groups: BTreeMap<Arc<str>, PartitionId>,
    /// Somebody could not be asked.
    pub(super) unsure: BTreeMap<usize, EngineError>,
    /// What was made before under the idempotency key, and where.
    pub(super) calls: Vec<(Term, Once)>,
    /// How far those were who told something: for a call that nobody else has to be asked about.
    pub(super) commits: Vec<Commit>,
}

impl Known {
    /// The items that hold an address, by the number of the one that wants it.
    pub(super) fn by_index(&self) -> BTreeMap<u16, ItemId> {
        self.held.iter().map(|(index, id)| (*index as u16, *id)).collect()
    }
}

/// Addresses with their places in a call.
type Addresses = Vec<(usize, Arc<str>)>;

/// What one of them is asked.
#[derive(Clone, Default)]
struct Question {
    call: Option<Arc<str>>,
    addresses: Addresses,
    groups: Vec<(usize, Arc<str>)>,
}

struct Told {
    call: Option<Once>,
    groups: Vec<Arc<str>>,
    holders: Vec<(usize, ItemNumber)>,
}

impl QueueHandle {
    pub(super) fn former_homes(&self, key: &str) -> impl Iterator<Item = PartitionId> {
        self.queue.former_homes(Slot::of(key))
    }

    /// An error if nobody can say whether the call was made before. Without an idempotency key there is none.
    pub(super) async fn ask_former_homes<T: Arriving>(
        &self,
        call: Option<&Arc<str>>,
        items: &[T],
    ) -> Result<Known, EngineError> {
        let mut known = Known::default();
        if self.queue.former.is_empty() || mutant::active(Mutant::SkipFormerHomes) {
            return Ok(known);
        }
        let homes_of_call: BTreeSet<PartitionId> =
            call.into_iter().flat_map(|call| self.former_homes(call)).collect();
        let questions = self.questions(call, &homes_of_call, items);
        // All are asked before the first is waited for.
        let asked: Vec<_> = questions
            .into_iter()
            .map(|(former, question)| {
                let term = Term::now(&*self.store, former);
                (term, question.clone(), self.ask_former_home(former, question))
            })
            .collect();
        for (term, question, answer) in asked {
            let former = term.partition;
            match told(answer).await {
                Ok(Told { call, groups, holders }) => {
                    if call.is_some() || !holders.is_empty() {
                        known.commits.extend(self.last_commit(former));
                    }
                    known.calls.extend(call.map(|call| (term, call)));
                    known.groups.extend(groups.into_iter().map(|group| (group, former)));
                    let id = |(index, number)| (index, ItemId { partition: former, number });
                    known.held.extend(holders.into_iter().map(id));
                }
                Err(error) if homes_of_call.contains(&former) => return Err(error),
                Err(error) => {
                    let asked = question.addresses.iter().chain(&question.groups);
                    known.unsure.extend(asked.map(|(index, _)| (*index, error.clone())));
                }
            }
        }
        // Who has a group is the only one.
        let unsure: Vec<usize> = known.unsure.keys().copied().collect();
        for (index, group) in unsure.into_iter().filter_map(|index| Some((index, items[index].group()?))) {
            if known.groups.contains_key(group) || self.is_at_home(group).await {
                known.unsure.remove(&index);
            }
        }
        Ok(known)
    }

    pub(super) fn last_commit(&self, partition: PartitionId) -> Option<Commit> {
        let sequence = self.find(partition).ok()?.published.summary().sequence;
        Some(Commit { partition, sequence })
    }

    fn questions<T: Arriving>(
        &self,
        call: Option<&Arc<str>>,
        homes_of_call: &BTreeSet<PartitionId>,
        items: &[T],
    ) -> BTreeMap<PartitionId, Question> {
        let question = || Question { call: call.cloned(), ..Question::default() };
        let mut questions: BTreeMap<PartitionId, Question> =
            homes_of_call.iter().map(|former| (*former, question())).collect();
        for (index, key) in items.iter().enumerate().filter_map(|(index, item)| Some((index, item.key()?))) {
            for former in self.former_homes(key) {
                let question = questions.entry(former).or_insert_with(question);
                let keys = match items[index].group() {
                    Some(_) => &mut question.groups,
                    None => &mut question.addresses,
                };
                keys.push((index, key.into()));
            }
        }
        questions
    }

    fn ask_former_home(
        &self,
        former: PartitionId,
        question: Question,
    ) -> Result<oneshot::Receiver<Option<Told>>, EngineError> {
        effort::look(Looked::FormerHomes);
        let version = self.queue.route_version;
        self.find(former)?.ask(move |partition, now| {
            // It may still take such a key, until it has heard.
            let knows = partition.intake().version >= version;
            knows.then(|| Told {
                call: question.call.and_then(|key| partition.call(&key, now).cloned()),
                groups: question
                    .groups
                    .into_iter()
                    .map(|(_, group)| group)
                    .filter(|group| partition.has_group(group))
                    .collect(),
                holders: holders(partition, question.addresses),
            })
        })
    }

    /// Who has a group of that name, if its slot has moved since it was made: a group stays where it is.
    pub(super) async fn former_home_with(
        &self,
        group: &Arc<str>,
    ) -> Result<Option<&Arc<Handle>>, EngineError> {
        let question = Question { groups: vec![(0, Arc::clone(group))], ..Question::default() };
        let asked: Vec<_> = self
            .former_homes(group)
            .map(|former| (former, self.ask_former_home(former, question.clone())))
            .collect();
        let mut unsure = None;
        for (former, answer) in asked {
            match told(answer).await {
                Ok(told) if !told.groups.is_empty() => return self.find(former).map(Some),
                Ok(_) => {}
                Err(error) => unsure = Some(error),
            }
        }
        match unsure {
            Some(error) if !self.is_at_home(group).await => Err(error),
            Some(_) | None => Ok(None),
        }
    }

    /// Who has an item that bears the address, if its slot has moved since that was made.
    pub(crate) async fn former_home_holding(
        &self,
        address: &Arc<str>,
    ) -> Result<Option<&Arc<Handle>>, EngineError> {
        let question = Question { addresses: vec![(0, Arc::clone(address))], ..Question::default() };
        let asked: Vec<_> = self
            .former_homes(address)
            .map(|former| (former, self.ask_former_home(former, question.clone())))
            .collect();
        for (former, answer) in asked {
            if !told(answer).await?.holders.is_empty() {
                return self.find(former).map(Some);
            }
        }
        Ok(None)
    }

    /// For each address, the item that holds it, wherever that was made.
    pub(super) async fn holders_of(
        &self,
        addresses: &[Arc<str>],
    ) -> Vec<Result<Option<ItemId>, EngineError>> {
        let mut former: BTreeMap<PartitionId, Question> = BTreeMap::new();
        let mut present: BTreeMap<PartitionId, (&Arc<Handle>, Addresses)> = BTreeMap::new();
        let mut held: Vec<Result<Option<ItemId>, EngineError>> = Vec::with_capacity(addresses.len());
        for (index, address) in addresses.iter().enumerate() {
            for home in self.former_homes(address) {
                former.entry(home).or_default().addresses.push((index, Arc::clone(address)));
            }
            held.push(self.home(address).map(|home| {
                let (_, addresses) = present.entry(home.id).or_insert((home, Vec::new()));
                addresses.push((index, Arc::clone(address)));
                None
            }));
        }
        // All are asked before the first is waited for.
        let ask_former = |(home, question): (PartitionId, Question)| {
            (home, indexes(&question.addresses), self.ask_former_home(home, question))
        };
        let asked_former: Vec<_> = former.into_iter().map(ask_former).collect();
        let ask = |(home, addresses): (&Arc<Handle>, Addresses)| {
            let indexes = indexes(&addresses);
            (home.clone(), indexes, home.ask(move |partition, _| holders(partition, addresses)))
        };
        let asked: Vec<_> = present.into_values().map(ask).collect();
        for (home, indexes, answer) in asked_former {
            let holders = told(answer).await.map(|told| told.holders);
            hear(&mut held, home, &indexes, holders);
        }
        for (home, indexes, answer) in asked {
            let holders = match answer {
                Ok(answer) => answer.await.map_err(|_dropped| home.no_answer()),
                Err(error) => Err(error),
            };
            hear(&mut held, home.id, &indexes, holders);
        }
        held
    }

    /// Whether the home of its name has the group: then nobody else does, whether they can be asked or not.
    async fn is_at_home(&self, group: &Arc<str>) -> bool {
        let Ok(home) = self.home(group) else { return false };
        let group = Arc::clone(group);
        home.query(move |partition, _| partition.has_group(&group)).await.unwrap_or(false)
    }

    /// The item that an address speaks of, wherever it was made: at most one that bears it is not final, and it is the
    /// latest.
    pub(crate) async fn item_at(&self, address: Arc<str>) -> Result<ItemId, EngineError> {
        let former = self.former_homes(&address).filter_map(|id| self.find(id).ok());
        let homes: Vec<&Arc<Handle>> = std::iter::once(self.home(&address)?).chain(former).collect();
        let ask = |home: &&Arc<Handle>| {
            let address = Arc::clone(&address);
            home.ask(move |partition, _| {
                let number = partition.item_at(&address)?;
                Some((partition.holder(&address).is_some(), number))
            })
        };
        let asked: Vec<_> = homes.iter().map(ask).collect();
        let (mut latest, mut unsure) = (None, None);
        for (home, answer) in homes.iter().zip(asked) {
            let answer = match answer {
                Ok(answer) => answer.await.map_err(|_dropped| home.no_answer()),
                Err(error) => Err(error),
            };
            match answer {
                Ok(seen) => latest = latest.max(seen.map(|(holds, number)| (holds, number, home.id))),
                Err(error) => unsure = Some(error),
            }
        }
        match (latest, unsure) {
            (Some((false, ..)) | None, Some(error)) => Err(error),
            (Some((_, number, partition)), _) => Ok(ItemId { partition, number }),
            (None, None) => Err(Refusal::NotFound.into()),
        }
    }
}

async fn told(answer: Result<oneshot::Receiver<Option<Told>>, EngineError>) -> Result<Told, EngineError> {
    let told = answer?.await.ok().flatten();
    told.ok_or_else(|| {
        EngineError::not_applied("the partition that was home to the key before gave no answer")
    })
}

fn indexes(addresses: &Addresses) -> Vec<usize> {
    addresses.iter().map(|(index, _)| *index).collect()
}

/// Enters what a partition says of some addresses. A holder that is known counts, also where another partition gave no answer.
fn hear(
    held: &mut [Result<Option<ItemId>, EngineError>],
    partition: PartitionId,
    asked: &[usize],
    holders: Result<Vec<(usize, ItemNumber)>, EngineError>,
) {
    match holders {
        Ok(holders) => {
            for (index, number) in holders {
                held[index] = Ok(Some(ItemId { partition, number }));
            }
        }
        Err(error) => {
            for index in asked {
                if let Ok(None) = held[*index] {
                    held[*index] = Err(error.clone());
                }
            }
        }
    }
}

fn holders(partition: &Partition, addresses: Addresses) -> Vec<(usize, ItemNumber)> {
    let holder = |(index, address)| Some((index, partition.holder(&address)?));
    addresses.into_iter().filter_map(holder).collect()
}
