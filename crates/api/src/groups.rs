//! Requests and replies about groups.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use crate::items::{NewItem, ProducedItem};
use crate::time::{Span, Time};

/// A group and its members.
#[reply]
pub struct Group {
    /// The name of the group.
    #[field(1)]
    pub group: String,
    /// The name of the queue that it and its members are in.
    #[field(2)]
    pub queue: String,
    /// `open` (its members are held), `started`, `done` (started, and no member is left), `cancelled` (leased members are
    /// still to finish) or `aborted` (cancelled, and no member is left).
    #[field(3)]
    #[schemars(extend("enum" = ["open", "started", "done", "cancelled", "aborted"]))]
    pub state: String,
    /// All that ever were members, by the state they are in or ended in.
    #[field(4)]
    pub members: Members,
    /// When it was made.
    #[field(5)]
    pub created_at: Time,
    /// When it was done or aborted.
    #[field(6)]
    pub finished_at: Option<Time>,
}

/// How many members are in each state.
#[reply]
#[derive(Copy)]
pub struct Members {
    /// Waiting for the group to be started.
    #[field(1)]
    pub held: u64,
    /// Due later.
    #[field(2)]
    pub scheduled: u64,
    /// Ready to be leased.
    #[field(3)]
    pub waiting: u64,
    /// In the hands of workers.
    #[field(4)]
    pub leased: u64,
    /// Given up by their workers until somebody answers.
    #[field(5)]
    pub suspended: u64,
    /// Done.
    #[field(6)]
    pub completed: u64,
    /// Given up for good, those on their way to a dead queue included.
    #[field(7)]
    pub failed: u64,
    /// Not wanted any more: cancelled, cleared or deleted.
    #[field(8)]
    pub cancelled: u64,
    /// Older than their `dead_timeout`.
    #[field(9)]
    pub expired: u64,
}

/// What is produced when a group is done or aborted: as an item in produce, without group and address.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct EndItem {
    /// The payload, if it is a JSON value: any, also null, with at most 128 levels of brackets, 1000 digits in a
    /// number, and no lone surrogate. Exactly one of `json`, `utf8` and `bytes` is set.
    #[field(1, json)]
    pub json: Option<String>,
    /// The payload, if it is a text.
    #[field(2)]
    pub utf8: Option<String>,
    /// The payload, if it is bytes: in JSON, base64 with padding.
    #[field(3)]
    pub bytes: Option<Bytes>,
    /// What sort of work it is: 1 to 128 characters, `default` if unset.
    #[field(4)]
    #[schemars(length(min = 1, max = 128), extend("default" = "default"))]
    pub kind: Option<String>,
    /// 0 to 255; 0 goes first, and is what it is if unset.
    #[field(5)]
    #[schemars(range(max = 255), extend("default" = 0))]
    pub priority: Option<u32>,
    /// Not before this time. Past by then or unset: at once.
    #[field(6)]
    pub enqueue_at: Option<Time>,
    /// So long after the end of the group, instead of `enqueue_at`.
    #[field(12)]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none.
    #[field(7)]
    pub max_attempts: Option<u32>,
    /// At most 512 bytes, shown with the item.
    #[field(8)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, shown with the item.
    #[field(9, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// How old it may grow before it expires, instead of the queue's; `0s` means any age.
    #[field(10)]
    pub dead_timeout: Option<Span>,
    /// The queue it is produced into: the group's if unset. It must exist.
    #[field(11)]
    pub queue: Option<String>,
}

#[request]
pub struct CreateGroupRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// The name of the group: 1 to 128 of `A-Z a-z 0-9 . _ -`, and no other group's in the queue.
    #[field(2)]
    pub group: String,
    /// What is produced when the group is done.
    #[field(3)]
    pub end: Option<EndItem>,
    /// What is produced when the group was cancelled and the last member is gone.
    #[field(4)]
    pub abort: Option<EndItem>,
    /// Its first members, at most 1000, as in produce. All of the call is done or nothing.
    #[field(5, optional)]
    #[schemars(length(max = 1000))]
    pub items: Vec<NewItem>,
    /// Start it at once.
    #[field(6)]
    pub start: bool,
}

#[reply]
pub struct CreateGroupReply {
    /// The group as it is now.
    #[field(1)]
    pub group: Group,
    /// In the order given.
    #[field(2)]
    pub items: Vec<ProducedItem>,
}

#[request]
pub struct SetGroupEndRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// The name of the group.
    #[field(2)]
    pub group: String,
    /// What is produced when the group is done; as it was if unset.
    #[field(3)]
    pub end: Option<EndItem>,
    /// What is produced when the group was cancelled and the last member is gone; as it was if unset.
    #[field(4)]
    pub abort: Option<EndItem>,
}

macro_rules! by_name {
    ($($request:ident)+) => {
        $(#[request]
        pub struct $request {
            /// The name of the queue.
            #[field(1)]
            pub queue: String,
            /// The name of the group.
            #[field(2)]
            pub group: String,
        })+
    };
}

by_name! { StartGroupRequest CancelGroupRequest GroupInfoRequest DeleteGroupRequest }

#[reply]
pub struct GroupReply {
    /// The group as it is now; one that was deleted as it was.
    #[field(1)]
    pub group: Group,
}

#[request]
pub struct ListGroupsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// Begin after this name, also if it is gone by now.
    #[field(2)]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most groups to get: 1 to 1000, 1000 if unset.
    #[field(3)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[reply]
pub struct ListGroupsReply {
    /// In the order of their names.
    #[field(1)]
    pub groups: Vec<Group>,
}
