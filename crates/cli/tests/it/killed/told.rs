//! Requests and answers over HTTP, in the words of the history.
//!
//! Nothing is made good here: an answer that does not fit its request ends the test, and a payload that came back in
//! another field than it was sent in is no payload.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use windlass_api::error::{Details, Failed, NOT_APPLIED};
use windlass_api::items::{
    self, CompleteReply, ExtendReply, Item, ItemError, LeaseReply, NewItem, ProduceReply, ReleaseReply,
    RetryReply,
};
use windlass_api::payload::Payload;
use windlass_api::queues::{self, QueueStatsReply};
use windlass_api::{Code, Time};
use windlass_client::{ClientError, Outcome as Effect};
use windlass_core::id::{ItemId, PartitionId, Permit};
use windlass_core::item::{LeaseEnd, MoveReason, Phase};
use windlass_core::partition::Counts;
use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;
use windlass_core::verbs::Retried;
use windlass_sim::history::{
    Extended, Given, Made, Origin, Outcome, PartitionCounts, PartitionState, QueueCounts, RetryOp, ShownItem,
    Verdict, Why,
};
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

pub(super) fn granted(reply: &LeaseReply) -> Vec<Given> {
    let granted = reply.items.iter().map(|item| {
        let payload = Payload { json: item.json.clone(), utf8: item.utf8.clone(), bytes: item.bytes.clone() };
        let id = item_id(&item.id);
        assert_eq!(item.partition, id.partition.0, "the partition is the one of the id");
        Given {
            kind: item.kind.as_str().into(),
            priority: u8::try_from(item.priority).expect("a priority"),
            attempts: item.attempts,
            deadline: timestamp(item.lease_deadline),
            created_at: timestamp(item.created_at),
            // Without a body the checker finds it to be nobody's.
            body: body_of(&payload).unwrap_or_default(),
            ..Given::of(id, Permit(item.permit))
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
    let phase = phase(&shown.state);
    let queue = queue_name(queue).name;
    assert_eq!(shown.queue, *queue, "an item stays in its queue");
    is_whole(shown, phase);
    Outcome::Shown(Box::new(ShownItem {
        queue,
        kind: shown.kind.as_str().into(),
        priority: u8::try_from(shown.priority).expect("a priority"),
        created_at: timestamp(shown.created_at),
        attempts: shown.attempts,
        finished_at: shown.finished_at.map(timestamp),
        error: shown.error.as_ref().map(error_text),
        payload: (payload != Payload::default()).then(|| body_of(&payload).unwrap_or_default()),
        result: shown.result.as_ref().map(|result| body_of(result).unwrap_or_default()),
        text: format!("{phase:?} attempts {} permit {:?}", shown.attempts, shown.permit),
        ..ShownItem::of(id, phase)
    }))
}

/// An item is shown with all that belongs to its state.
fn is_whole(shown: &Item, phase: Phase) {
    assert!(shown.max_attempts.is_some(), "every item has a limit, or 0");
    let lease = [shown.leased_at.is_some(), shown.lease_deadline.is_some(), shown.permit.is_some()];
    let holder = [shown.client_id.is_some(), shown.cancel_requested.is_some()];
    match phase {
        Phase::Scheduled => assert!(shown.enqueue_at.is_some(), "a scheduled item has a time"),
        Phase::Leased => assert!([&lease[..], &holder].concat().iter().all(|is_set| *is_set), "{shown:?}"),
        Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Expired => {
            assert!(shown.finished_at.is_some(), "an item that ended has the time of that");
        }
        Phase::Held | Phase::Waiting | Phase::Suspended => {}
    }
}

pub(super) fn origin(origin: &items::Origin) -> Box<Origin> {
    Box::new(Origin {
        queue: origin.queue.as_str().into(),
        id: origin.id.as_deref().map(item_id),
        group: origin.group.as_deref().map(Into::into),
        attempts: origin.attempts,
        reason: match origin.reason.as_str() {
            "attempts" => MoveReason::Attempts,
            "dead" => MoveReason::Dead,
            other => panic!("nothing else moves these items: {other}"),
        },
        error: origin.error.as_ref().map(error_text),
        moved_at: timestamp(origin.moved_at),
    })
}

fn error_text(error: &ItemError) -> Arc<str> {
    match &error.code {
        Some(code) => format!("{code}: {}", error.message).into(),
        None => error.message.as_str().into(),
    }
}

pub(super) fn counted(reply: &QueueStatsReply) -> Outcome {
    let kinds = reply.kinds.iter().map(|(kind, of)| (Arc::from(kind.as_str()), counts(of)));
    let priority =
        |(priority, waiting): (&u32, &u64)| (u8::try_from(*priority).expect("a priority"), *waiting);
    let partition = |stats: &queues::PartitionStats| PartitionCounts {
        partition: PartitionId(stats.partition),
        state: PartitionState::Available,
        store: stats.store.as_str().into(),
        counts: counts(&stats.counts),
        drains: stats.remaining.is_some(),
    };
    Outcome::Counted(Box::new(QueueCounts {
        counts: counts(&reply.counts),
        kinds: kinds.collect(),
        priorities: reply.priorities.iter().map(priority).collect(),
        retained: reply.retained,
        moving: reply.moving,
        lease_waiters: usize::try_from(reply.lease_waiters).expect("not that many"),
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

/// The outcome of a call that was not answered as it should be. Of a server that was killed nothing is expected any
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
