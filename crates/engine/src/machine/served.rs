//! [`Served`]: a state machine as the engine runs it.

use std::fmt;
use std::ops::Deref;

use windlass_core::machine::Machine;
use windlass_core::news::News;
use windlass_core::partition::Totals;
use windlass_core::row::Change;
use windlass_core::time::{Span, Timestamp};
use windlass_core::urgency::Urgency;
use windlass_core::verbs::Held;

use super::gathered::Gathered;
use super::mailbox::Mailbox;
use super::writer::Writer;
use crate::partition::places::Reserved;

/// A state machine that a writer runs, and what its writer does beside verbs and questions. By default nothing.
pub(crate) trait Served: Machine {
    /// What the rest of the engine holds of the machine.
    type Handle: Deref<Target = Mailbox<Self>> + fmt::Debug + Send + Sync + 'static;
    /// Messages that only this machine takes.
    type Request: fmt::Debug + Send + 'static;
    /// What the writer keeps in mind from one batch to the next, and what is in no row.
    type Desk: Default + Send;
    type Effects: Effects<Self>;
    /// What is published after each commit, before anybody is answered.
    type Summary: Copy + Send;

    /// The machine without a row.
    fn empty(handle: &Self::Handle, now: Timestamp) -> Self;

    /// Its rows were read.
    fn loaded(&mut self, _now: Timestamp) {}

    /// Before anybody is served: takes over what changed while the machine was not served.
    fn catch_up(&mut self, _handle: &Self::Handle, _now: Timestamp) -> Vec<Change> {
        Vec::new()
    }

    fn summary(&mut self, sequence: u64) -> Self::Summary;

    /// The machine is about to serve.
    fn publish(handle: &Self::Handle, summary: Self::Summary);

    /// The machine has come to serve.
    fn serves(_writer: &mut Writer<Self>, _summary: Self::Summary) {}

    /// The machine cannot serve: nothing is known of it until it was acquired anew.
    fn withdraw(_handle: &Self::Handle) {}

    /// The machine is served no more.
    fn ended(_handle: &Self::Handle) {}

    /// Before each round of messages. `sweeps` first, so that whoever asks sees what time has brought.
    fn begin_round(writer: &mut Writer<Self>, sweeps: bool, gathered: &mut Gathered<Self>);

    fn urgency(request: &Self::Request) -> Urgency;

    fn take(writer: &mut Writer<Self>, request: Self::Request, gathered: &mut Gathered<Self>);

    /// Once a batch has taken its messages, unless the writer is to stop.
    fn end_batch(_writer: &mut Writer<Self>, _gathered: &mut Gathered<Self>) {}

    /// Whether a writer that is to stop has something left to do that is not in its inbox.
    fn has_more(_handle: &Self::Handle) -> bool {
        false
    }
}

/// What a batch comes to once it is durable, beside its answers. By default nothing.
pub(crate) trait Effects<M: Served>: Default + Send {
    fn note(&mut self, _handle: &M::Handle, _news: Vec<News>, _totals: Totals, _waited: Vec<Span>) {}

    /// Places for what a call of the batch produced.
    fn reserve(&mut self, _places: Reserved) {}

    /// The batch, begun `at` this time, is durable or has changed nothing: before anybody is answered.
    fn take_effect(&mut self, _handle: &M::Handle, _at: Timestamp, _is_durable: bool) {}

    /// Whether others than the callers are to hear of the batch.
    fn concern_others(&self) -> bool {
        false
    }

    /// Tells those others.
    fn tell(&self, _handle: &M::Handle) {}

    /// Nothing of the batch is durable: before its callers are told.
    fn forget(&mut self) {}

    /// Nothing of the batch is durable: after its callers were told.
    fn undo(self, _handle: &M::Handle) {}

    /// The batch is durable, and `granted` by it reached nobody.
    fn give_back(self, _handle: &M::Handle, _granted: Vec<Held>) {}
}
