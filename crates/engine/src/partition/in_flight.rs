//! The answers of one batch, from the moment its commands were applied until its outcome is known.

use std::sync::Arc;

use windlass_core::command::{Leased, Refusal, Reply};

use crate::error::EngineError;
use crate::partition::handle::{Answer, Done, GrantPart, Handle, Responder};
use crate::partition::waiters::Ticket;
use crate::store::{CommitError, StoreError};

pub(crate) struct InFlight {
    handle: Arc<Handle>,
    /// The commit it belongs to; the latest one if it changes nothing.
    pub(crate) sequence: u64,
    answers: Vec<Pending>,
}

enum Pending {
    Command { responder: Responder, reply: Result<Reply, EngineError> },
    Query(Box<dyn FnOnce() + Send>),
    Ticket { ticket: Arc<Ticket>, items: Vec<Leased> },
}

impl InFlight {
    pub(crate) fn new(handle: &Arc<Handle>, sequence: u64) -> Self {
        Self { handle: Arc::clone(handle), sequence, answers: Vec::new() }
    }

    pub(crate) fn command(&mut self, responder: Responder, reply: Result<Reply, Refusal>) {
        self.answers.push(Pending::Command { responder, reply: reply.map_err(EngineError::from) });
    }

    pub(crate) fn refused(&mut self, responder: Responder, error: EngineError) {
        self.answers.push(Pending::Command { responder, reply: Err(error) });
    }

    pub(crate) fn query(&mut self, answer: Box<dyn FnOnce() + Send>) {
        self.answers.push(Pending::Query(answer));
    }

    pub(crate) fn ticket(&mut self, ticket: Arc<Ticket>, items: Vec<Leased>) {
        self.answers.push(Pending::Ticket { ticket, items });
    }

    /// It is durable: everybody hears what was decided, refusals too.
    pub(crate) fn committed(self) {
        for pending in self.answers {
            match pending {
                Pending::Command { responder, reply } => {
                    let answer = reply.map(|reply| answer(&self.handle, reply, self.sequence));
                    // A grant that comes back undelivered is given back as it is dropped here.
                    let _caller_gone = responder.send(answer);
                }
                Pending::Query(answer) => answer(),
                Pending::Ticket { ticket, items } => {
                    ticket.grant(GrantPart::new(Arc::clone(&self.handle), items, self.sequence));
                }
            }
        }
    }

    /// It is not durable, or nobody knows: `error` says which. Tickets go back to the line, and what was asked is
    /// not answered, for the state it was asked of is gone.
    pub(crate) fn failed(self, error: &EngineError) {
        for pending in self.answers {
            match pending {
                Pending::Command { responder, .. } => {
                    let _caller_gone = responder.send(Err(error.clone()));
                }
                Pending::Query(_) => {}
                Pending::Ticket { ticket, .. } => self.handle.waiters.put_back(&ticket),
            }
        }
    }
}

fn answer(handle: &Arc<Handle>, reply: Reply, sequence: u64) -> Answer {
    let reply = match reply {
        Reply::Leased(items) => Done::Granted(GrantPart::new(Arc::clone(handle), items, sequence)),
        other @ (Reply::Produced(_)
        | Reply::Done(_)
        | Reply::Retried(_)
        | Reply::Extended(_)
        | Reply::Cancelled(_)
        | Reply::Cleared { .. }
        | Reply::Swept { .. }
        | Reply::Configured
        | Reply::Queue(_)
        | Reply::QueueDeleted(_)) => Done::Reply(other),
    };
    Answer { reply, sequence }
}

impl From<&CommitError> for EngineError {
    fn from(error: &CommitError) -> Self {
        match error {
            CommitError::NotApplied(too_large @ StoreError::TooLarge { .. }) => {
                Self::TooLarge(too_large.clone())
            }
            CommitError::NotApplied(cause) => Self::not_applied(cause.to_string()),
            CommitError::Unknown(cause) => Self::unknown(cause.to_string()),
        }
    }
}
