//! Following an item: its events and its states, in one order, to its end.
//!
//! A subscription is a cursor. It knows how far the stream has come and which states to show where, as the partition tells
//! ([`crate::partition::streams`]), and reads the events themselves from the store. Nothing here asks where the partition is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_core::event::unpack;
use windlass_core::id::ItemId;
use windlass_core::item::{MovedTo, Phase};
use windlass_core::limits::Invalid;
use windlass_core::mutant::{self, Mutant};
use windlass_core::partition::oldest_event_of;
use windlass_core::refusal::Refusal;
use windlass_core::time::Timestamp;

use crate::env::Env;
use crate::error::EngineError;
use crate::host::Home;
use crate::partition::streams::{Close, Final, Followed, Reader, Shift, event_count};
use crate::queue::Came;
use crate::store::{Store, StoreError};
use crate::view;
use crate::view::ItemView;

/// What a subscription reads at once: it holds no more than about that, and one batch.
const READ_BYTES: usize = 128 << 10;

/// For how long the end of an item that is on its way is held back at most, to be told with where the item went. The queue
/// that it goes to may be gone or faulty.
pub(crate) const HOLD_BACK: Duration = Duration::from_secs(1);

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
        /// Where the item goes on.
        moved_to: Option<Box<MovedTo>>,
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

/// A cursor on the stream of an item. Dropping it lets go of everything that it took.
#[derive(Debug)]
pub struct Subscription {
    reader: Reader,
    home: Home,
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    id: ItemId,
    snapshot: Option<Box<ItemView>>,
    /// The number of the last event that was shown or is not kept any more.
    read: u64,
    /// Events that were read from the store and not shown yet, in order.
    ready: VecDeque<Event>,
    /// What those take. They are parts of batches, which they keep whole.
    ready_bytes: usize,
    /// The last change of state that was shown, or was seen before this began.
    told: u64,
    phase: Phase,
    /// The final state was shown.
    is_final: bool,
    arrival: Arrival,
    is_over: bool,
}

/// What is known of where an item has got to that ended on its way.
#[derive(Debug)]
enum Arrival {
    Unasked,
    /// The end is held back until then, on the boot clock.
    HeldBackUntil(Duration),
    Known(Option<Box<MovedTo>>),
}

#[derive(Debug)]
struct Event {
    seq: u64,
    at: Timestamp,
    content: Bytes,
}

/// As it was read.
struct Batch {
    first_seq: u64,
    at: Timestamp,
    events: Vec<Bytes>,
    bytes: usize,
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

/// What a look at the stream comes to.
enum Step {
    Show(Frame),
    /// The next event has to be read, of those up to this number, of a stream that has come to the second.
    Read(u64, u64),
    /// The end can be shown once it is known where the item went.
    Arrive,
    Wait,
    Over,
}

impl Subscription {
    /// Begins at the item's present state, or at the event after a number.
    pub(crate) async fn open(
        home: Home,
        env: &Arc<dyn Env>,
        store: &Arc<dyn Store>,
        id: ItemId,
        after: Option<u64>,
    ) -> Result<Self, EngineError> {
        let mut before = None;
        loop {
            let (reader, followed) = follow(&home, id).await?;
            let Followed { item, member, told } = followed;
            let last_seq = event_count(&item);
            if after.is_some_and(|after| after > last_seq) {
                return Err(Refusal::Invalid(NOT_REACHED).into());
            }
            reader.saw(&item);
            let held = member.as_ref().is_some_and(|member| member.held);
            let phase = if held { Phase::Held } else { item.state.phase() };
            let mut snapshot = None;
            if after.is_none() {
                let view = view::with_bodies(&home, &**store, id, item, member).await?;
                if view.may_have_ended() && before.as_ref() != Some(&view.item) {
                    before = Some(view.item);
                    continue;
                }
                snapshot = Some(Box::new(view));
            }
            let is_low = last_seq > 0 && mutant::active(Mutant::NumberSnapshotLow);
            return Ok(Self {
                reader,
                home,
                env: Arc::clone(env),
                store: Arc::clone(store),
                id,
                snapshot,
                read: after.unwrap_or(last_seq - u64::from(is_low)),
                ready: VecDeque::new(),
                ready_bytes: 0,
                told,
                phase,
                is_final: false,
                arrival: Arrival::Unasked,
                is_over: false,
            });
        }
    }

    /// The next frame, as soon as there is one; `None` after the end. Whoever stops waiting misses nothing.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            match self.step() {
                Step::Show(frame) => return Some(frame),
                Step::Read(to, last_seq) => match self.read_on(last_seq).await {
                    Ok(()) if self.ready.is_empty() => return Some(self.gap(to)),
                    Ok(()) => {}
                    // Whoever comes again finds it, once it can be read.
                    Err(error) => {
                        tracing::warn!(item = %self.id, %error, "the events of an item cannot be read");
                        return Some(self.closed());
                    }
                },
                Step::Arrive => self.arrive().await,
                Step::Wait => self.reader.changed().await,
                Step::Over => return None,
            }
        }
    }

    /// The next frame, if there is one that can be shown without reading or waiting.
    pub fn at_hand(&mut self) -> Option<Frame> {
        match self.step() {
            Step::Show(frame) => Some(frame),
            Step::Read(..) | Step::Arrive | Step::Wait | Step::Over => None,
        }
    }

    /// Whether all there is was shown, and the next frame is still to come.
    pub fn would_wait(&mut self) -> bool {
        self.snapshot.is_none() && !self.is_over && matches!(self.look(), Next::Wait)
    }

    /// What this holds in memory of what was not shown yet.
    pub fn read_ahead_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Lets go of that. It is read again when its turn comes.
    pub fn let_go(&mut self) {
        self.ready = VecDeque::new();
        self.ready_bytes = 0;
    }

    /// The state that was shown last, or that the item had when this began.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn step(&mut self) -> Step {
        if let Some(item) = self.snapshot.take() {
            return Step::Show(Frame::Snapshot { item, last_seq: self.read });
        }
        while !self.is_over {
            match self.look() {
                Next::Events(to, last_seq) => return self.event(to, last_seq),
                Next::State(shift) => {
                    self.told = shift.number;
                    if self.phase == shift.phase {
                        continue;
                    }
                    self.phase = shift.phase;
                    let Shift { phase, at, reason, .. } = shift;
                    return Step::Show(Frame::State { phase, at, reason });
                }
                Next::Final(end) if self.is_final => {
                    let phase = end.phase;
                    let moved_to = match &self.arrival {
                        _ if !end.is_leaving => end.moved_to,
                        Arrival::Known(moved_to) => moved_to.clone(),
                        Arrival::Unasked | Arrival::HeldBackUntil(_) => return Step::Arrive,
                    };
                    self.is_over = true;
                    return Step::Show(Frame::End { reason: EndReason::Final, phase, moved_to });
                }
                Next::Final(end) => {
                    self.is_final = true;
                    self.phase = end.phase;
                    return Step::Show(Frame::State { phase: end.phase, at: end.at, reason: None });
                }
                Next::Closed => return Step::Show(self.closed()),
                Next::Wait => return Step::Wait,
            }
        }
        Step::Over
    }

    /// Finds out where the item went, unless it does not get there soon. Whoever stops waiting waits no longer in all.
    async fn arrive(&mut self) {
        let deadline = match self.arrival {
            Arrival::HeldBackUntil(deadline) => deadline,
            Arrival::Unasked | Arrival::Known(_) => self.env.boot() + HOLD_BACK,
        };
        self.arrival = Arrival::HeldBackUntil(deadline);
        let Home { queue, partition } = &self.home;
        let moved_to = match queue.arrival(partition, self.id.number, |_| true, deadline).await {
            Ok(Came::To(moved_to)) => Some(moved_to),
            Ok(Came::UnderWay(_) | Came::Nowhere) | Err(_) => None,
        };
        self.arrival = Arrival::Known(moved_to);
    }

    fn closed(&mut self) -> Frame {
        self.is_over = true;
        Frame::End { reason: EndReason::Closed, phase: self.phase, moved_to: None }
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
            match (shift, shown.end.clone(), shown.close) {
                (_, _, _) if read < to => Next::Events(to, shown.last_seq),
                (Some(shift), _, _) => Next::State(shift.clone()),
                (None, Some(end), _) if end.last_seq <= limit => Next::Final(end),
                (None, _, Some(_)) => Next::Closed,
                (None, _, None) => Next::Wait,
            }
        })
    }

    /// The next event of those up to a number, or that some are not kept any more, if it need not be read first.
    fn event(&mut self, to: u64, last_seq: u64) -> Step {
        let next = self.read + 1;
        let oldest = oldest_event_of(last_seq);
        if next < oldest {
            return Step::Show(self.gap(oldest - 1));
        }
        while self.ready.front().is_some_and(|event| event.seq < next) {
            self.take_ready();
        }
        let Some(seq) = self.ready.front().map(|event| event.seq) else {
            return Step::Read(to, last_seq);
        };
        if seq > next {
            return Step::Show(self.gap(seq - 1));
        }
        self.read = seq;
        let Event { at, content, .. } = self.take_ready();
        Step::Show(Frame::Event { seq, at, content })
    }

    fn take_ready(&mut self) -> Event {
        let event = self.ready.pop_front().expect("it was looked at");
        if self.ready.is_empty() {
            self.let_go();
        }
        event
    }

    fn gap(&mut self, to: u64) -> Frame {
        let from = self.read + 1;
        self.read = to;
        Frame::Gap { from, to }
    }

    /// What is durable may not be told yet: of that nothing is taken.
    async fn read_on(&mut self, last_seq: u64) -> Result<(), StoreError> {
        let from = self.read + 1;
        let mut batches = self.batches(from, READ_BYTES).await?;
        // If the batch is missing that held the next event, the one before it comes, and may be all there was room for.
        if let [only] = &batches[..]
            && only.first_seq + only.events.len() as u64 <= from
        {
            batches = self.batches(from, only.bytes + READ_BYTES).await?;
        }
        for Batch { first_seq, at, events, bytes } in batches {
            let numbered = (first_seq..).zip(events);
            let wanted = numbered.filter(|(seq, _)| (from..=last_seq).contains(seq));
            let before = self.ready.len();
            self.ready.extend(wanted.map(|(seq, content)| Event { seq, at, content }));
            if self.ready.len() > before {
                self.ready_bytes += bytes;
            }
        }
        Ok(())
    }

    async fn batches(&self, from: u64, bytes_max: usize) -> Result<Vec<Batch>, StoreError> {
        let ItemId { partition, number } = self.id;
        let read = self.store.read_events(partition, number, from, bytes_max).await?;
        let batch = |(first_seq, body): (u64, Bytes)| {
            let bytes = body.len();
            let unreadable = || StoreError::Unusable("a batch of events is not what was written".to_owned());
            let (at, events) = unpack(body).ok_or_else(unreadable)?;
            Ok(Batch { first_seq, at, events, bytes })
        };
        read.into_iter().map(batch).collect()
    }
}

/// A place among those who follow an item, and the item as it was at that moment.
async fn follow(home: &Home, id: ItemId) -> Result<(Reader, Followed), EngineError> {
    let (reader, seen) = home.partition.follow(id.number)?;
    let seen = seen.await.map_err(|_dropped| home.partition.no_answer())?;
    Ok((reader, seen.ok_or(Refusal::NotFound)?))
}

const NOT_REACHED: Invalid =
    Invalid { field: "after", rule: "at most the number of the last event, which is not that far yet" };
