//! How long a call may take, what is known of one without an answer, and whether it may be sent twice.

use std::any::Any;
use std::time::Duration;

use windlass_api::events::CloseStreamsRequest;
use windlass_api::items::{CompleteRequest, LeaseRequest, NextRequest, ProduceRequest, WaitItemRequest};
use windlass_api::queues::RedriveQueueRequest;
use windlass_api::service::BackupRequest;
use windlass_api::storage::ReloadQueueRequest;
use windlass_api::unclaimed::{AdoptPartitionRequest, DropPartitionRequest, ListUnclaimedRequest};
use windlass_api::{Call, Span};

use crate::error::Outcome;

/// For the way there and back, on top of the time that the server was given.
const MARGIN: Duration = Duration::from_secs(10);
/// What the server waits if the request does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// For calls that the server answers at once.
const PROMPT: Duration = Duration::from_secs(60);
/// A backup copies all there is.
const BACKUP: Duration = Duration::from_secs(60 * 60);
/// A reload reads all of a queue back, a redrive sends all of it on, calls about unclaimed partitions read them as a whole,
/// and the server gives up after a quarter of an hour.
const WHOLE_QUEUE: Duration = Duration::from_secs(16 * 60);

const WHOLE_QUEUE_CALLS: [&str; 5] = [
    ReloadQueueRequest::NAME,
    RedriveQueueRequest::NAME,
    ListUnclaimedRequest::NAME,
    AdoptPartitionRequest::NAME,
    DropPartitionRequest::NAME,
];

/// How long to wait for the answer.
pub(crate) fn patience<C: Call>(request: &C) -> Duration {
    if C::NAME == BackupRequest::NAME {
        BACKUP
    } else if WHOLE_QUEUE_CALLS.contains(&C::NAME) {
        WHOLE_QUEUE
    } else if C::WAITS {
        request_timeout(request).map_or(WAIT_DEFAULT, Duration::from) + MARGIN
    } else {
        PROMPT
    }
}

/// Whether it may be sent again although it may have been done.
pub(crate) fn repeatable<C: Call>(request: &C) -> bool {
    let request: &dyn Any = request;
    let has_key = |produce: &ProduceRequest| produce.idempotency_key.is_some();
    if request.downcast_ref::<ProduceRequest>().is_some_and(has_key) {
        return true;
    }
    unanswered::<C>() == Outcome::NotApplied
}

/// What is known of a call without an answer: one that only reads has changed nothing, whatever became of it.
pub(crate) fn unanswered<C: Call>() -> Outcome {
    // These change no item. Yet a second backup is not what was asked for, and who has come back to a stream that was
    // closed is not to be sent away by the same call.
    let changes = C::CHANGES || [BackupRequest::NAME, CloseStreamsRequest::NAME].contains(&C::NAME);
    if changes { Outcome::Unknown } else { Outcome::NotApplied }
}

fn request_timeout<C: Call>(request: &C) -> Option<Span> {
    let request: &dyn Any = request;
    let lease = request.downcast_ref::<LeaseRequest>().map(|lease| lease.request_timeout);
    let produce = || request.downcast_ref::<ProduceRequest>().map(|produce| produce.request_timeout);
    let complete = || request.downcast_ref::<CompleteRequest>().map(|complete| complete.request_timeout);
    let wait = || request.downcast_ref::<WaitItemRequest>().map(|wait| wait.request_timeout);
    let next = || Some(request.downcast_ref::<NextRequest>()?.lease.as_ref()?.request_timeout);
    lease.or_else(produce).or_else(complete).or_else(wait).or_else(next).flatten()
}

#[cfg(test)]
mod tests {
    use windlass_api::call::{EachCall, for_each_call};
    use windlass_api::items::{GetItemRequest, NextLease};

    use super::*;

    const LONG: Option<Span> = Some(Span::from_secs(300));

    #[test]
    fn a_call_that_waits_is_given_its_request_timeout_and_a_margin() {
        let complete = CompleteRequest { request_timeout: LONG, ..Default::default() };
        let produce = ProduceRequest { request_timeout: LONG, ..Default::default() };
        let lease = LeaseRequest { request_timeout: LONG, ..Default::default() };
        let wait = WaitItemRequest { request_timeout: LONG, ..Default::default() };
        let next = NextLease { request_timeout: LONG, ..Default::default() };
        let next = NextRequest { lease: Some(next), ..Default::default() };
        let given =
            [patience(&complete), patience(&produce), patience(&lease), patience(&wait), patience(&next)];
        assert_eq!(given, [Duration::from_secs(310); 5]);
        assert_eq!(patience(&LeaseRequest::default()), Duration::from_secs(40));
        assert_eq!(patience(&GetItemRequest::default()), Duration::from_secs(60));
    }

    #[test]
    fn the_request_timeout_of_every_call_that_waits_is_known() {
        #[derive(Default)]
        struct Waiting(Vec<&'static str>);

        impl EachCall for Waiting {
            fn visit<C: Call>(&mut self) {
                self.0.extend(C::WAITS.then_some(C::NAME));
            }
        }

        let mut waiting = Waiting::default();
        for_each_call(&mut waiting);
        assert_eq!(waiting.0, ["queue.produce", "queue.lease", "queue.complete", "queue.next", "item.wait"]);
    }
}
