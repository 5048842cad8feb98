//! A queue's groups. Each is at home with one partition, and all its members with it. It stays there, also when its name
//! has another home by now: so whoever was home to the name before is asked first.

use std::cmp::Reverse;
use std::sync::Arc;

use windlass_core::group::GroupView;
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::verb::Verb;
use windlass_core::verbs::{CreateGroup, Produced};

use super::QueueHandle;
use super::produce::ProducedItem;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::machine::call::received;
use crate::partition::handle::Handle;

/// A group as it was made, with its first members.
#[derive(Clone, Debug)]
pub struct CreatedGroup {
    pub group: GroupView,
    /// In the order given.
    pub items: Vec<ProducedItem>,
}

impl QueueHandle {
    pub(crate) async fn create_group(
        &self,
        create: CreateGroup,
    ) -> Result<Committed<CreatedGroup>, EngineError> {
        self.check_homes(create.items.iter().map(|item| (Some(&create.name), item.address.as_ref())))?;
        let reserved = self.places.reserve(create.items.len(), self.queue.settings.max_items)?;
        if self.former_home_with(&create.name).await?.is_some() {
            return Err(Refusal::GroupExists.into());
        }
        let home = self.home(&create.name)?;
        let asked = self.pass_with_routes(|| home.submit_with(create, Some(reserved))).await?;
        let id = |number| ItemId { partition: home.id, number };
        let answer = match received(asked?.await) {
            Err(EngineError::Refused(Refusal::DuplicateAddress { number })) => {
                return Err(EngineError::DuplicateAddress { id: id(number) });
            }
            answer => answer?,
        };
        let produced = |Produced { number, phase }| ProducedItem { id: id(number), phase };
        let created = answer.map(|reply| {
            let items = reply.items.into_iter().map(produced).collect();
            CreatedGroup { group: reply.group, items }
        });
        Ok(Committed::by(home.id, created))
    }

    pub(crate) async fn change_group(
        &self,
        name: &Arc<str>,
        verb: impl Verb<Reply = GroupView>,
    ) -> Result<Committed<GroupView>, EngineError> {
        let home = self.home_of_group(name).await?;
        // What may make an item must not come after the queue was found empty.
        let asked = self.pass_with_routes(|| home.submit(verb)).await?;
        Ok(Committed::by(home.id, received(asked?.await)?))
    }

    async fn home_of_group(&self, name: &Arc<str>) -> Result<&Arc<Handle>, EngineError> {
        match self.former_home_with(name).await? {
            Some(former) => Ok(former),
            None => self.home(name),
        }
    }

    pub(crate) async fn group(&self, name: Arc<str>) -> Result<GroupView, EngineError> {
        let home = self.home_of_group(&name).await?;
        let found = home.query(move |partition, _| partition.group(&name)).await?;
        found.ok_or(EngineError::Refused(Refusal::NoSuchGroup))
    }

    /// By name, over all partitions.
    pub(crate) async fn list_groups(
        &self,
        pivot: Option<Arc<str>>,
        limit: usize,
    ) -> Result<Vec<GroupView>, EngineError> {
        // All are asked before the first is waited for.
        let ask = |handle: &Arc<Handle>| {
            let pivot = pivot.clone();
            handle.ask(move |partition, _| partition.list_groups(pivot.as_deref(), limit))
        };
        let asked: Vec<_> = self.all().map(ask).collect();
        let answers = self.of_those_that_serve(asked).await?;
        let mut groups: Vec<GroupView> = answers.into_iter().flat_map(|(_, groups)| groups).collect();
        // One may have been deleted and made anew elsewhere between the questions.
        let by_name = |one: &GroupView| (Arc::clone(&one.name), Reverse(one.created_at));
        groups.sort_by_key(by_name);
        groups.dedup_by(|later, one| later.name == one.name);
        groups.truncate(limit);
        Ok(groups)
    }
}
