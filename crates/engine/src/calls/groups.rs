//! The engine's calls for groups.

use std::sync::Arc;

use windlass_core::group::GroupView;
use windlass_core::row::QueueName;
use windlass_core::verb::Verb;
use windlass_core::verbs::{CancelGroup, CreateGroup, DeleteGroup, NewEnd, NewItem, SetGroupEnd, StartGroup};

use crate::Engine;
use crate::commit::Committed;
use crate::error::EngineError;
use crate::queue::CreatedGroup;

impl Engine {
    /// Makes a group with its first members, and starts it if it is asked to: all of it or nothing.
    pub async fn create_group(
        &self,
        queue: &QueueName,
        mut create: CreateGroup,
    ) -> Result<Committed<CreatedGroup>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?;
        self.memory.check()?;
        self.check_end_queues(queue, [&mut create.end, &mut create.abort])?;
        let ends = create.end.iter_mut().chain(&mut create.abort).map(|end| &mut end.item);
        self.index(queue, create.items.iter_mut().chain(ends));
        self.by_routes(queue, |handle| {
            let create = create.clone();
            async move { handle.create_group(create).await }
        })
        .await
    }

    /// Says what is made at the end of a group that is not finished; what is not given stays.
    pub async fn set_group_end(
        &self,
        queue: &QueueName,
        mut set: SetGroupEnd,
    ) -> Result<Committed<GroupView>, EngineError> {
        let _call = self.host.enter()?;
        self.queue(queue)?;
        self.check_end_queues(queue, [&mut set.end, &mut set.abort])?;
        self.index(queue, set.end.iter_mut().chain(&mut set.abort).map(|end| &mut end.item));
        let name = Arc::clone(&set.name);
        self.change_group(queue, &name, set).await
    }

    /// Starts a group: from here on its members are leased. A group with no members left is done.
    pub async fn start_group(
        &self,
        queue: &QueueName,
        group: &Arc<str>,
    ) -> Result<Committed<GroupView>, EngineError> {
        let _call = self.host.enter()?;
        self.change_group(queue, group, StartGroup(Arc::clone(group))).await
    }

    /// Members that are not leased are gone at once, the others are asked to stop.
    pub async fn cancel_group(
        &self,
        queue: &QueueName,
        group: &Arc<str>,
    ) -> Result<Committed<GroupView>, EngineError> {
        let _call = self.host.enter()?;
        self.change_group(queue, group, CancelGroup(Arc::clone(group))).await
    }

    /// Forgets a group that is done or aborted, and tells it as it was.
    pub async fn delete_group(
        &self,
        queue: &QueueName,
        group: &Arc<str>,
    ) -> Result<Committed<GroupView>, EngineError> {
        let _call = self.host.enter()?;
        self.change_group(queue, group, DeleteGroup(Arc::clone(group))).await
    }

    pub async fn group(&self, queue: &QueueName, group: &Arc<str>) -> Result<GroupView, EngineError> {
        let _call = self.host.enter()?;
        self.by_routes(queue, |handle| {
            let group = Arc::clone(group);
            async move { handle.group(group).await }
        })
        .await
    }

    /// Groups by name, from the first one after `pivot` on.
    pub async fn groups(
        &self,
        queue: &QueueName,
        pivot: Option<Arc<str>>,
        limit: usize,
    ) -> Result<Vec<GroupView>, EngineError> {
        let _call = self.host.enter()?;
        self.by_routes(queue, |handle| {
            let pivot = pivot.clone();
            async move { handle.list_groups(pivot, limit).await }
        })
        .await
    }

    /// An end item that goes to another queue is indexed anew there.
    fn index<'a>(&self, queue: &QueueName, items: impl Iterator<Item = &'a mut NewItem>) {
        self.host.index(queue, items.map(|item| (&item.facts, &mut item.hashes)));
    }

    async fn change_group(
        &self,
        queue: &QueueName,
        group: &Arc<str>,
        verb: impl Verb<Reply = GroupView> + Clone,
    ) -> Result<Committed<GroupView>, EngineError> {
        self.by_routes(queue, |handle| {
            let (group, verb) = (Arc::clone(group), verb.clone());
            async move { handle.change_group(&group, verb).await }
        })
        .await
    }

    /// The queues that end items go to must be there. The one they come from is not another.
    fn check_end_queues(&self, own: &QueueName, ends: [&mut Option<NewEnd>; 2]) -> Result<(), EngineError> {
        for end in ends.into_iter().flatten() {
            if let Some(to) = end.queue.take().filter(|to| *to != own.name) {
                let name = QueueName { namespace: Arc::clone(&own.namespace), name: Arc::clone(&to) };
                self.queue(&name)?;
                end.queue = Some(to);
            }
        }
        Ok(())
    }
}
