//! What was sent and answered over HTTP, in the words of the history.
//!
//! Nothing is made good here: an answer that does not fit its request ends the test, and a payload that came back in
//! another field than it was sent in is no payload.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use windlass_api::error::{Details, Failed, NOT_APPLIED};
use windlass_api::items::{
    self, CompleteReply, ExtendReply, Item, LeaseReply, NewItem, ProduceReply, ReleaseReply, RetryReply,
};
use windlass_api::payload::Payload;
use windlass_api::queues::{self, QueueStatsReply};
use windlass_api::{Code, Time};
use windlass_client::{ClientError, Outcome as Effect};
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::{self, End, Extras, ItemError, Lease, LeaseEnd, Phase, State};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::{Extended, Retried};
use windlass_engine::store::Room;
use windlass_engine::{Granted, ItemView, PartitionState, PartitionStats, QueueStats};
use windlass_sim::history::{Made, Outcome, RetryOp, Verdict, Why};
use windlass_sim::plan::queue_name;

/// A body in the field that its number chooses.
pub(super) fn payload(body: &Bytes) -> Payload {
    let text = || String::from_utf8(body.to_vec()).expect("bodies are ASCII");
    match Made::serial_of(body).expect("bodies begin with a number") % 3 {
        0 => Payload::from_utf8(text()),
        1 => Payload::from_bytes(body.clone()),
        _ => Payload::from_json(&text()).expect("a string is JSON"),
    }
}

/// Nothing unless it came in the field that its number chooses.
fn body_of(shown: &Payload) -> Option<Bytes> {
    let body = match (&shown.json, &shown.utf8, &shown.bytes) {
        (None, Some(text), None) => text.clone().into(),
        (None, None, Some(bytes)) => bytes.clone(),
        (Some(json), None, None) => Bytes::from(serde_json::from_str::<String>(json).ok()?),
        _ => return None,
    };
    (Made::serial_of(&body).is_some() && payload(&body) == *shown).then_some(body)
}

pub(super) fn new_item(made: &Made) -> NewItem {
    let Payload { json, utf8, bytes } = payload(&made.body());
    NewItem {
        json,
        utf8,
        bytes,
        kind: Some(made.kind.to_string()),
        priority: Some(u32::from(made.priority)),
        enqueue_at: made.enqueue_at.map(time),
        max_attempts: made.max_attempts,
        ..NewItem::default()
    }
}

pub(super) fn time(timestamp: Timestamp) -> Time {
    Time::from_micros(i64::try_from(timestamp.0).expect("a time of this age"))
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp(u64::try_from(time.as_micros()).expect("after 1970"))
}

pub(super) fn item_id(text: &str) -> ItemId {
    let uuid = Uuid::parse_str(text).expect("ids are UUIDs");
    ItemId::from_uuid(uuid).expect("an id that the server made")
}

pub(super) fn produced(reply: &ProduceReply, sent: usize) -> Outcome {
    assert_eq!(reply.items.len(), sent, "an answer for each item");
    let made = reply.items.iter().map(|item| {
        assert_eq!(item.error, None, "nothing stands in the way of these items");
        let id = item_id(item.id.as_deref().expect("it has an id"));
        (id, phase(item.state.as_deref().expect("it has a state")))
    });
    Outcome::Produced(made.collect())
}

pub(super) fn granted(reply: &LeaseReply) -> Vec<Granted> {
    let granted = reply.items.iter().map(|item| {
        let payload = Payload { json: item.json.clone(), utf8: item.utf8.clone(), bytes: item.bytes.clone() };
        let id = item_id(&item.id);
        assert_eq!(item.partition, id.partition.0, "the partition is the one of the id");
        Granted {
            id,
            permit: Permit(item.permit),
            kind: item.kind.as_str().into(),
            priority: u8::try_from(item.priority).expect("a priority"),
            attempts: item.attempts,
            deadline: timestamp(item.lease_deadline),
            created_at: timestamp(item.created_at),
            dead_timeout: None,
            address: item.address.as_deref().map(Into::into),
            origin: None,
            group: None,
            input: None,
            event_count: 0,
            // Without a body the checker finds it to be nobody's.
            body: body_of(&payload).unwrap_or_default(),
        }
    });
    granted.collect()
}

pub(super) fn completed(reply: &CompleteReply, sent: &[(ItemId, Permit)]) -> Outcome {
    judged(sent, &reply.failed, reply.completed, |_, _| Verdict::Done)
}

pub(super) fn released(reply: &ReleaseReply, sent: &[(ItemId, Permit)]) -> Outcome {
    judged(sent, &reply.failed, reply.released, |_, _| Verdict::Done)
}

/// Of a retry of one item: of several it does not tell which were to be tried again.
pub(super) fn retried(reply: &RetryReply, sent: &RetryOp) -> Outcome {
    // If it is to be tried at once or by the policy, nobody is told when.
    let again = Retried::Again { due_at: sent.retry_at.unwrap_or_default() };
    let verdict = if reply.retried == 1 { again } else { Retried::Ended(Phase::Failed) };
    let one = [(sent.id, sent.permit)];
    judged(&one, &reply.failed, reply.retried + reply.dead, |_, _| Verdict::Retried(verdict))
}

pub(super) fn extended(reply: &ExtendReply, sent: &[(ItemId, Permit)]) -> Outcome {
    judged(sent, &reply.failed, reply.items.len() as u64, |index, id| {
        let extended = &reply.items[index];
        assert_eq!(item_id(&extended.id), id, "in the order given");
        let cancel_requested = extended.cancel_requested;
        Verdict::Extended(Extended { deadline: timestamp(extended.lease_deadline), cancel_requested })
    })
}

/// `done` is given how many were done before this one.
fn judged(
    sent: &[(ItemId, Permit)],
    failed: &[Failed],
    done_count: u64,
    done: impl Fn(usize, ItemId) -> Verdict,
) -> Outcome {
    let mut refused = failed.iter().peekable();
    let mut done_before = 0;
    let mut verdicts = Vec::with_capacity(sent.len());
    for (id, permit) in sent {
        let this = |failed: &&Failed| item_id(&failed.id) == *id && failed.permit == permit.0;
        if let Some(failed) = refused.next_if(this) {
            verdicts.push(refusal(failed));
        } else {
            verdicts.push(done(done_before, *id));
            done_before += 1;
        }
    }
    assert_eq!(refused.next(), None, "those that failed are some of those sent, in the order given");
    assert_eq!(done_before as u64, done_count, "each item was done, or it failed");
    Outcome::Judged(verdicts)
}

fn refusal(failed: &Failed) -> Verdict {
    let details = failed.details.clone().unwrap_or_default();
    refused(Code::parse(&failed.code), &details).verdict(0)
}

pub(super) fn phase(state: &str) -> Phase {
    match state {
        "scheduled" => Phase::Scheduled,
        "waiting" => Phase::Waiting,
        "leased" => Phase::Leased,
        "completed" => Phase::Completed,
        "failed" => Phase::Failed,
        "cancelled" => Phase::Cancelled,
        other => panic!("no state that these items can be in: {other}"),
    }
}

pub(super) fn shown(shown: &Item, queue: usize) -> Outcome {
    let id = item_id(&shown.id);
    let payload = Payload { json: shown.json.clone(), utf8: shown.utf8.clone(), bytes: shown.bytes.clone() };
    let item = item::Item {
        number: id.number,
        place: id.number.0,
        kind: shown.kind.as_str().into(),
        priority: u8::try_from(shown.priority).expect("a priority"),
        created_at: timestamp(shown.created_at),
        attempts: shown.attempts,
        era: 0,
        group: None,
        state: state(shown),
        extras: shown.error.as_ref().map(|error| Box::new(extras(error))),
    };
    let payload = (payload != Payload::default()).then(|| body_of(&payload).unwrap_or_default());
    let result = shown.result.as_ref().map(|result| body_of(result).unwrap_or_default());
    let queue = queue_name(queue);
    assert_eq!(shown.queue, *queue.name, "an item stays in its queue");
    let max_attempts = shown.max_attempts.expect("every item has a limit, or 0");
    Outcome::Shown(Box::new(ItemView {
        queue,
        id,
        item,
        member: None,
        max_attempts,
        payload,
        facts: None,
        result,
    }))
}

/// What the checker looks at: who failed has an error.
fn extras(error: &items::ItemError) -> Extras {
    let error =
        ItemError { code: error.code.as_deref().map(Into::into), message: error.message.as_str().into() };
    Extras { error: Some(error), ..Extras::default() }
}

fn state(shown: &Item) -> State {
    let end = match phase(&shown.state) {
        Phase::Held | Phase::Waiting => return State::Waiting,
        Phase::Scheduled => {
            return State::Scheduled { due_at: timestamp(shown.enqueue_at.expect("it has a time")) };
        }
        Phase::Leased => return State::Leased(Box::new(lease(shown))),
        Phase::Suspended => return State::Suspended(Box::default()),
        Phase::Completed => End::Completed,
        Phase::Failed => End::Failed,
        Phase::Cancelled => End::Cancelled,
        Phase::Expired => End::Expired,
    };
    let finished_at = timestamp(shown.finished_at.expect("it has ended"));
    let has_result = shown.result.is_some();
    State::Final(Box::new(item::Outcome { end, finished_at, kept_bytes: 0, has_result, outgoing: None }))
}

fn lease(shown: &Item) -> Lease {
    let leased_at = timestamp(shown.leased_at.expect("it is leased"));
    let deadline = timestamp(shown.lease_deadline.expect("it is leased"));
    Lease {
        permit: Permit(shown.permit.expect("it is leased")),
        client_id: shown.client_id.as_deref().expect("it is leased").into(),
        leased_at,
        deadline,
        timeout: Span(deadline.0 - leased_at.0),
        cancel_requested: shown.cancel_requested.expect("it is leased"),
    }
}

pub(super) fn counted(reply: &QueueStatsReply) -> Outcome {
    let kinds = reply.kinds.iter().map(|(kind, of)| (Arc::from(kind.as_str()), counts(of)));
    let priority =
        |(priority, waiting): (&u32, &u64)| (u8::try_from(*priority).expect("a priority"), *waiting);
    let partition = |stats: &queues::PartitionStats| PartitionStats {
        paused: stats.state == "paused",
        partition: PartitionId(stats.partition),
        state: PartitionState::Available,
        store: stats.store.as_str().into(),
        room: if stats.disk_full { Room::Full } else { Room::Enough },
        counts: counts(&stats.counts),
        remaining: None,
    };
    Outcome::Counted(Box::new(QueueStats {
        counts: counts(&reply.counts),
        kinds: kinds.collect(),
        priorities: reply.priorities.iter().map(priority).collect(),
        retained: reply.retained,
        moving: reply.moving,
        oldest_waiting: None,
        lease_waiters: usize::try_from(reply.lease_waiters).expect("not that many"),
        stopped: reply.stopped,
        paused: reply.paused,
        blocked: reply.blocked,
        partitions: reply.partitions.iter().map(partition).collect(),
    }))
}

fn counts(counts: &queues::Counts) -> Counts {
    Counts {
        held: counts.held,
        scheduled: counts.scheduled,
        waiting: counts.waiting,
        leased: counts.leased,
        suspended: counts.suspended,
    }
}

/// What became of a call that was not answered as it should be. Of a server that was killed nothing is expected any
/// more; from one that lives a broken connection is no answer.
pub(super) fn failed(error: &ClientError, killed: bool) -> Outcome {
    match error {
        ClientError::Refused { code, details, .. } => refused(code.known(), details),
        ClientError::Unreachable { .. } => Outcome::NotApplied(error.to_string()),
        ClientError::Interrupted { .. } if killed => Outcome::Unknown(Why::Crashed),
        ClientError::Interrupted { .. } | ClientError::Timeout { .. } => match error.outcome() {
            Effect::Unknown => Outcome::Unknown(Why::Told),
            // It only asked.
            Effect::NotApplied => Outcome::NotApplied(error.to_string()),
        },
        ClientError::StreamLost { .. }
        | ClientError::BadReply { .. }
        | ClientError::BadUrl { .. }
        | ClientError::BadPayload(_) => {
            panic!("nothing that a server does should lead to this: {error}")
        }
    }
}

fn refused(code: Option<Code>, details: &Details) -> Outcome {
    let code = code.expect("a code of the contract");
    if code == Code::NotFound {
        return Outcome::Refused(Refusal::NotFound);
    }
    if code == Code::LeaseLost {
        return Outcome::Refused(Refusal::LeaseLost { reason: details.reason.as_deref().map(lease_end) });
    }
    assert!(code == Code::Overloaded || code.status() >= 500, "a request that is wrong: {code}");
    if code == Code::Overloaded || details.outcome.as_deref() == Some(NOT_APPLIED) {
        return Outcome::NotApplied(code.to_string());
    }
    Outcome::Unknown(Why::Told)
}

fn lease_end(reason: &str) -> LeaseEnd {
    match reason {
        "expired" => LeaseEnd::Expired,
        "revoked" => LeaseEnd::Revoked,
        "cancelled" => LeaseEnd::Cancelled,
        "completed" => LeaseEnd::Completed,
        "retried" => LeaseEnd::Retried,
        "released" => LeaseEnd::Released,
        "suspended" => LeaseEnd::Suspended,
        other => panic!("no reason of the contract: {other}"),
    }
}
