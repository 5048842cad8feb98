//! A queue's groups. Each is at home with one partition, and all its members with it.

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
        let reserved = self.places.reserve(create.items.len(), self.queue.settings.max_items)?;
        let home = self.home(&create.name)?;
        let command = Command::CreateGroup(Box::new(create));
        let asked = self.door.pass(|| home.submit_with(command, Some(reserved))).await?;
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
        name: &str,
        command: Command,
    ) -> Result<Committed<GroupView>, EngineError> {
        let home = self.home(name)?;
        // What may make an item must not come after the queue was found empty.
        let asked = self.door.pass(|| home.submit(command)).await?;
        let Answer { reply: Done::Reply(Reply::Group(group)), sequence } = received(asked?.await)? else {
            unreachable!("a change of a group is answered by it")
        };
        Ok(Committed { value: *group, commits: vec![Commit { partition: home.id, sequence }] })
    }

    pub(crate) async fn group(&self, name: Arc<str>) -> Result<GroupView, EngineError> {
        let home = self.home(&name)?;
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
        let asked: Vec<_> = self.partitions.iter().map(ask).collect();
        let answers = self.of_those_that_serve(asked).await?;
        let mut groups: Vec<GroupView> = answers.into_iter().flat_map(|(_, groups)| groups).collect();
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        groups.truncate(limit);
        Ok(groups)
    }
}
