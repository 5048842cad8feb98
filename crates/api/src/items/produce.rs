//! Items to be produced, and what became of each.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use crate::error::Details;
use crate::time::{Span, Time};

/// An item to be produced.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
#[schemars(transform = crate::rules_of_fields::enqueue_at_or_delay)]
pub struct NewItem {
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
    /// Not before this time. In the past or unset: at once.
    #[field(6)]
    pub enqueue_at: Option<Time>,
    /// So long after the server gets the call, instead of `enqueue_at`.
    #[field(13)]
    pub delay: Option<Span>,
    /// Its own limit instead of the queue's; 0 means none.
    #[field(7)]
    pub max_attempts: Option<u32>,
    /// How old it may grow before it expires, instead of the queue's; `0s` means any age.
    #[field(10)]
    pub dead_timeout: Option<Span>,
    /// A name of the producer's choosing, 1 to 512 bytes: no other item that is not final has it in this queue.
    #[field(11)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
    /// The group it is a member of: it is held until that is started. Not with `address` in a queue of several partitions.
    #[field(12)]
    pub group: Option<String>,
    /// At most 512 bytes, shown with the item.
    #[field(8)]
    #[schemars(length(max = 512))]
    pub reference: Option<String>,
    /// At most 32 entries and 4 KiB, shown with the item.
    #[field(9, optional)]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
}

#[request]
pub struct ProduceRequest {
    /// The name of the queue.
    #[field(1)]
    pub queue: String,
    /// How long the client will wait for the answer: 30s if unset, at most 15m.
    #[field(2)]
    #[schemars(extend("default" = "30s"))]
    pub request_timeout: Option<Span>,
    /// A name for this call, 1 to 128 characters: sent again under it within 24h, the call is not carried out again, and
    /// its first answer is given.
    #[field(4)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
    /// 1 to 1000. Those without group and address become durable together, or none of them.
    #[field(3)]
    #[schemars(length(min = 1, max = 1000))]
    pub items: Vec<NewItem>,
}

#[reply]
pub struct ProduceReply {
    /// In the order given.
    #[field(1)]
    pub items: Vec<ProducedItem>,
}

/// What became of one item: it has an id and a state, or an error.
#[reply]
pub struct ProducedItem {
    /// The id it has from now on.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// `waiting`; `scheduled` if it is due later; `held` if its group has not started.
    #[field(2)]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting"]))]
    pub state: Option<String>,
    /// Why there is no such item.
    #[field(3)]
    pub error: Option<ProduceError>,
}

/// Why one item was not produced.
#[reply]
pub struct ProduceError {
    /// A word that programs can rely on.
    #[field(1)]
    pub code: String,
    /// What was wrong and what to do.
    #[field(2)]
    pub message: String,
    /// The item that is in the way, if one is.
    #[field(3)]
    #[schemars(extend("format" = "uuid"))]
    pub id: Option<String>,
    /// Only if there is something to tell.
    #[field(4)]
    pub details: Option<Details>,
}
