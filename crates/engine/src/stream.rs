//! Following an item: its events and its states, in one order, to its end.
//!
//! A subscription is a cursor. It knows how far the stream has come and which states to show where, as the partition tells
//! ([`crate::partition::streams`]), and reads the events themselves from the store. Nothing here asks where the partition is.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use windlass_core::command::{Command, Emit, Emitted, Held, Input, Refusal, Reply, Resume};
use windlass_core::event::{NewEvent, unpack};
use windlass_core::id::{ItemId, Permit};
use windlass_core::item::Phase;
use windlass_core::limits::Invalid;
use windlass_core::partition::oldest_event_of;
use windlass_core::time::Timestamp;

use crate::Engine;
use crate::error::EngineError;
use crate::partition::message::{Answer, Done};
use crate::partition::streams::{Close, Final, Reader, Shift, event_count};
use crate::store::{Store, StoreError};
use crate::types::{Commit, Committed, ItemView};
use crate::view;

/// What a subscription reads at once: it holds no more than about that, for there may be thousands whose readers are slow.
const READ_BYTES: usize = 256 << 10;

/// What a subscriber is shown.
#[derive(Clone, Debug)]
pub enum Frame {
    /// The item as it was when the subscription began, and the number of its last event.
    Snapshot {
        item: Box<ItemView>,
        last_seq: u64,
    },
    Event {
        seq: u64,
        at: Timestamp,
        content: Bytes,
    },
    State {
        phase: Phase,
        at: Timestamp,
        reason: Option<Arc<str>>,
    },
    /// These are not kept any more: the first and the last of them.
    Gap {
        from: u64,
        to: u64,
    },
    /// Nothing comes after it.
    End {
        reason: EndReason,
        phase: Phase,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The item has ended.
    Final,
    /// Somebody closed its streams, or the server stops. One may subscribe again.
    Closed,
}

/// How the streams of an item are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// What was emitted before is still delivered.
    Graceful,
    Immediate,
}

impl Engine {
    /// Appends to the events of a leased item. They are durable when this is answered, and nobody sees them before.
    pub async fn emit(
        &self,
        id: ItemId,
        permit: Permit,
        after: Option<u64>,
        events: Vec<NewEvent>,
    ) -> Result<Committed<Emitted>, EngineError> {
        let _call = self.registry.enter()?;
        let held = Held { number: id.number, permit };
        let emit = Command::Emit(Emit { held, after, events });
        let Answer { reply, sequence } = self.home_of(id)?.partition.command(emit).await?;
        let Done::Reply(Reply::Emitted(value)) = reply else {
            unreachable!("an emit is answered by numbers")
        };
        Ok(Committed { value, commits: vec![Commit { partition: id.partition, sequence }] })
    }

    /// Answers a suspended item, which waits again at its own place.
    pub async fn resume(&self, id: ItemId, input: Option<Input>) -> Result<Committed<()>, EngineError> {
        let _call = self.registry.enter()?;
        let resume = Command::Resume(Resume { number: id.number, input });
        let Answer { sequence, .. } = self.home_of(id)?.partition.command(resume).await?;
        Ok(Committed { value: (), commits: vec![Commit { partition: id.partition, sequence }] })
    }

    /// Follows an item: from its present state on, or from the event after a number on.
    pub async fn subscribe(&self, id: ItemId, after: Option<u64>) -> Result<Subscription, EngineError> {
        let _call = self.registry.enter()?;
        let home = self.home_of(id)?;
        let (reader, seen) = home.partition.follow(id.number)?;
        let seen = seen.await.map_err(|_dropped| home.partition.no_answer())?;
        let followed = seen.ok_or(Refusal::NotFound)?;
        let item = followed.item;
        let last_seq = event_count(&item);
        if after.is_some_and(|after| after > last_seq) {
            return Err(Refusal::Invalid(NOT_REACHED).into());
        }
        reader.saw(&item);
        let phase = if followed.member.as_ref().is_some_and(|member| member.held) {
            Phase::Held
        } else {
            item.state.phase()
        };
        let snapshot = match after {
            Some(_) => None,
            None => {
                let bodies = view::read(&*self.store, id).await;
                let bodies = bodies.map_err(|error| EngineError::not_applied(error.to_string()))?;
                Some(Box::new(view::of(&home.queue.queue, id, item, followed.member, bodies)))
            }
        };
        Ok(Subscription {
            reader,
            store: Arc::clone(&self.store),
            id,
            snapshot,
            read: after.unwrap_or(last_seq),
            ready: VecDeque::new(),
            told: followed.told,
            phase,
            is_final: false,
            is_over: false,
        })
    }

    /// Has the subscriptions of an item end that there are now, and tells how many. The item and its events stay.
    pub async fn close_streams(&self, id: ItemId, mode: CloseMode) -> Result<usize, EngineError> {
        let _call = self.registry.enter()?;
        let partition = self.home_of(id)?.partition;
        let number = id.number;
        let there = partition.query(move |partition, _| partition.get(number).is_some()).await?;
        if !there {
            return Err(Refusal::NotFound.into());
        }
        Ok(partition.streams.close_item(number, mode == CloseMode::Graceful))
    }
}

const NOT_REACHED: Invalid =
    Invalid { field: "after", rule: "at most the number of the last event, which is not that far yet" };

/// A cursor on the stream of an item. Dropping it lets go of everything that it took.
#[derive(Debug)]
pub struct Subscription {
    reader: Reader,
    store: Arc<dyn Store>,
    id: ItemId,
    snapshot: Option<Box<ItemView>>,
    /// The number of the last event that was shown or is not kept any more.
    read: u64,
    /// Events that were read from the store and not shown yet, in order.
    ready: VecDeque<Event>,
    /// The last change of state that was shown, or was seen before this began.
    told: u64,
    phase: Phase,
    /// The final state was shown.
    is_final: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Event {
    seq: u64,
    at: Timestamp,
    content: Bytes,
}

/// What there is to show next.
enum Next {
    /// Events up to this number, of a stream that has come to the second.
    Events(u64, u64),
    State(Shift),
    Final(Final),
    Closed,
    /// Nothing yet.
    Wait,
}

impl Subscription {
    /// The next frame, as soon as there is one; `None` after the end. Whoever stops waiting misses nothing.
    pub async fn next(&mut self) -> Option<Frame> {
        if let Some(item) = self.snapshot.take() {
            return Some(Frame::Snapshot { item, last_seq: self.read });
        }
        while !self.is_over {
            match self.look() {
                Next::Events(to, last_seq) => {
                    if let Some(frame) = self.event(to, last_seq).await {
                        return Some(frame);
                    }
                }
                Next::State(shift) => {
                    self.told = shift.number;
                    if self.phase == shift.phase {
                        continue;
                    }
                    self.phase = shift.phase;
                    return Some(Frame::State { phase: shift.phase, at: shift.at, reason: shift.reason });
                }
                Next::Final(end) if self.is_final => {
                    self.is_over = true;
                    return Some(Frame::End { reason: EndReason::Final, phase: end.phase });
                }
                Next::Final(end) => {
                    self.is_final = true;
                    self.phase = end.phase;
                    return Some(Frame::State { phase: end.phase, at: end.at, reason: None });
                }
                Next::Closed => return Some(self.closed()),
                Next::Wait => self.reader.changed().await,
            }
        }
        None
    }

    fn closed(&mut self) -> Frame {
        self.is_over = true;
        Frame::End { reason: EndReason::Closed, phase: self.phase }
    }

    fn look(&mut self) -> Next {
        let (read, told) = (self.read, self.told);
        self.reader.look(|shown| {
            if shown.close == Some(Close::AtOnce) {
                return Next::Closed;
            }
            let limit = match shown.close {
                Some(Close::After(last_seq)) => last_seq,
                Some(Close::AtOnce) | None => u64::MAX,
            };
            let shift = shown.states.iter().find(|shift| shift.number > told && shift.after_seq <= limit);
            // Those before the next state, whatever has come after it.
            let to = shift.map_or(shown.last_seq.min(limit), |shift| shift.after_seq);
            match (shift, shown.end, shown.close) {
                (_, _, _) if read < to => Next::Events(to, shown.last_seq),
                (Some(shift), _, _) => Next::State(shift.clone()),
                (None, Some(end), _) if end.last_seq <= limit => Next::Final(end),
                (None, _, Some(_)) => Next::Closed,
                (None, _, None) => Next::Wait,
            }
        })
    }

    /// The next event of those up to a number, or that some are not kept any more. `None` after events were read that have
    /// to be looked at.
    async fn event(&mut self, to: u64, last_seq: u64) -> Option<Frame> {
        let next = self.read + 1;
        let oldest = oldest_event_of(last_seq);
        if next < oldest {
            return Some(self.gap(oldest - 1));
        }
        match self.ready.front().map(|event| event.seq) {
            Some(seq) if seq < next => {
                self.ready.pop_front();
                None
            }
            Some(seq) if seq > next => Some(self.gap(seq - 1)),
            Some(_) => {
                let Event { seq, at, content } = self.ready.pop_front()?;
                self.read = seq;
                Some(Frame::Event { seq, at, content })
            }
            None => match self.read_on(next, last_seq).await {
                Ok(()) if self.ready.is_empty() => Some(self.gap(to)),
                Ok(()) => None,
                // Whoever comes again finds it, once it can be read.
                Err(error) => {
                    tracing::warn!(item = %self.id, %error, "the events of an item cannot be read");
                    Some(self.closed())
                }
            },
        }
    }

    fn gap(&mut self, to: u64) -> Frame {
        let from = self.read + 1;
        self.read = to;
        Frame::Gap { from, to }
    }

    /// What is durable may not be told yet: of that nothing is taken.
    async fn read_on(&mut self, from: u64, last_seq: u64) -> Result<(), StoreError> {
        let ItemId { partition, number } = self.id;
        let mut bytes = 0;
        for (first_seq, body) in self.store.read_events(partition, number, from, READ_BYTES).await? {
            let is_large = body.len() > READ_BYTES;
            let unreadable = || StoreError::Unusable("a batch of events is not what was written".to_owned());
            let (at, events) = unpack(body).ok_or_else(unreadable)?;
            let numbered = (first_seq..).zip(events);
            for (seq, content) in numbered.filter(|(seq, _)| (from..=last_seq).contains(seq)) {
                if bytes >= READ_BYTES {
                    return Ok(());
                }
                bytes += content.len();
                // What was only part of something large must not keep all of it.
                let content = if is_large { Bytes::copy_from_slice(&content) } else { content };
                self.ready.push_back(Event { seq, at, content });
            }
        }
        Ok(())
    }
}
