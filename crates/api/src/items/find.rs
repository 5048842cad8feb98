//! Items found by what they show, and what they failed of.

use std::collections::BTreeMap;

use windlass_api_derive::{reply, request};

use super::{Item, Kinds};
use crate::time::Time;

/// Live and final items, those on their way to another queue as they ended. All filters that are given must hold.
#[request]
pub struct FindItemsRequest {
    /// The name of the queue. If unset, all queues: then `states` names nothing but `suspended`, `failed` and `expired`, the
    /// newest come first, and there is one page. It may not have all that match: beside `limit` it is bounded to 10,000 items
    /// that are looked at.
    #[field(1)]
    pub queue: Option<String>,
    /// Only items in one of these states; in any if unset, and no item at all if empty.
    #[field(2)]
    pub states: Option<States>,
    /// Only items of one of these kinds; of any if unset, and no item at all if empty.
    #[field(3)]
    pub kinds: Option<Kinds>,
    /// Only items that show this group.
    #[field(4)]
    pub group: Option<String>,
    /// Only items that have, or had, this address.
    #[field(5)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// Only items of this reference.
    #[field(6)]
    #[schemars(length(min = 1, max = 512))]
    pub reference: Option<String>,
    /// Only items that have all of these headers.
    #[field(7, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// Only items whose latest lease is, or was, this client's.
    #[field(8)]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: Option<String>,
    /// Only items whose error has this code.
    #[field(9)]
    #[schemars(length(min = 1, max = 128))]
    pub error_code: Option<String>,
    /// Only items that this cron made.
    #[field(10)]
    pub cron: Option<String>,
    /// Only items produced at this time or later.
    #[field(11)]
    pub created_after: Option<Time>,
    /// Only items produced before this time.
    #[field(12)]
    pub created_before: Option<Time>,
    /// Only items whose state last became another at this time or later.
    #[field(13)]
    pub changed_after: Option<Time>,
    /// Only items whose state last became another before this time.
    #[field(14)]
    pub changed_before: Option<Time>,
    /// By the time of production: `newest` first, also if unset, or `oldest`. Over several partitions it is best effort.
    #[field(15)]
    #[schemars(extend("enum" = ["newest", "oldest"], "default" = "newest"))]
    pub order: Option<String>,
    /// Show payloads and results too.
    #[field(16)]
    pub payloads: bool,
    /// Go on after the page that ended with this pivot: good for the same queue, filters and order.
    #[field(17)]
    #[schemars(length(min = 1))]
    pub pivot: Option<String>,
    /// The most items to get: 1 to 1000, 100 if unset.
    #[field(18)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 100))]
    pub limit: Option<u32>,
    /// Answer without the partitions that do not serve, and name them in `missing`; else the call is `unavailable`.
    #[field(19)]
    pub partial: bool,
}

/// `States`: a list of its own message, so that "unset" and "empty" differ in protobuf.
#[request(transparent)]
pub struct States {
    /// Each `held`, `scheduled`, `waiting`, `leased`, `suspended`, `completed`, `failed`, `cancelled` or `expired`.
    #[field(1)]
    pub states: Vec<String>,
}

/// The filters of `items.find` by themselves: all that are given must hold, and none at all is every item.
#[request]
pub struct ItemFilter {
    /// Only items in one of these states; in any if unset, and no item at all if empty.
    #[field(1)]
    pub states: Option<States>,
    /// Only items of one of these kinds; of any if unset, and no item at all if empty.
    #[field(2)]
    pub kinds: Option<Kinds>,
    /// Only items that show this group.
    #[field(3)]
    pub group: Option<String>,
    /// Only items that have, or had, this address.
    #[field(4)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// Only items of this reference.
    #[field(5)]
    #[schemars(length(min = 1, max = 512))]
    pub reference: Option<String>,
    /// Only items that have all of these headers.
    #[field(6, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// Only items whose latest lease is, or was, this client's.
    #[field(7)]
    #[schemars(length(min = 1, max = 128))]
    pub client_id: Option<String>,
    /// Only items whose error has this code.
    #[field(8)]
    #[schemars(length(min = 1, max = 128))]
    pub error_code: Option<String>,
    /// Only items that this cron made.
    #[field(9)]
    pub cron: Option<String>,
    /// Only items produced at this time or later.
    #[field(10)]
    pub created_after: Option<Time>,
    /// Only items produced before this time.
    #[field(11)]
    pub created_before: Option<Time>,
    /// Only items whose state last became another at this time or later.
    #[field(12)]
    pub changed_after: Option<Time>,
    /// Only items whose state last became another before this time.
    #[field(13)]
    pub changed_before: Option<Time>,
}

/// Takes the filters of `items.find` out of it, or puts them in.
macro_rules! same_filters {
    ($($filter:ident)+) => {
        impl From<FindItemsRequest> for ItemFilter {
            fn from(find: FindItemsRequest) -> Self {
                Self { $($filter: find.$filter,)+ }
            }
        }

        impl From<ItemFilter> for FindItemsRequest {
            fn from(filter: ItemFilter) -> Self {
                Self { $($filter: filter.$filter,)+ ..Self::default() }
            }
        }
    };
}

same_filters! {
    states kinds group address reference headers client_id error_code cron
    created_after created_before changed_after changed_before
}

/// A page of what was found.
#[reply]
pub struct FindItemsReply {
    /// In the order asked for; without payloads and results, unless the request asks for them.
    #[field(1)]
    pub items: Vec<Item>,
    /// Where to go on; unset at the end. A page may be short or empty and still have one.
    #[field(2)]
    pub pivot: Option<String>,
    /// How many items this call looked at: at most 10,000.
    #[field(3)]
    pub scanned: u64,
    /// With `partial`: the partitions that did not serve.
    #[field(4, optional)]
    pub missing: Vec<u32>,
}

#[request]
pub struct ItemErrorsRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
}

#[reply]
pub struct ItemErrorsReply {
    /// The 50 codes that most kept items have, the most frequent first. Beyond 1000 codes in a partition the rest is `other`.
    #[field(1)]
    pub errors: Vec<ErrorCount>,
}

/// How many kept items have an error of one code.
#[reply]
pub struct ErrorCount {
    /// The code; empty for errors without one. `other` stands for the errors that a partition does not tell apart, too, beyond
    /// its 1,000 most frequent codes: `items.find` finds only those with a code of that name.
    #[field(1)]
    pub code: String,
    /// The message of the latest.
    #[field(2)]
    pub message: String,
    /// How many items.
    #[field(3)]
    pub count: u64,
    /// When the latest of them ended.
    #[field(4)]
    pub latest_at: Time,
    /// The latest item.
    #[field(5)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
}
