//! Requests and replies about crons.

use std::collections::BTreeMap;

use bytes::Bytes;
use windlass_api_derive::{reply, request};

use crate::items::ProducedItem;
use crate::time::{Span, Time};

/// What produces an item at each time of a schedule.
#[reply]
pub struct Cron {
    /// Its name, which is one cron's of the whole server.
    #[field(1)]
    pub cron: String,
    /// The name of the queue that it produces into.
    #[field(2)]
    pub queue: String,
    /// When it runs, as it was written.
    #[field(3)]
    pub schedule: String,
    /// Whose clocks the schedule goes by: a name of the IANA time zone database.
    #[field(4)]
    pub timezone: String,
    /// What is produced each time.
    #[field(5)]
    pub item: CronItem,
    /// What becomes of times that were missed by more than 5 s: `skip` (nothing), `one` (one item for all of them) or
    /// `all` (one for each).
    #[field(6)]
    #[schemars(extend("enum" = ["skip", "one", "all"]))]
    pub catch_up: String,
    /// What becomes of a time that comes while the previous item is not final: `allow` (one more) or `skip` (nothing).
    #[field(7)]
    #[schemars(extend("enum" = ["allow", "skip"]))]
    pub overlap: String,
    /// Whether it is stopped for now.
    #[field(8)]
    pub paused: bool,
    /// The next time of its schedule, also while it is paused; unset (in JSON null) if there is none.
    #[field(9, nullable)]
    pub next_at: Option<Time>,
    /// The last time of its schedule that ran; unset (in JSON null) if there is none.
    #[field(10, nullable)]
    pub last_at: Option<Time>,
    /// The next ten times of its schedule. Not in lists.
    #[field(11, optional)]
    pub next_times: Vec<Time>,
    /// When it was made: what `@every` counts from.
    #[field(12)]
    pub created_at: Time,
    /// The item that it made last, if it made one; in lists without its state.
    #[field(13)]
    pub last_item: Option<LastItem>,
}

/// The item that a cron made last.
#[reply]
pub struct LastItem {
    /// The item.
    #[field(1)]
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Its state; unset if nothing of the item is kept any more, and in lists.
    #[field(2)]
    #[schemars(extend("enum" = ["held", "scheduled", "waiting", "leased", "suspended", "completed", "failed", "cancelled", "expired"]))]
    pub state: Option<String>,
}

/// What a cron produces: as an item in produce, without group and `enqueue_at`.
#[request]
#[schemars(transform = crate::rules_of_fields::exactly_one_payload)]
pub struct CronItem {
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
    /// A name, 1 to 512 bytes: while an item that is not final has it in this queue, a time produces nothing.
    #[field(6)]
    #[schemars(length(min = 1, max = 512))]
    pub address: Option<String>,
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
    /// So long after the run that produces it.
    #[field(11)]
    pub delay: Option<Span>,
}

#[request]
pub struct CreateCronRequest {
    /// The name of the cron: 1 to 128 of `A-Z a-z 0-9 . _ -`, and no other cron's of the server.
    #[field(1)]
    pub cron: String,
    /// The name of the queue to produce into.
    #[field(2)]
    pub queue: String,
    /// Five fields (minute, hour, day of the month, month, day of the week), six with the second first, `@hourly`,
    /// `@daily`, `@weekly`, `@monthly`, `@yearly`, or `@every` and a duration of at least 1s.
    #[field(3)]
    #[schemars(length(max = 256))]
    pub schedule: String,
    /// Whose clocks the schedule goes by: a name of the IANA time zone database, `UTC` if unset.
    #[field(4)]
    #[schemars(length(max = 64), extend("default" = "UTC"))]
    pub timezone: Option<String>,
    /// What is produced each time.
    #[field(5)]
    pub item: CronItem,
    /// What becomes of times that were missed by more than 5 s: `skip` (nothing) if unset, `one` or `all`.
    #[field(6)]
    #[schemars(extend("enum" = ["skip", "one", "all"], "default" = "skip"))]
    pub catch_up: Option<String>,
    /// What becomes of a time that comes while the previous item is not final: `allow` (one more) if unset, or `skip`.
    #[field(7)]
    #[schemars(extend("enum" = ["allow", "skip"], "default" = "allow"))]
    pub overlap: Option<String>,
    /// A cron of that name is answered as it is, if its queue and every field given are the same; else it is `already_exists`.
    #[field(8)]
    pub exists_ok: bool,
}

#[request]
pub struct UpdateCronRequest {
    /// The name of the cron.
    #[field(1)]
    pub cron: String,
    /// A cron stays in its queue: if set, this must be that.
    #[field(2)]
    pub queue: Option<String>,
    /// When it runs from now on; as it was if unset, like all that follows.
    #[field(3)]
    #[schemars(length(max = 256))]
    pub schedule: Option<String>,
    /// Whose clocks the schedule goes by.
    #[field(4)]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,
    /// What is produced each time: replaced as a whole.
    #[field(5)]
    pub item: Option<CronItem>,
    /// What becomes of times that were missed by more than 5 s.
    #[field(6)]
    #[schemars(extend("enum" = ["skip", "one", "all"]))]
    pub catch_up: Option<String>,
    /// What becomes of a time that comes while the previous item is not final.
    #[field(7)]
    #[schemars(extend("enum" = ["allow", "skip"]))]
    pub overlap: Option<String>,
}

macro_rules! by_name {
    ($($request:ident)+) => {
        $(#[request]
        pub struct $request {
            /// The name of the cron.
            #[field(1)]
            pub cron: String,
        })+
    };
}

by_name! { CronInfoRequest DeleteCronRequest PauseCronRequest ResumeCronRequest TriggerCronRequest }

#[reply]
pub struct CronReply {
    /// The cron as it is now.
    #[field(1)]
    pub cron: Cron,
}

#[reply]
pub struct DeleteCronReply {}

#[reply]
pub struct ResumeCronReply {}

#[reply]
pub struct TriggerCronReply {
    /// What was produced.
    #[field(1)]
    pub item: ProducedItem,
}

#[request]
pub struct ListCronsRequest {
    /// Begin after this name, also if it is gone by now.
    #[field(1)]
    #[schemars(length(max = 128))]
    pub pivot: Option<String>,
    /// The most crons to get: 1 to 1000, 1000 if unset.
    #[field(2)]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1000))]
    pub limit: Option<u32>,
}

#[reply]
pub struct ListCronsReply {
    /// Of all queues, in the order of their names. A page may hold fewer than `limit`, for it is bounded in bytes too: only an
    /// empty one is the end.
    #[field(1)]
    pub crons: Vec<Cron>,
}
