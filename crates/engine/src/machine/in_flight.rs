//! The answers of one batch, from the moment its verbs were applied until its outcome is known.

use std::sync::Arc;

use windlass_core::news::News;
use windlass_core::partition::Totals;
use windlass_core::time::{Span, Timestamp};
use windlass_core::verbs::Held;

use super::call::{Answered, Call};
use super::{Effects, Served};
use crate::error::EngineError;

pub(crate) struct InFlight<M: Served> {
    handle: Arc<M::Handle>,
    /// The commit it belongs to; the latest one if it changes nothing.
    pub(crate) sequence: u64,
    /// When it was begun, by the time of the server.
    pub(super) at: Timestamp,
    /// Whether its changes are durable, of which there were some.
    pub(crate) is_durable: bool,
    answers: Vec<Pending>,
    pub(crate) effects: M::Effects,
}

enum Pending {
    Call(Box<dyn Answered>),
    Query(Box<dyn FnOnce() + Send>),
    /// Somebody who had been waiting.
    Waiter(Box<dyn Answered>),
}

impl<M: Served> InFlight<M> {
    pub(crate) fn new(handle: &Arc<M::Handle>, sequence: u64, at: Timestamp) -> Self {
        Self {
            handle: Arc::clone(handle),
            sequence,
            at,
            is_durable: false,
            answers: Vec::new(),
            effects: M::Effects::default(),
        }
    }

    /// A call that was decided.
    pub(super) fn call(&mut self, mut call: Box<dyn Call<M>>) {
        if let Some(places) = call.take_reserved() {
            self.effects.reserve(places);
        }
        self.answers.push(Pending::Call(call));
    }

    pub(crate) fn query(&mut self, answer: Box<dyn FnOnce() + Send>) {
        self.answers.push(Pending::Query(answer));
    }

    pub(crate) fn waiter(&mut self, waiter: Box<dyn Answered>) {
        self.answers.push(Pending::Waiter(waiter));
    }

    pub(super) fn callers(&self) -> usize {
        self.answers.len()
    }

    /// What happened that concerns others than the caller.
    pub(super) fn note(&mut self, news: Vec<News>, totals: Totals, waited: Vec<Span>) {
        self.effects.note(&self.handle, news, totals, waited);
    }

    /// It is durable: everybody hears what was decided, refusals too. What is published comes first, so that nobody
    /// who has an answer sees less than it says.
    pub(crate) async fn committed(mut self, summary: Option<M::Summary>) {
        self.effects.take_effect(&self.handle, self.at, summary.is_some() || self.is_durable);
        if let Some(summary) = summary {
            M::publish(&self.handle, summary);
        }
        if self.effects.concern_others() {
            // A worker does not wait for those who watch it, of whom there may be many: its answer is on its way before they
            // wake. Whoever asks comes after them.
            let is_call = |pending: &mut Pending| matches!(pending, Pending::Call(_));
            let calls: Vec<Pending> = self.answers.extract_if(.., is_call).collect();
            calls.into_iter().for_each(|pending| pending.answer(self.sequence));
            tokio::task::yield_now().await;
            self.effects.tell(&self.handle);
        }
        self.answers.into_iter().for_each(|pending| pending.answer(self.sequence));
    }

    /// Nothing of it is durable.
    pub(crate) fn not_applied(mut self, error: &EngineError) {
        // Before its callers hear of it, who may try again at once and need the places.
        self.effects.forget();
        let _not_granted = refuse(self.answers, error);
        self.effects.undo(&self.handle);
    }

    /// One verb that is too large for the store, and nothing of it is durable. A lease that waited is refused, and not
    /// put back into the line: it would be too large again.
    pub(crate) fn too_large(mut self, error: &EngineError) {
        self.effects.forget();
        for pending in self.answers {
            match pending {
                Pending::Call(answered) | Pending::Waiter(answered) => answered.too_large(error.clone()),
                Pending::Query(_) => unreachable!("only a call is too large"),
            }
        }
    }

    /// Nobody knows yet. The callers are told so; what they would have been given is seen to later.
    pub(crate) fn unknown(self, error: &EngineError) -> Undelivered<M> {
        let Self { handle, sequence, at, effects, answers, .. } = self;
        let granted = refuse(answers, error);
        Undelivered { handle, sequence, at, granted, effects }
    }
}

impl Pending {
    fn answer(self, sequence: u64) {
        match self {
            Self::Call(answered) | Self::Waiter(answered) => answered.answer(sequence),
            Self::Query(answer) => answer(),
        }
    }
}

/// Questions are not answered, for the state they were asked of is gone. Tells what was granted.
fn refuse(answers: Vec<Pending>, error: &EngineError) -> Vec<Held> {
    let mut granted = Vec::new();
    for pending in answers {
        match pending {
            Pending::Call(answered) | Pending::Waiter(answered) => {
                granted.extend(answered.fail(error.clone()))
            }
            Pending::Query(_) => {}
        }
    }
    granted
}

/// A batch whose callers were told that its outcome is unknown.
pub(crate) struct Undelivered<M: Served> {
    handle: Arc<M::Handle>,
    sequence: u64,
    at: Timestamp,
    granted: Vec<Held>,
    effects: M::Effects,
}

impl<M: Served> Undelivered<M> {
    /// The last durable sequence tells. If the batch made it, its grants reached nobody; if not, what it released is
    /// still leased.
    pub(crate) fn settle(mut self, sequence: u64) {
        if self.sequence <= sequence {
            self.effects.take_effect(&self.handle, self.at, true);
            self.effects.tell(&self.handle);
            self.effects.give_back(&self.handle, self.granted);
        } else {
            self.effects.forget();
            self.effects.undo(&self.handle);
        }
    }
}
