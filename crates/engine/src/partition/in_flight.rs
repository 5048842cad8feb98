//! The answers of one batch, from the moment its verbs were applied until its outcome is known.

use std::sync::Arc;

use windlass_core::news::News;
use windlass_core::partition::Totals;
use windlass_core::verbs::{Held, Leased};

use crate::error::EngineError;
use crate::partition::call::Call;
use crate::partition::grant::{GrantPart, held};
use crate::partition::handle::Handle;
use crate::partition::published::{Effects, Summary};
use crate::partition::waiters::Ticket;

pub(crate) struct InFlight {
    handle: Arc<Handle>,
    /// The commit it belongs to; the latest one if it changes nothing.
    pub(crate) sequence: u64,
    /// Whether its changes are durable, of which there were some.
    pub(crate) is_durable: bool,
    answers: Vec<Pending>,
    effects: Effects,
    /// Grants that nobody took, released in this batch.
    releases: Vec<Held>,
}

enum Pending {
    Call(Box<dyn Call>),
    Query(Box<dyn FnOnce() + Send>),
    Ticket { ticket: Arc<Ticket>, items: Vec<Leased> },
}

impl InFlight {
    pub(crate) fn new(handle: &Arc<Handle>, sequence: u64) -> Self {
        Self {
            handle: Arc::clone(handle),
            sequence,
            is_durable: false,
            answers: Vec::new(),
            effects: Effects::default(),
            releases: Vec::new(),
        }
    }

    /// A call that was decided.
    pub(crate) fn call(&mut self, mut call: Box<dyn Call>) {
        self.effects.reserved.extend(call.take_reserved());
        self.answers.push(Pending::Call(call));
    }

    pub(crate) fn query(&mut self, answer: Box<dyn FnOnce() + Send>) {
        self.answers.push(Pending::Query(answer));
    }

    pub(crate) fn ticket(&mut self, ticket: Arc<Ticket>, items: Vec<Leased>) {
        self.answers.push(Pending::Ticket { ticket, items });
    }

    pub(crate) fn released(&mut self, releases: &[Held]) {
        self.releases.extend_from_slice(releases);
    }

    pub(crate) fn count(&mut self, totals: Totals) {
        self.effects.totals += totals;
    }

    /// What happened that concerns others than the caller.
    pub(crate) fn heard(&mut self, news: Vec<News>) {
        for news in news {
            match news {
                News::Available => {}
                News::Outgoing => self.effects.outgoing = true,
                News::Died(died) => self.effects.died.push(*died),
                News::Ended(ended) => self.effects.ended.push(*ended),
                News::Changed(changed) => {
                    self.effects.changed.push((self.handle.streams.next_told(), *changed));
                }
            }
        }
    }

    /// It is durable: everybody hears what was decided, refusals too. What is published comes first, so that nobody
    /// who has an answer sees less than it says.
    pub(crate) async fn committed(mut self, summary: Option<Summary>) {
        if summary.is_none() && !self.is_durable {
            // Nothing was made: every item was refused by itself.
            self.effects.reserved.clear();
        }
        self.handle.took_effect(&mut self.effects);
        if let Some(summary) = summary {
            self.handle.publish(summary);
        }
        if !self.effects.changed.is_empty() || !self.effects.ended.is_empty() {
            // A worker does not wait for those who watch it, of whom there may be many: its answer is on its way before they
            // wake. Whoever asks comes after them.
            let is_call = |pending: &mut Pending| matches!(pending, Pending::Call(_));
            let calls: Vec<Pending> = self.answers.extract_if(.., is_call).collect();
            calls.into_iter().for_each(|pending| self.answer(pending));
            tokio::task::yield_now().await;
            self.handle.tell(&self.effects);
        }
        let answers = std::mem::take(&mut self.answers);
        answers.into_iter().for_each(|pending| self.answer(pending));
    }

    fn answer(&self, pending: Pending) {
        match pending {
            Pending::Call(call) => call.answer(&self.handle, self.sequence),
            Pending::Query(answer) => answer(),
            Pending::Ticket { ticket, items } => {
                ticket.grant(GrantPart::new(Arc::clone(&self.handle), items, self.sequence));
            }
        }
    }

    /// Nothing of it is durable.
    pub(crate) fn not_applied(mut self, error: &EngineError) {
        // Before its callers hear of it, who may try again at once and need the places.
        self.effects = Effects::default();
        self.refuse(error);
        self.handle.give_back(std::mem::take(&mut self.releases));
    }

    /// One verb that is too large for the store, and nothing of it is durable. A lease that waited is refused, and not
    /// put back into the line: it would be too large again.
    pub(crate) fn too_large(mut self, error: &EngineError) {
        self.effects = Effects::default();
        for pending in std::mem::take(&mut self.answers) {
            match pending {
                Pending::Call(call) => drop(call.fail(error.clone())),
                Pending::Query(_) => unreachable!("only a call is too large"),
                Pending::Ticket { ticket, .. } => ticket.refuse(error.clone()),
            }
        }
    }

    /// Nobody knows yet. The callers are told so; what they would have been given is seen to later.
    pub(crate) fn unknown(mut self, error: &EngineError) -> Undelivered {
        let granted = self.refuse(error);
        Undelivered {
            handle: Arc::clone(&self.handle),
            sequence: self.sequence,
            granted,
            effects: std::mem::take(&mut self.effects),
            releases: std::mem::take(&mut self.releases),
        }
    }

    /// Tickets go back to the line, and questions are not answered, for the state they were asked of is gone. Tells
    /// what was granted.
    fn refuse(&mut self, error: &EngineError) -> Vec<Held> {
        let mut granted = Vec::new();
        for pending in std::mem::take(&mut self.answers) {
            match pending {
                Pending::Call(call) => granted.extend(call.fail(error.clone())),
                Pending::Query(_) => {}
                Pending::Ticket { ticket, items } => {
                    granted.extend(items.iter().map(held));
                    self.handle.waiters.put_back(&ticket);
                }
            }
        }
        granted
    }
}

impl Drop for InFlight {
    /// Only a bug that unwinds the writer leaves answers here. Callers see their channel closed; those who wait for
    /// work must not wait for this partition.
    fn drop(&mut self) {
        for pending in std::mem::take(&mut self.answers) {
            if let Pending::Ticket { ticket, .. } = pending {
                self.handle.waiters.put_back(&ticket);
            }
        }
    }
}

/// A batch whose callers were told that its outcome is unknown.
pub(crate) struct Undelivered {
    handle: Arc<Handle>,
    sequence: u64,
    granted: Vec<Held>,
    effects: Effects,
    releases: Vec<Held>,
}

impl Undelivered {
    /// The last durable sequence tells. If the batch made it, its grants reached nobody; if not, what it released is
    /// still leased.
    pub(crate) fn settle(mut self, sequence: u64) {
        let made_it = self.sequence <= sequence;
        if made_it {
            self.handle.took_effect(&mut self.effects);
            self.handle.tell(&self.effects);
        }
        self.handle.give_back(if made_it { self.granted } else { self.releases });
    }
}
