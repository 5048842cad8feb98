//! Verbs on their way through a partition's writer, and the callers who wait for the answers.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::footprint::Footprint;
use windlass_core::partition::Partition;
use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;
use windlass_core::verb::{Applied, Verb};
use windlass_core::verbs::{Held, LeaseItems, Leased};

use crate::error::EngineError;
use crate::partition::grant::{GrantPart, held};
use crate::partition::handle::Handle;
use crate::partition::places::Reserved;

/// The reply to a verb.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    pub(crate) reply: R,
    /// The commit that the verb was part of; the latest one if it changed nothing.
    pub(crate) sequence: u64,
}

pub(crate) type Awaited<R> = oneshot::Receiver<Result<Answer<R>, EngineError>>;

/// A verb of any type, and its caller.
pub(crate) trait Call: fmt::Debug + Send {
    /// Bytes of bodies that come with the verb.
    fn bytes(&self) -> usize;

    fn urgency(&self) -> Urgency;

    /// Whether the caller is gone.
    fn is_abandoned(&self) -> bool;

    fn footprint(&self, partition: &Partition, now: Timestamp) -> Footprint;

    /// Carries the verb out and keeps the reply.
    fn apply(&mut self, partition: &mut Partition, now: Timestamp) -> Applied<()>;

    /// Keeps the error as the answer: the verb is not carried out.
    fn refuse(&mut self, error: EngineError);

    /// The places for what was produced, unless nothing was.
    fn take_reserved(&mut self) -> Option<Reserved>;

    /// Answers with what was kept.
    fn answer(self: Box<Self>, handle: &Arc<Handle>, sequence: u64);

    /// Answers with the error instead of what was kept, and tells the leases that nobody hears of.
    fn fail(self: Box<Self>, error: EngineError) -> Vec<Held>;
}

/// How a reply reaches a caller.
trait Caller<R>: Send {
    fn is_gone(&self) -> bool;

    fn hear(self, handle: &Arc<Handle>, reply: Result<R, EngineError>, sequence: u64);

    fn fail(self, error: EngineError);

    /// The leases that a reply grants.
    fn granted(_reply: &R) -> Vec<Held> {
        Vec::new()
    }
}

type Responder<R> = oneshot::Sender<Result<Answer<R>, EngineError>>;

impl<R: Send> Caller<R> for Responder<R> {
    fn is_gone(&self) -> bool {
        self.is_closed()
    }

    fn hear(self, _handle: &Arc<Handle>, reply: Result<R, EngineError>, sequence: u64) {
        let _caller_gone = self.send(reply.map(|reply| Answer { reply, sequence }));
    }

    fn fail(self, error: EngineError) {
        let _caller_gone = self.send(Err(error));
    }
}

/// A worker who asked for items: they are given back as the grant is dropped, if it reaches nobody.
struct Worker(oneshot::Sender<Result<GrantPart, EngineError>>);

impl Caller<Vec<Leased>> for Worker {
    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }

    fn hear(self, handle: &Arc<Handle>, reply: Result<Vec<Leased>, EngineError>, sequence: u64) {
        let granted = reply.map(|items| GrantPart::new(Arc::clone(handle), items, sequence));
        let _given_back = self.0.send(granted);
    }

    fn fail(self, error: EngineError) {
        let _caller_gone = self.0.send(Err(error));
    }

    fn granted(reply: &Vec<Leased>) -> Vec<Held> {
        reply.iter().map(held).collect()
    }
}

struct Asked<V: Verb, C> {
    bytes: usize,
    reserved: Option<Reserved>,
    caller: C,
    state: State<V>,
}

enum State<V: Verb> {
    Asked(V),
    Decided(Result<V::Reply, EngineError>),
    /// Only while the verb is being carried out.
    InHand,
}

/// A call, and where its answer comes to.
pub(super) fn of<V: Verb>(verb: V, reserved: Option<Reserved>) -> (Box<dyn Call>, Awaited<V::Reply>) {
    let (caller, answer) = oneshot::channel();
    (asked(verb, reserved, caller), answer)
}

pub(super) type AwaitedGrant = oneshot::Receiver<Result<GrantPart, EngineError>>;

pub(super) fn of_lease(lease: LeaseItems) -> (Box<dyn Call>, AwaitedGrant) {
    let (caller, granted) = oneshot::channel();
    (asked(lease, None, Worker(caller)), granted)
}

fn asked<V: Verb, C: Caller<V::Reply> + 'static>(
    verb: V,
    reserved: Option<Reserved>,
    caller: C,
) -> Box<dyn Call> {
    Box::new(Asked { bytes: verb.body_bytes(), reserved, caller, state: State::Asked(verb) })
}

/// The answer, or the error that stands for one that never came: the writer was dropped with the call in hand.
pub(crate) fn received<T>(
    answer: Result<Result<T, EngineError>, oneshot::error::RecvError>,
) -> Result<T, EngineError> {
    answer.unwrap_or_else(|_dropped| Err(EngineError::unknown("the partition stopped")))
}

impl<V: Verb, C: Caller<V::Reply>> Call for Asked<V, C> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn urgency(&self) -> Urgency {
        V::URGENCY
    }

    fn is_abandoned(&self) -> bool {
        self.caller.is_gone()
    }

    fn footprint(&self, partition: &Partition, now: Timestamp) -> Footprint {
        match &self.state {
            State::Asked(verb) => verb.footprint(partition, now),
            State::Decided(_) | State::InHand => V::FOOTPRINT,
        }
    }

    fn apply(&mut self, partition: &mut Partition, now: Timestamp) -> Applied<()> {
        let State::Asked(verb) = std::mem::replace(&mut self.state, State::InHand) else {
            panic!("a verb is carried out once")
        };
        let Applied { reply, changes, copies, news, totals } = partition.apply(now, verb);
        if reply.is_err() {
            self.reserved = None;
        }
        self.state = State::Decided(reply.map_err(EngineError::from));
        Applied { reply: Ok(()), changes, copies, news, totals }
    }

    fn refuse(&mut self, error: EngineError) {
        self.reserved = None;
        self.state = State::Decided(Err(error));
    }

    fn take_reserved(&mut self) -> Option<Reserved> {
        self.reserved.take()
    }

    fn answer(self: Box<Self>, handle: &Arc<Handle>, sequence: u64) {
        let State::Decided(reply) = self.state else { panic!("only a verb that was decided is answered") };
        self.caller.hear(handle, reply, sequence);
    }

    fn fail(self: Box<Self>, error: EngineError) -> Vec<Held> {
        let granted = match &self.state {
            State::Decided(Ok(reply)) => C::granted(reply),
            State::Decided(Err(_)) | State::Asked(_) | State::InHand => Vec::new(),
        };
        // Before the caller hears of it, who may try again at once and need the places.
        drop(self.reserved);
        self.caller.fail(error);
        granted
    }
}

impl<V: Verb, C> fmt::Debug for Asked<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Asked(verb) => f.debug_tuple("Asked").field(verb).finish(),
            State::Decided(reply) => f.debug_tuple("Decided").field(reply).finish(),
            State::InHand => f.write_str("InHand"),
        }
    }
}
