//! The items of a partition, page by page, while others may work on them.

use std::collections::HashSet;

use uuid::Uuid;
use windlass_api::Code;
use windlass_api::items::Item;
use windlass_api::storage::ListItemsRequest;
use windlass_client::{Client, ClientError, Page, QueueClient};

use crate::exit::Failure;
use crate::remote::failed;

/// The most that a page holds.
pub(super) const PAGE: u32 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// What waits or is leased, in the order of the queue.
    Queue,
    /// What is due later, by time.
    Scheduled,
}

/// Shows each item once, also one that moves from a list to the other meanwhile.
#[derive(Debug)]
pub(super) struct Walk {
    queue: QueueClient,
    partition: u32,
    seen: HashSet<Uuid>,
    list: List,
    /// The last page: the list goes on after its last item that is still there.
    trail: Vec<String>,
}

impl Walk {
    pub(super) fn new(client: &Client, queue: &str, partition: u32) -> Self {
        Self {
            queue: client.queue(queue),
            partition,
            seen: HashSet::new(),
            list: List::Queue,
            trail: Vec::new(),
        }
    }

    /// From the beginning of a list.
    pub(super) fn begin(&mut self, list: List) {
        self.list = list;
        self.trail.clear();
    }

    /// What comes next and was not shown before; none at the end.
    pub(super) async fn next(&mut self, limit: u32) -> Result<Option<Vec<Item>>, Failure> {
        loop {
            let mut items = self.page(limit).await.map_err(|error| self.failed(error))?;
            if items.is_empty() {
                return Ok(None);
            }
            self.trail = items.iter().map(|item| item.id.clone()).collect();
            items.retain(|item| Uuid::try_parse(&item.id).map_or(true, |id| self.seen.insert(id)));
            if !items.is_empty() {
                return Ok(Some(items));
            }
        }
    }

    /// If the last item is gone, those before it are tried with growing steps back: workers take from the front, so
    /// what is still there is rather near the end. With none left it begins anew, and what was shown is passed over.
    async fn page(&mut self, limit: u32) -> Result<Vec<Item>, ClientError> {
        let mut step = 1;
        loop {
            match self.ask(limit).await {
                Err(error) if error.code() == Some(Code::NotFound) && !self.trail.is_empty() => {
                    self.trail.truncate(self.trail.len().saturating_sub(step));
                    step *= 2;
                }
                answer => return answer,
            }
        }
    }

    async fn ask(&self, limit: u32) -> Result<Vec<Item>, ClientError> {
        let after = self.trail.last().cloned();
        let page = Page { partition: self.partition, after, limit: Some(limit) };
        match self.list {
            List::Queue => self.queue.items(&page).await,
            List::Scheduled => self.queue.scheduled(&page).await,
        }
    }

    fn failed(&self, error: ClientError) -> Failure {
        let queue = self.queue.name().to_owned();
        failed(&ListItemsRequest { queue, ..ListItemsRequest::default() }, error)
    }
}
