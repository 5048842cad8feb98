//! A queue's groups. Each is at home with one partition, and all its members with it. It stays there, also when its name
//! has another home by now: so whoever was home to the name before is asked first.

use std::cmp::Reverse;
use std::sync::Arc;

use windlass_core::command::{Command, CreateGroup, Produced, Refusal, Reply};
use windlass_core::group::GroupView;
use windlass_core::id::ItemId;

use super::QueueHandle;
use crate::error::EngineError;
use crate::partition::handle::Handle;
use crate::partition::message::{Answer, Done, received};
use crate::types::{Commit, Committed, CreatedGroup, ProducedItem};

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
        let command = Command::CreateGroup(Box::new(create));
        let asked = self.pass_with_routes(|| home.submit_with(command, Some(reserved))).await?;
        let id = |number| ItemId { partition: home.id, number };
        let answer = match received(asked?.await) {
            Err(EngineError::Refused(Refusal::DuplicateAddress { number })) => {
                return Err(EngineError::DuplicateAddress { id: id(number) });
            }
            answer => answer?,
        };
        let Answer { reply: Done::Reply(Reply::GroupCreated(group, items)), sequence } = answer else {
            unreachable!("making a group is answered by it")
        };
        let produced = |Produced { number, phase }| ProducedItem { id: id(number), phase };
        let value = CreatedGroup { group: *group, items: items.into_iter().map(produced).collect() };
        Ok(Committed { value, commits: vec![Commit { partition: home.id, sequence }] })
    }

    /// A command that is answered by the group of that name.
    pub(crate) async fn change_group(
        &self,
        name: &Arc<str>,
        command: Command,
    ) -> Result<Committed<GroupView>, EngineError> {
        let home = self.home_of_group(name).await?;
        // What may make an item must not come after the queue was found empty.
        let asked = self.pass_with_routes(|| home.submit(command)).await?;
        let Answer { reply: Done::Reply(Reply::Group(group)), sequence } = received(asked?.await)? else {
            unreachable!("a change of a group is answered by it")
        };
        Ok(Committed { value: *group, commits: vec![Commit { partition: home.id, sequence }] })
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
