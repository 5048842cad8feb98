//! The only mapping from what went wrong to what a client is told.

use std::fmt;
use std::sync::Arc;

use windlass_api::Code;
use windlass_api::error::{Details, Error, ErrorReply, NOT_APPLIED, UNKNOWN};
use windlass_core::id::ItemId;
use windlass_core::item::LeaseEnd;
use windlass_core::limits::Invalid;
use windlass_core::refusal::Refusal;
use windlass_engine::{EngineError, Outcome};

use super::bounds;
use super::missing::Missing;
use super::show;
use crate::gate::{CROSS_SITE, Refused};

/// An error on its way to a client.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) outcome: Option<Outcome>,
    pub(super) reason: Option<LeaseEnd>,
    /// The item that is in the way.
    pub(super) id: Option<ItemId>,
    /// The number of the item's last event.
    pub(super) last_seq: Option<u64>,
    /// The bound that was reached, if waiting does not mend it.
    pub(super) limit: Option<&'static str>,
    /// Details that no other field has. Boxed, because few errors have any.
    pub(super) more: Option<Box<Details>>,
    /// For the operator's log, never for the client.
    pub(super) cause: Option<String>,
    /// The connection cannot be used any further.
    pub(super) close: bool,
}

impl Problem {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            outcome: None,
            reason: None,
            id: None,
            last_seq: None,
            limit: None,
            more: None,
            cause: None,
            close: false,
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// A value within something: `items[3].` and the field's own name.
    pub(super) fn invalid_in(within: impl fmt::Display, Invalid { field, rule }: Invalid) -> Self {
        Self::invalid(format!("`{within}{field}` must be {rule}"))
    }

    /// `what` is there and was to be the same, but is not in that field.
    pub(super) fn differs(what: &str, update: &str, field: &'static str) -> Self {
        let message = format!(
            "there is a {what} of that name, and its `{field}` is another: change it with {update}, leave the field out, or \
             choose another name"
        );
        Self::new(Code::AlreadyExists, message).with_field(field)
    }

    pub(super) fn with_field(self, field: &'static str) -> Self {
        self.with(Details { field: Some(field.to_owned()), ..Details::default() })
    }

    pub(super) fn not_now(message: impl Into<String>) -> Self {
        Self { outcome: Some(Outcome::NotApplied), ..Self::new(Code::Unavailable, message) }
    }

    pub(super) fn internal(cause: impl fmt::Display, outcome: Outcome) -> Self {
        let message = "a fault of the server: its log tells more under the id of this request";
        Self { outcome: Some(outcome), cause: Some(cause.to_string()), ..Self::new(Code::Internal, message) }
    }

    /// The same, on a connection that must not be used again.
    pub(super) fn closing(self) -> Self {
        Self { close: true, ..self }
    }

    pub(super) fn with(self, more: Details) -> Self {
        Self { more: Some(Box::new(more)), ..self }
    }

    pub(super) fn details(&self) -> Option<Details> {
        let details = Details {
            outcome: self.outcome.map(|outcome| outcome_name(outcome).to_owned()),
            reason: self.reason.map(|reason| reason_name(reason).to_owned()),
            last_seq: self.last_seq,
            limit: self.limit.map(str::to_owned),
            ..self.more.as_deref().cloned().unwrap_or_default()
        };
        (details != Details::default()).then_some(details)
    }

    /// The details, and in them the item that is in the way.
    pub(super) fn details_with_id(&self) -> Option<Details> {
        let mut details = self.details();
        if let Some(id) = self.id {
            details.get_or_insert_default().id = Some(id.to_string());
        }
        details
    }

    pub(super) fn to_reply(&self) -> ErrorReply {
        let (code, details) = (self.code.as_str().to_owned(), self.details_with_id());
        ErrorReply { error: Error { code, message: self.message.clone(), details } }
    }

    /// Seconds for `Retry-After`.
    pub(super) fn retry_after(&self) -> Option<u32> {
        let passes = matches!(self.code, Code::Overloaded | Code::Unavailable) && self.limit.is_none();
        passes.then_some(1)
    }

    /// The error as a reading call tells it: `outcome` is `not_applied`, because such a call changes nothing.
    pub(super) fn of_reading(self) -> Self {
        match (self.code, self.outcome) {
            (Code::Unavailable, Some(Outcome::Unknown)) => {
                let message = unavailable_message(Outcome::NotApplied).to_owned();
                Self { outcome: Some(Outcome::NotApplied), message, ..self }
            }
            (_, Some(Outcome::Unknown)) => Self { outcome: Some(Outcome::NotApplied), ..self },
            (_, Some(Outcome::NotApplied) | None) => self,
        }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.to_string())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let denied = Self::new(Code::PermissionDenied, refused.to_string());
        match refused {
            Refused::BadHost(bad) => Self::invalid(bad.to_string()),
            Refused::Host(host) => {
                denied.with(Details { host: Some(host.to_string()), ..Details::default() })
            }
            Refused::Origin(origin) => denied.with(Details { origin: Some(origin), ..Details::default() }),
            Refused::CrossSite => {
                denied.with(Details { origin: Some(CROSS_SITE.to_owned()), ..Details::default() })
            }
            Refused::Forwarded { .. } => denied,
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::DuplicateAddress { id } => {
                Self { id: Some(id), ..Self::new(Code::DuplicateAddress, DUPLICATE_ADDRESS) }
            }
            EngineError::Overloaded { what, max } => Self::new(
                Code::Overloaded,
                format!("too many {what}: at most {max}. Try again a little later"),
            ),
            EngineError::OutOfMemory { bytes, max } => Self::new(
                Code::Overloaded,
                format!(
                    "the server takes up {bytes} bytes of memory, and `limits.memory` is {max}: nothing was changed. Let \
                     workers complete items, and try again a little later"
                ),
            ),
            EngineError::TooLarge(error) => Self::new(Code::TooLarge, error.to_string()),
            EngineError::Unavailable { outcome, reason, full } => {
                let message = full.map_or_else(|| unavailable_message(outcome).to_owned(), disk_full_message);
                Self { outcome: Some(outcome), cause: Some(reason), ..Self::new(Code::Unavailable, message) }
            }
        }
    }
}

const DUPLICATE_ADDRESS: &str =
    "an item of that address is not final yet: wait for it with item.wait, or choose another address";

fn disk_full_message(store: Arc<str>) -> String {
    format!(
        "the disk of the store `{store}` is full, and nothing was changed: free space on that disk, or let workers complete \
         items, and send it again"
    )
}

fn unavailable_message(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotApplied => {
            "it cannot be done now, and nothing was changed: send it again a little later. queue.stats and the \
             server's log tell why"
        }
        Outcome::Unknown => {
            "it may or may not have been done: look before you send it again. queue.stats and the server's log tell why"
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            // The call names what it asked for: `missing::naming`.
            Refusal::NotFound | Refusal::NoSuchPivot | Refusal::NoSuchGroup | Refusal::NotUnclaimed => {
                Self::new(Code::NotFound, "there is no such thing")
            }
            Refusal::LeaseLost { reason } => {
                Self { reason, ..Self::new(Code::LeaseLost, lease_lost_message(reason)) }
            }
            Refusal::NotAfter { last_seq } => {
                let message = format!(
                    "`after` is not the number of the last event, which is {last_seq}: what came after it may be yours already"
                );
                Self { last_seq: Some(last_seq), ..Self::new(Code::WrongState, message) }
            }
            Refusal::NotSuspended => {
                Self::new(Code::WrongState, "the item is not suspended: there is nothing to answer")
            }
            Refusal::Ended => {
                Self::new(Code::WrongState, "the item has ended: only live ones can be deleted")
            }
            Refusal::WrongPhase { phase } => Self::new(
                Code::WrongState,
                format!("the item is {}: this cannot be done with items in that state", show::state(phase)),
            ),
            Refusal::NotEnded => {
                Self::new(Code::WrongState, "the item has not ended: only final ones can be rerun")
            }
            Refusal::MovedOn { id } => {
                let message = format!("the item goes on as {id}: look at that one");
                Self { id: Some(id), ..Self::new(Code::WrongState, message) }
            }
            Refusal::Leaving => Self::new(
                Code::WrongState,
                "the item is on its way to another queue: rerun or redrive it once it has arrived there. item.explain tells where",
            ),
            Refusal::NoPayload { lost: true } => {
                Self::new(Code::WrongState, "the payload of the item is lost: produce the item anew")
            }
            Refusal::NoPayload { lost: false } => Self::new(
                Code::WrongState,
                "the payload of the item is not kept: from now on `retain_payload` of its queue keeps payloads of items that fail, \
                 expire or are cancelled if it is `failed`, and of completed ones too if it is `all`",
            ),
            Refusal::DuplicateAddress { .. } | Refusal::HeldElsewhere { .. } => {
                Self::new(Code::DuplicateAddress, DUPLICATE_ADDRESS)
            }
            Refusal::Draining => Self::new(
                Code::WrongState,
                "partitions of the queue are still being leased empty: queue.stats tells what remains",
            ),
            Refusal::Moved => unreachable!("the engine sends it again to where it belongs"),
            Refusal::KeyTaken => Self::new(
                Code::AlreadyExists,
                "`idempotency_key` was used for other items in the last 24h: a new call needs a new key",
            ),
            Refusal::NoSuchPartition { queue, partition } => {
                Missing::Partition { queue, partition: partition.0 }.into()
            }
            Refusal::GroupExists => Self::new(
                Code::AlreadyExists,
                "there is a group of that name in the queue: choose another, or delete it once it is over",
            ),
            Refusal::GroupFinished => Self::new(
                Code::GroupFinished,
                "the group is done or was cancelled: nothing more can be done with it but to delete it",
            ),
            Refusal::GroupNotOver => Self::new(
                Code::WrongState,
                "the group is neither done nor aborted: cancel it, and let its leased members finish",
            ),
            Refusal::QueueExists => Self::new(
                Code::AlreadyExists,
                "there is a queue of that name: choose another, or change it with queues.update",
            ),
            Refusal::QueueDiffers { field } => Self::differs("queue", "queues.update", field),
            Refusal::NoSuchQueue { queue } => Missing::Queue(queue).into(),
            Refusal::NotEmpty { live } => Self::new(
                Code::NotEmpty,
                format!(
                    "the queue holds {live} items that have not ended or not yet arrived where they go: \
                     clear it, let them arrive, or set `force`"
                ),
            ),
            Refusal::UnclaimedNotEmpty { live, crons } => Self::new(
                Code::NotEmpty,
                format!(
                    "the partition holds {live} items that have not ended or not yet arrived where they go, and {crons} \
                     crons: adopt it into a queue, or set `force`"
                ),
            ),
            Refusal::UnclaimedDamaged { damage } => Self::new(
                Code::WrongState,
                format!(
                    "the partition cannot be read: {damage}. It can be dropped with `force`; to keep what is readable of it, \
                     stop the server and salvage the directory with `windlass inspect DIR --salvage`"
                ),
            ),
            Refusal::PartitionNamed { queue } => Self::new(
                Code::AlreadyExists,
                format!(
                    "the queue `{queue}` has a partition of that number, so this one cannot be adopted: stop the server, \
                     export the items of this one with `windlass inspect DIR --export --partition NUMBER`, start the \
                     server, and import them with `windlass storage import`"
                ),
            ),
            Refusal::CronNamed { cron } => Self::new(
                Code::AlreadyExists,
                format!(
                    "the partition has a cron `{cron}`, and there is another cron of that name: delete that one with \
                     crons.delete first, or keep the partition unclaimed"
                ),
            ),
            Refusal::TooMany { what, max } => {
                Self::new(Code::Overloaded, format!("too many {what}: at most {max}"))
            }
            Refusal::AtLimit { limit, max } => bounds::reached(limit, max),
            Refusal::Invalid(invalid) => invalid.into(),
            Refusal::Cron(refusal) => refusal.into(),
        }
    }
}

fn lease_lost_message(reason: Option<LeaseEnd>) -> String {
    match reason {
        Some(reason) => format!("the lease has ended ({}): stop working on the item", reason_name(reason)),
        None => {
            "the permit is not the item's: it is an older one, or was never given. Stop working on the item"
                .to_owned()
        }
    }
}

fn reason_name(reason: LeaseEnd) -> &'static str {
    match reason {
        LeaseEnd::Expired => "expired",
        LeaseEnd::Revoked => "revoked",
        LeaseEnd::Cancelled => "cancelled",
        LeaseEnd::Completed => "completed",
        LeaseEnd::Retried => "retried",
        LeaseEnd::Released => "released",
        LeaseEnd::Suspended => "suspended",
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotApplied => NOT_APPLIED,
        Outcome::Unknown => UNKNOWN,
    }
}
