//! Items that are not rerun, because they went to a dead queue.

use windlass_api::items::{FindItemsRequest, ItemFilter, MovedTo, States};
use windlass_api::queues::QueueInfoRequest;

use crate::remote::Remote;

/// The dead queue that items of a queue went to which the filter finds: known only from its first page, and only if the queue
/// has that dead queue still.
pub(super) async fn of(queue: &str, filter: ItemFilter, remote: &Remote) -> Option<String> {
    let dead_queue = dead_queue(queue, remote).await?;
    let states = || States { states: vec!["failed".to_owned(), "expired".to_owned()] };
    let states = Some(filter.states.clone().unwrap_or_else(states));
    let queue = Some(queue.to_owned());
    let request = FindItemsRequest { queue, states, ..filter.into() };
    let found = remote.client().call(&request).await.ok()?;
    let went_there =
        found.items.iter().filter_map(|item| item.moved_to.as_ref()).any(|to| to.queue == dead_queue);
    went_there.then_some(dead_queue)
}

/// The dead queue of `queue`, if an item of it went there.
pub(crate) async fn where_it_went(queue: &str, moved_to: &MovedTo, remote: &Remote) -> Option<String> {
    dead_queue(queue, remote).await.filter(|dead_queue| *dead_queue == moved_to.queue)
}

async fn dead_queue(queue: &str, remote: &Remote) -> Option<String> {
    let request = QueueInfoRequest { queue: queue.to_owned() };
    remote.client().call(&request).await.ok()?.queue.dead_queue
}
