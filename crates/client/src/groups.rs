//! Groups of a queue.

use windlass_api::groups::{
    CancelGroupRequest, CreateGroupReply, CreateGroupRequest, DeleteGroupRequest, EndItem, Group,
    GroupInfoRequest, ListGroupsRequest, SetGroupEndRequest, StartGroupRequest,
};

use crate::client::PAGE;
use crate::error::ClientError;
use crate::queue::QueueClient;

impl QueueClient {
    /// Makes a group, its first members with it, and starts it if the request says so: all of it or nothing.
    pub async fn create_group(&self, request: CreateGroupRequest) -> Result<CreateGroupReply, ClientError> {
        self.client.call(&CreateGroupRequest { queue: self.queue.clone(), ..request }).await
    }

    /// Says what is produced when a group is done, and when it was cancelled and the last member is gone. None is as it was.
    pub async fn set_group_end(
        &self,
        group: impl Into<String>,
        end: Option<EndItem>,
        abort: Option<EndItem>,
    ) -> Result<Group, ClientError> {
        let (queue, group) = (self.queue.clone(), group.into());
        Ok(self.client.call(&SetGroupEndRequest { queue, group, end, abort }).await?.group)
    }

    /// Lets the members of a group be leased.
    pub async fn start_group(&self, group: impl Into<String>) -> Result<Group, ClientError> {
        let request = StartGroupRequest { queue: self.queue.clone(), group: group.into() };
        Ok(self.client.call(&request).await?.group)
    }

    /// Cancels the members of a group, and asks the workers of leased ones to stop.
    pub async fn cancel_group(&self, group: impl Into<String>) -> Result<Group, ClientError> {
        let request = CancelGroupRequest { queue: self.queue.clone(), group: group.into() };
        Ok(self.client.call(&request).await?.group)
    }

    /// A group, and how many members are in which state.
    pub async fn group(&self, group: impl Into<String>) -> Result<Group, ClientError> {
        let request = GroupInfoRequest { queue: self.queue.clone(), group: group.into() };
        Ok(self.client.call(&request).await?.group)
    }

    /// Forgets a group that is done or aborted, and tells it as it was.
    pub async fn delete_group(&self, group: impl Into<String>) -> Result<Group, ClientError> {
        let request = DeleteGroupRequest { queue: self.queue.clone(), group: group.into() };
        Ok(self.client.call(&request).await?.group)
    }

    /// All groups, by name.
    pub async fn groups(&self) -> Result<Vec<Group>, ClientError> {
        let mut groups: Vec<Group> = Vec::new();
        loop {
            let pivot = groups.last().map(|group| group.group.clone());
            let request = ListGroupsRequest { queue: self.queue.clone(), pivot, limit: Some(PAGE) };
            let page = self.client.call(&request).await?.groups;
            let last = page.len() < PAGE as usize;
            groups.extend(page);
            if last {
                return Ok(groups);
            }
        }
    }
}
