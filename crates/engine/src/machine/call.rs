//! Verbs on their way through a writer, and the callers who wait for the answers.

use std::fmt;

use tokio::sync::oneshot;
use windlass_core::footprint::Footprint;
use windlass_core::machine::Applied;
use windlass_core::time::Timestamp;
use windlass_core::urgency::Urgency;
use windlass_core::verb::Verb;
use windlass_core::verbs::Held;

use super::Served;
use crate::error::EngineError;
use crate::partition::places::Reserved;

/// The reply to a verb.
#[derive(Debug)]
pub(crate) struct Answer<R> {
    pub(crate) reply: R,
    /// The commit that the verb was part of; the latest one if it changed nothing.
    pub(crate) sequence: u64,
}

impl<R> Answer<R> {
    pub(crate) fn map<T>(self, reply: impl FnOnce(R) -> T) -> Answer<T> {
        Answer { reply: reply(self.reply), sequence: self.sequence }
    }
}

pub(crate) type Awaited<R> = oneshot::Receiver<Result<Answer<R>, EngineError>>;

/// A verb of any type, and its caller.
pub(crate) trait Call<M>: Answered {
    /// Bytes of bodies that come with the verb.
    fn bytes(&self) -> usize;

    fn urgency(&self) -> Urgency;

    /// Whether the caller is gone.
    fn is_abandoned(&self) -> bool;

    fn footprint(&self, machine: &M, now: Timestamp) -> Footprint;

    /// Carries the verb out and keeps the reply.
    fn apply(&mut self, machine: &mut M, now: Timestamp) -> Applied<()>;

    /// Keeps the error as the answer: the verb is not carried out.
    fn refuse(&mut self, error: EngineError);

    /// The places for what was produced, unless nothing was.
    fn take_reserved(&mut self) -> Option<Reserved>;
}

/// Somebody who is answered once a batch is durable, and what with.
pub(crate) trait Answered: fmt::Debug + Send {
    fn answer(self: Box<Self>, sequence: u64);

    /// Answers with the error instead, and tells the leases that nobody hears of.
    fn fail(self: Box<Self>, error: EngineError) -> Vec<Held>;

    /// Answers that the verb is too large for the store.
    fn too_large(self: Box<Self>, error: EngineError);
}

/// How a reply reaches a caller.
pub(crate) trait Caller<R>: Send {
    fn is_gone(&self) -> bool;

    fn hear(self, reply: Result<R, EngineError>, sequence: u64);

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

    fn hear(self, reply: Result<R, EngineError>, sequence: u64) {
        let _caller_gone = self.send(reply.map(|reply| Answer { reply, sequence }));
    }

    fn fail(self, error: EngineError) {
        let _caller_gone = self.send(Err(error));
    }
}

struct Asked<V, R, C> {
    bytes: usize,
    reserved: Option<Reserved>,
    caller: C,
    state: State<V, R>,
}

enum State<V, R> {
    Asked(V),
    Decided(Result<R, EngineError>),
    /// Only while the verb is being carried out.
    InHand,
}

/// A call, and where its answer comes to. `reserved`: the places for what the verb produces.
pub(crate) fn of<M: Served, V: Verb<M>>(
    verb: V,
    reserved: Option<Reserved>,
) -> (Box<dyn Call<M>>, Awaited<V::Reply>) {
    let (caller, answer) = oneshot::channel();
    (asked(verb, reserved, caller), answer)
}

/// A call of this caller.
pub(crate) fn asked<M: Served, V: Verb<M>, C: Caller<V::Reply> + 'static>(
    verb: V,
    reserved: Option<Reserved>,
    caller: C,
) -> Box<dyn Call<M>> {
    let bytes = verb.body_bytes();
    Box::new(Asked::<V, V::Reply, C> { bytes, reserved, caller, state: State::Asked(verb) })
}

/// The answer, or the error that stands for one that never came: the writer was dropped with the call in hand.
pub(crate) fn received<T>(
    answer: Result<Result<T, EngineError>, oneshot::error::RecvError>,
) -> Result<T, EngineError> {
    answer.unwrap_or_else(|_dropped| Err(EngineError::unknown("the partition stopped")))
}

impl<M: Served, V: Verb<M>, C: Caller<V::Reply>> Call<M> for Asked<V, V::Reply, C> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn urgency(&self) -> Urgency {
        V::URGENCY
    }

    fn is_abandoned(&self) -> bool {
        self.caller.is_gone()
    }

    fn footprint(&self, machine: &M, now: Timestamp) -> Footprint {
        match &self.state {
            State::Asked(verb) => verb.footprint(machine, now),
            State::Decided(_) | State::InHand => V::FOOTPRINT,
        }
    }

    fn apply(&mut self, machine: &mut M, now: Timestamp) -> Applied<()> {
        let State::Asked(verb) = std::mem::replace(&mut self.state, State::InHand) else {
            panic!("a verb is carried out once")
        };
        let Applied { reply, changes, copies, news, totals, waited } = machine.apply(now, verb);
        if reply.is_err() {
            self.reserved = None;
        }
        self.state = State::Decided(reply.map_err(EngineError::from));
        Applied { reply: Ok(()), changes, copies, news, totals, waited }
    }

    fn refuse(&mut self, error: EngineError) {
        self.reserved = None;
        self.state = State::Decided(Err(error));
    }

    fn take_reserved(&mut self) -> Option<Reserved> {
        self.reserved.take()
    }
}

impl<V, R, C> Answered for Asked<V, R, C>
where
    V: fmt::Debug + Send,
    R: fmt::Debug + Send,
    C: Caller<R>,
{
    fn answer(self: Box<Self>, sequence: u64) {
        let State::Decided(reply) = self.state else { panic!("only a verb that was decided is answered") };
        self.caller.hear(reply, sequence);
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

    fn too_large(self: Box<Self>, error: EngineError) {
        let _nothing_granted = self.fail(error);
    }
}

impl<V: fmt::Debug, R: fmt::Debug, C> fmt::Debug for Asked<V, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Asked(verb) => f.debug_tuple("Asked").field(verb).finish(),
            State::Decided(reply) => f.debug_tuple("Decided").field(reply).finish(),
            State::InHand => f.write_str("InHand"),
        }
    }
}
