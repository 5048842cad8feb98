//! Leases on their way to a worker.

use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::refusal::Each;
use windlass_core::verbs::{Held, Leased, NextDone, Settled};

use crate::commit::Commit;
use crate::error::EngineError;
use crate::machine::call::{Answer, Answered, Caller};
use crate::partition::handle::Handle;
use crate::partition::waiters::Ticket;

/// Leases granted by one partition. A `GrantPart` that is dropped without [`GrantPart::accept`] gives the items back,
/// uncharged: an answer that cannot be delivered any more must not keep items from others.
#[derive(Debug)]
pub(crate) struct GrantPart {
    handle: Arc<Handle>,
    items: Vec<Leased>,
    sequence: u64,
}

impl GrantPart {
    pub(crate) fn new(handle: Arc<Handle>, items: Vec<Leased>, sequence: u64) -> Self {
        Self { handle, items, sequence }
    }

    pub(crate) fn commit(&self) -> Commit {
        Commit { partition: self.handle.id, sequence: self.sequence }
    }

    pub(crate) fn items(&self) -> &[Leased] {
        &self.items
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.items.iter().map(Leased::held).collect()
    }

    /// Takes the leases out that are chosen.
    pub(crate) fn split(&mut self, chosen: impl Fn(&Leased) -> bool) -> Self {
        let items = self.items.extract_if(.., |item| chosen(item)).collect();
        Self { handle: Arc::clone(&self.handle), items, sequence: self.sequence }
    }

    /// Keeps the first `kept`, and gives the others back.
    pub(crate) fn give_back_after(&mut self, kept: usize) {
        if kept < self.items.len() {
            let rest = self.items.split_off(kept);
            self.handle.give_back(rest.iter().map(Leased::held));
        }
    }

    /// The answer is delivered: nothing is to be given back any more.
    pub(crate) fn accept(&mut self) {
        self.items.clear();
    }
}

impl Drop for GrantPart {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.handle.give_back(self.items.iter().map(Leased::held));
        }
    }
}

/// What one partition did in a worker's turn.
#[derive(Debug)]
pub(crate) struct NextPart {
    pub(crate) settled: Each<Settled>,
    pub(crate) granted: GrantPart,
}

/// A worker who asked for items: they are given back as the [`GrantPart`] in `R` is dropped, if `R` reaches nobody.
pub(super) struct Worker<R> {
    handle: Arc<Handle>,
    responder: oneshot::Sender<Result<R, EngineError>>,
}

impl<R> Worker<R> {
    /// A worker of the partition, and where the reply comes to.
    pub(super) fn new(handle: &Arc<Handle>) -> (Self, oneshot::Receiver<Result<R, EngineError>>) {
        let (responder, reply) = oneshot::channel();
        (Self { handle: Arc::clone(handle), responder }, reply)
    }
}

impl Caller<Vec<Leased>> for Worker<GrantPart> {
    fn is_gone(&self) -> bool {
        self.responder.is_closed()
    }

    fn hear(self, reply: Result<Vec<Leased>, EngineError>, sequence: u64) {
        let Self { handle, responder } = self;
        let granted = reply.map(|items| GrantPart::new(handle, items, sequence));
        let _given_back = responder.send(granted);
    }

    fn fail(self, error: EngineError) {
        let _caller_gone = self.responder.send(Err(error));
    }

    fn granted(reply: &Vec<Leased>) -> Vec<Held> {
        reply.iter().map(Leased::held).collect()
    }
}

impl Caller<NextDone> for Worker<Answer<NextPart>> {
    fn is_gone(&self) -> bool {
        self.responder.is_closed()
    }

    fn hear(self, reply: Result<NextDone, EngineError>, sequence: u64) {
        let Self { handle, responder } = self;
        let part = reply.map(|NextDone { settled, leased }| {
            let granted = GrantPart::new(handle, leased, sequence);
            Answer { reply: NextPart { settled, granted }, sequence }
        });
        let _given_back = responder.send(part);
    }

    fn fail(self, error: EngineError) {
        let _caller_gone = self.responder.send(Err(error));
    }

    fn granted(reply: &NextDone) -> Vec<Held> {
        reply.leased.iter().map(Leased::held).collect()
    }
}

/// A ticket that was taken out of the line, and the leases that it is granted once they are durable. Dropped without an
/// answer, which only a bug that unwinds the writer does, the ticket goes back to the line.
#[derive(Debug)]
pub(super) struct TakenTicket {
    handle: Arc<Handle>,
    /// Set until the ticket is answered.
    ticket: Option<Arc<Ticket>>,
    items: Vec<Leased>,
}

impl TakenTicket {
    pub(super) fn new(handle: &Arc<Handle>, ticket: Arc<Ticket>, items: Vec<Leased>) -> Self {
        Self { handle: Arc::clone(handle), ticket: Some(ticket), items }
    }
}

impl Answered for TakenTicket {
    fn answer(mut self: Box<Self>, sequence: u64) {
        let items = std::mem::take(&mut self.items);
        if let Some(ticket) = self.ticket.take() {
            ticket.grant(GrantPart::new(Arc::clone(&self.handle), items, sequence));
        }
    }

    /// The ticket goes back to the line as it is dropped.
    fn fail(self: Box<Self>, _error: EngineError) -> Vec<Held> {
        self.items.iter().map(Leased::held).collect()
    }

    fn too_large(mut self: Box<Self>, error: EngineError) {
        if let Some(ticket) = self.ticket.take() {
            ticket.refuse(error);
        }
    }
}

impl Drop for TakenTicket {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            self.handle.waiters.put_back(ticket);
        }
    }
}
