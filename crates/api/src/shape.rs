//! How often each field of a protobuf request may come, at every level, and what it then takes in memory.
//!
//! Two bytes of protobuf can stand for an item of several hundred, and a field can come any number of times: a request is held
//! to its shape before anything is made of it. `tests/it/shape.rs` compares the table at the end with the schema in `proto/`.

use crate::time::{Span, Time};
use crate::{
    crons, events, explain, groups, items, payload, permits, queues, rules, service, storage, unclaimed,
};

/// Entries of a list.
pub const LIST_MAX: usize = 1000;
/// Headers of an item.
pub const HEADERS_MAX: usize = 32;

/// Entries that a node of a `BTreeMap` has room for. Every leaf but a single one has at least `NODE_MIN`.
const NODE_MAX: usize = 11;
const NODE_MIN: usize = 5;
const LEAF_BYTES: usize = NODE_MAX * size_of::<(String, String)>() + 2 * size_of::<usize>();
const ROOT_BYTES: usize = LEAF_BYTES + (NODE_MAX + 1) * size_of::<usize>();

/// Fields that a message has in the table.
pub const FIELDS_MAX: usize = 16;

/// A message or a text.
#[derive(Debug)]
pub struct Shape {
    /// In memory, without the letters of texts.
    pub bytes: usize,
    /// Fields that are messages, lists or maps. `None`: not a message.
    pub fields: Option<&'static [Field]>,
}

#[derive(Debug)]
pub struct Field {
    pub tag: u32,
    pub name: &'static str,
    pub count: Count,
    pub shape: &'static Shape,
}

/// How often a field may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    One,
    List,
    Headers,
}

impl Count {
    pub const fn most(self) -> usize {
        match self {
            Self::One => 1,
            Self::List => LIST_MAX,
            Self::Headers => HEADERS_MAX,
        }
    }
}

impl Field {
    /// Memory of this field if it comes `times` times. A list grows by doubling, and a single message is a part of the message
    /// around it.
    pub fn bytes(&self, times: usize) -> usize {
        match self.count {
            Count::One => 0,
            Count::List => 2 * times * self.shape.bytes,
            Count::Headers => headers_bytes(times),
        }
    }
}

/// Memory of so many headers without their letters: the nodes of a `BTreeMap` of `String`s, as many as there can be. Between
/// two leaves stands an entry of the root, and `HEADERS_MAX` headers need no more levels than these two.
pub const fn headers_bytes(headers: usize) -> usize {
    match headers {
        0 => 0,
        1..=NODE_MAX => LEAF_BYTES,
        _ => ROOT_BYTES + (headers + 1) / (NODE_MIN + 1) * LEAF_BYTES,
    }
}

/// A message whose shape is known.
pub trait Shaped {
    const SHAPE: Shape;
}

impl Shaped for String {
    const SHAPE: Shape = Shape { bytes: size_of::<Self>(), fields: None };
}

/// A header.
impl Shaped for (String, String) {
    const SHAPE: Shape = Shape { bytes: size_of::<Self>(), fields: None };
}

macro_rules! shapes {
    ($($message:ty { $($tag:literal $name:ident: $count:ident $of:ty,)* })+) => {
        $(impl Shaped for $message {
            const SHAPE: Shape = Shape {
                bytes: size_of::<Self>(),
                fields: Some(&[$(Field {
                    tag: $tag,
                    name: stringify!($name),
                    count: Count::$count,
                    shape: &<$of as Shaped>::SHAPE,
                }),*]),
            };
        }
        const _: () = {
            let tags: &[u32] = &[$($tag),*];
            assert!(tags.len() <= FIELDS_MAX);
        };)+
    };
}

shapes! {
    Time {}
    Span {}
    queues::CreateQueueRequest {
        3 lease_timeout: One Span, 5 retry: One queues::RetryPolicyChange,
        7 retention: One Span, 12 dead_timeout: One Span,
    }
    queues::RetryPolicyChange { 2 initial: One Span, 4 max: One Span, }
    queues::UpdateQueueRequest {
        2 lease_timeout: One Span, 4 retry: One queues::RetryPolicyChange,
        6 retention: One Span, 11 dead_timeout: One Span,
    }
    queues::QueueInfoRequest {}
    queues::ListQueuesRequest {}
    queues::DeleteQueueRequest {}
    queues::QueueStatsRequest {}
    queues::ClearQueueRequest {}
    queues::RedriveQueueRequest {}
    queues::RebalanceQueueRequest {}
    items::ProduceRequest { 2 request_timeout: One Span, 3 items: List items::NewItem, }
    items::NewItem {
        6 enqueue_at: One Time, 9 headers: Headers (String, String), 10 dead_timeout: One Span, 13 delay: One Span,
    }
    items::LeaseRequest { 4 request_timeout: One Span, 5 lease_timeout: One Span, 6 kinds: One items::Kinds, }
    items::Kinds { 1 kinds: List String, }
    items::CompleteRequest { 2 request_timeout: One Span, 3 items: List items::Completion, }
    items::Completion { 3 result: One payload::Payload, }
    payload::Payload {}
    items::RetryRequest { 2 items: List items::Retry, }
    items::Retry { 3 retry_at: One Time, 5 error: One items::ItemError, 6 delay: One Span, }
    items::ItemError {}
    items::ExtendRequest { 2 lease_timeout: One Span, 3 items: List items::Held, }
    items::Held {}
    items::ReleaseRequest { 2 items: List items::Held, }
    events::SuspendRequest { 2 items: List events::Suspend, }
    events::Suspend {}
    permits::ListPermitsRequest {}
    permits::RevokeRequest { 2 items: List items::Held, }
    items::GetItemRequest {}
    items::WaitItemRequest { 4 request_timeout: One Span, }
    items::CancelItemRequest {}
    events::EmitRequest { 4 events: List events::NewEvent, }
    events::NewEvent {}
    events::ResumeItemRequest {}
    events::CloseStreamsRequest {}
    groups::CreateGroupRequest {
        3 end: One groups::EndItem, 4 abort: One groups::EndItem,
        5 items: List items::NewItem,
    }
    groups::EndItem {
        6 enqueue_at: One Time, 9 headers: Headers (String, String), 10 dead_timeout: One Span, 12 delay: One Span,
    }
    groups::SetGroupEndRequest { 3 end: One groups::EndItem, 4 abort: One groups::EndItem, }
    groups::StartGroupRequest {}
    groups::CancelGroupRequest {}
    groups::GroupInfoRequest {}
    groups::DeleteGroupRequest {}
    groups::ListGroupsRequest {}
    crons::CreateCronRequest { 5 item: One crons::CronItem, }
    crons::CronItem { 9 headers: Headers (String, String), 10 dead_timeout: One Span, 11 delay: One Span, }
    crons::UpdateCronRequest { 5 item: One crons::CronItem, }
    crons::CronInfoRequest {}
    crons::ListCronsRequest {}
    crons::DeleteCronRequest {}
    crons::PauseCronRequest {}
    crons::ResumeCronRequest {}
    crons::TriggerCronRequest {}
    storage::ReloadQueueRequest {}
    storage::ListItemsRequest {}
    storage::ListScheduledRequest {}
    storage::ImportItemsRequest { 2 items: List storage::ImportItem, }
    storage::ImportItem {
        12 created_at: One Time, 14 enqueue_at: One Time, 17 leased_at: One Time, 18 lease_deadline: One Time,
        20 finished_at: One Time, 22 headers: Headers (String, String), 23 error: One items::ItemError,
        24 result: One payload::Payload, 25 dead_timeout: One Span, 26 origin: One items::Origin,
    }
    items::Origin { 7 error: One items::ItemError, 8 moved_at: One Time, }
    storage::DeleteItemsRequest { 2 ids: List String, }
    unclaimed::ListUnclaimedRequest {}
    unclaimed::AdoptPartitionRequest {}
    unclaimed::DropPartitionRequest {}
    rules::PauseQueueRequest { 4 until: One Time, }
    rules::ResumeQueueRequest { 4 until: One Time, }
    rules::BlockQueueRequest { 4 until: One Time, }
    rules::UnblockQueueRequest { 4 until: One Time, }
    rules::ListRulesRequest {}
    explain::ExplainItemRequest {}
    service::BackupRequest {}
    service::ServerInfoRequest {}
}
