//! What a `not_found` says was not found.

use std::sync::Arc;

use windlass_api::Code;
use windlass_api::error::Details;
use windlass_core::row::QueueName;

use super::error::Problem;

/// The thing that is not there, by the name that the request gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Queue(Arc<str>),
    Address {
        queue: Arc<str>,
        address: Arc<str>,
    },
    Group(Arc<str>),
    Cron(Arc<str>),
    Item(String),
    /// The item that a list was to begin after.
    Pivot(String),
    Partition {
        queue: Arc<str>,
        partition: u32,
    },
    Unclaimed(u32),
}

impl Missing {
    pub(super) fn address(queue: &QueueName, address: &Arc<str>) -> Self {
        Self::Address { queue: Arc::clone(&queue.name), address: Arc::clone(address) }
    }

    fn details(&self) -> Details {
        let none = Details::default();
        match self {
            Self::Queue(queue) => Details { queue: Some(queue.to_string()), ..none },
            Self::Address { queue, address } => {
                Details { queue: Some(queue.to_string()), address: Some(address.to_string()), ..none }
            }
            Self::Group(group) => Details { group: Some(group.to_string()), ..none },
            Self::Cron(cron) => Details { cron: Some(cron.to_string()), ..none },
            Self::Item(id) | Self::Pivot(id) => Details { id: Some(id.clone()), ..none },
            Self::Partition { queue, partition } => {
                Details { queue: Some(queue.to_string()), partition: Some(*partition), ..none }
            }
            Self::Unclaimed(partition) => Details { partition: Some(*partition), ..none },
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Queue(queue) => format!("no queue `{queue}`: make it with queues.create"),
            Self::Address { queue, address } => format!(
                "no item of the address `{address}` in the queue `{queue}`: none was produced, or it has ended and is forgotten"
            ),
            Self::Group(group) => format!("no group `{group}` in the queue: make it with group.create"),
            Self::Cron(cron) => format!("no cron `{cron}`: make it with crons.create"),
            Self::Item(id) => format!("no item {id}: its id is wrong, or it has ended and is forgotten"),
            Self::Pivot(id) => format!(
                "`pivot` {id} is not in this list, or not any more: begin after another item, or from the start"
            ),
            Self::Partition { queue, partition } => {
                format!("the queue `{queue}` has no partition {partition}: queue.stats tells those it has")
            }
            Self::Unclaimed(partition) => format!(
                "no unclaimed partition {partition} in that store: storage/unclaimed.list tells those there are"
            ),
        }
    }
}

impl From<Missing> for Problem {
    fn from(missing: Missing) -> Self {
        Self::new(Code::NotFound, missing.message()).with(missing.details())
    }
}

/// Names what the request asked for, in a `not_found` that does not name what was not found.
pub(super) fn naming(missing: Missing) -> impl FnOnce(Problem) -> Problem {
    move |problem| {
        let nameless = problem.code == Code::NotFound && problem.more.is_none();
        if nameless { missing.into() } else { problem }
    }
}
