//! [`Mailbox`]: where verbs and questions for a state machine are put, and how it is doing.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use windlass_core::id::PartitionId;
use windlass_core::time::Timestamp;
use windlass_core::verb::Verb;

use super::Served;
use super::call::{self, Answer, Awaited, Call, received};
use super::inbox::Inbox;
use super::message::Message;
use super::reload::Reload;
use crate::error::EngineError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionState {
    Loading,
    Available,
    /// It takes nothing until it was acquired anew.
    Faulty {
        error: String,
    },
    Closed,
}

#[derive(Debug)]
pub(crate) struct Mailbox<M: Served> {
    pub(crate) id: PartitionId,
    inbox: Inbox<M>,
    state: watch::Sender<PartitionState>,
    stop: watch::Sender<bool>,
    /// `wake` is notified when something other than the inbox wants the writer's attention, and after `stop` and `reload.wanted` are set.
    wake: Arc<Notify>,
    pub(crate) reload: Reload,
}

impl<M: Served> Mailbox<M> {
    pub(crate) fn new(id: PartitionId) -> (Self, mpsc::Receiver<Message<M>>) {
        let (inbox, receiver) = Inbox::new();
        let (state, stop) = (watch::Sender::new(PartitionState::Loading), watch::Sender::new(false));
        let wake = Arc::<Notify>::default();
        let reload = Reload::new(Arc::clone(&wake));
        (Self { id, inbox, state, stop, wake, reload }, receiver)
    }

    /// Hands a verb to the writer. The answer comes when its changes are durable.
    pub(crate) fn submit<V: Verb<M>>(&self, verb: V) -> Result<Awaited<V::Reply>, EngineError> {
        let (call, answer) = call::of(verb, None);
        self.call(call)?;
        Ok(answer)
    }

    /// Has the writer carry a verb out.
    pub(crate) async fn apply<V: Verb<M>>(&self, verb: V) -> Result<Answer<V::Reply>, EngineError> {
        received(self.submit(verb)?.await)
    }

    pub(crate) fn call(&self, call: Box<dyn Call<M>>) -> Result<(), EngineError> {
        self.send(Message::Call(call))
    }

    /// Asks about the state as it will be durable when the answer comes.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&M, Timestamp) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let answer = self.ask(question)?;
        answer.await.map_err(|_dropped| self.no_answer())
    }

    /// As [`Mailbox::query`], for whoever asks several before the first is waited for.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&M, Timestamp) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, EngineError> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Query(Box::new(move |machine, now| {
            let answer = question(machine, now);
            Box::new(move || {
                let _asker_gone = sender.send(answer);
            })
        })))?;
        Ok(receiver)
    }

    /// Refused while the machine does not serve.
    pub(crate) fn send(&self, message: Message<M>) -> Result<(), EngineError> {
        self.check_serving()?;
        self.inbox.send(message)
    }

    /// What it means that a question was dropped.
    pub(crate) fn no_answer(&self) -> EngineError {
        EngineError::not_applied(format!("partition {} failed", self.id))
    }

    pub(crate) fn check_serving(&self) -> Result<(), EngineError> {
        match &*self.state.borrow() {
            PartitionState::Loading | PartitionState::Available => Ok(()),
            PartitionState::Faulty { error } => Err(EngineError::faulty(self.id, error)),
            PartitionState::Closed => Err(EngineError::not_applied("shutting down")),
        }
    }

    /// To be told by whoever takes a message out of the inbox.
    pub(super) fn taken(&self, message: &Message<M>) {
        self.inbox.taken(message);
    }

    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// For those that wake the writer and know no mailbox.
    pub(crate) fn waker(&self) -> &Arc<Notify> {
        &self.wake
    }

    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        self.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn state(&self) -> PartitionState {
        self.state.borrow().clone()
    }

    pub(super) fn set_state(&self, state: PartitionState) {
        self.state.send_replace(state);
    }

    /// Waits until the machine was loaded or found faulty, and tells which.
    pub(crate) async fn settled(&self) -> PartitionState {
        let mut states = self.state.subscribe();
        let settled = states.wait_for(|state| *state != PartitionState::Loading).await;
        settled.map_or(PartitionState::Closed, |state| state.clone())
    }

    pub(crate) fn states(&self) -> watch::Receiver<PartitionState> {
        self.state.subscribe()
    }
}
