//! The birth of every item, whether it is produced, imported, moved here, or made by a group or a cron.

use std::sync::Arc;

use bytes::Bytes;

use super::entry::Entry;
use super::groups::index::GroupIndex;
use super::{Output, Partition};
use crate::attempt::{self, LOGGED_MAX};
use crate::group::Template;
use crate::headers::Hashes;
use crate::id::ItemNumber;
use crate::item::{Extras, PayloadSize, Phase, State};
use crate::row::{BodyCopy, Change, Part};
use crate::time::{Span, Timestamp};
use crate::verbs::Produced;

/// An item that has no number yet.
pub(super) struct Draft<'a> {
    pub(super) kind: &'a Arc<str>,
    pub(super) priority: u8,
    /// The group takes the item: see [`Partition::group_to_join`].
    pub(super) group: Option<GroupIndex>,
    pub(super) created_at: Timestamp,
    pub(super) attempts: u32,
    pub(super) state: State,
    /// `facts_bytes`, `header_hashes`, `payload_lost` and what tells of the attempt log are set by [`Partition::create`], as the bodies say.
    pub(super) extras: Extras,
    pub(super) bodies: Bodies<'a>,
    pub(super) hashes: Hashes,
}

/// The bodies of a new item, by where they come from.
pub(super) enum Bodies<'a> {
    /// The payload of an item that was moved may be lost.
    Given {
        payload: Option<Bytes>,
        facts: Option<Bytes>,
        /// The attempt log of an item that was moved, the oldest first.
        attempts: Vec<Bytes>,
    },
    CopiedFrom(&'a Template),
    /// Rerun in this partition: the bodies are copied from this item.
    CopiedFromItem(ItemNumber, &'a Entry),
}

impl Bodies<'_> {
    /// Bodies of an item without attempts.
    pub(super) fn given(payload: Bytes, facts: Option<Bytes>) -> Self {
        Self::Given { payload: Some(payload), facts, attempts: Vec::new() }
    }

    fn facts_bytes(&self) -> u64 {
        match self {
            Self::Given { facts, .. } => facts_bytes(facts.as_ref()),
            Self::CopiedFrom(template) => template.facts_bytes,
            Self::CopiedFromItem(_, entry) => entry.extras.as_ref().map_or(0, |extras| extras.facts_bytes),
        }
    }

    fn payload_size(&self) -> PayloadSize {
        match self {
            Self::Given { payload, .. } => PayloadSize::of(payload.as_ref().map_or(0, Bytes::len) as u64),
            Self::CopiedFrom(template) => PayloadSize::of(template.body_bytes),
            Self::CopiedFromItem(_, entry) => entry.payload_size,
        }
    }

    /// How many attempts were logged, and about how many bytes they come to.
    fn attempts(&self) -> (u32, u32) {
        match self {
            Self::Given { attempts, .. } => {
                let bytes = attempts.iter().map(Bytes::len).sum::<usize>();
                (attempts.len() as u32, bytes.try_into().unwrap_or(u32::MAX))
            }
            Self::CopiedFrom(_) => (0, 0),
            Self::CopiedFromItem(_, entry) => {
                entry.extras.as_ref().map_or((0, 0), |extras| (extras.attempts_logged, extras.attempt_bytes))
            }
        }
    }

    fn lack_payload(&self) -> bool {
        matches!(self, Self::Given { payload: None, .. })
    }
}

impl<'a> Draft<'a> {
    /// An item that is due then, or at once, of no group and never tried.
    pub(super) fn new(
        now: Timestamp,
        kind: &'a Arc<str>,
        due_at: Option<Timestamp>,
        bodies: Bodies<'a>,
    ) -> Self {
        Self {
            kind,
            priority: 0,
            group: None,
            created_at: now,
            attempts: 0,
            state: at_its_time(now, due_at),
            extras: Extras::default(),
            bodies,
            hashes: Hashes::Unknown,
        }
    }
}

impl Partition {
    /// Makes the item, at the tail. Whether it may be made was checked before.
    pub(super) fn create(&mut self, now: Timestamp, draft: Draft<'_>, out: &mut Output) -> Produced {
        let number = self.issue_number(now, out);
        let (attempts_logged, attempt_bytes) = draft.bodies.attempts();
        let facts_bytes = draft.bodies.facts_bytes();
        let extras = Extras {
            facts_bytes,
            header_hashes: self.header_hashes(&draft.hashes, facts_bytes),
            payload_lost: draft.bodies.lack_payload(),
            attempts_logged,
            attempt_bytes,
            ..draft.extras
        };
        let entry = Entry {
            place: number.0,
            created_at: draft.created_at,
            state: draft.state,
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            group: draft.group,
            kind: self.kinds.index(draft.kind),
            attempts: draft.attempts,
            era: 0,
            priority: draft.priority,
            payload_size: draft.bodies.payload_size(),
        };
        let phase = self.phase(&entry);
        self.write(number, entry, out);
        match draft.bodies {
            Bodies::Given { payload, facts, attempts } => {
                put_bodies(number, payload, facts, out);
                put_attempts(number, attempts, out);
            }
            Bodies::CopiedFrom(template) => copy_bodies(template, number, out),
            Bodies::CopiedFromItem(from, entry) => copy_bodies_of_item(from, entry, number, out),
        }
        Produced { number, phase }
    }

    pub(super) fn phase(&self, entry: &Entry) -> Phase {
        if self.is_held(entry) { Phase::Held } else { entry.state.phase() }
    }

    /// The timeout that an item keeps: its own, else the queue's; none if the item may grow any age.
    pub(super) fn dead_timeout(&self, own: Option<Span>) -> Option<Span> {
        Some(own.unwrap_or(self.settings.dead_timeout)).filter(|timeout| *timeout != Span::ZERO)
    }
}

/// The first state of an item that is due then; unset or past: at once.
fn at_its_time(now: Timestamp, due_at: Option<Timestamp>) -> State {
    match due_at {
        Some(due_at) if due_at > now => State::Scheduled { due_at },
        Some(_) | None => State::Waiting { since: now },
    }
}

/// Bodies that come with an item, or with what makes items, go to the store under its number.
pub(super) fn put_bodies(number: ItemNumber, payload: Option<Bytes>, facts: Option<Bytes>, out: &mut Output) {
    let bodies = [(Part::Payload, payload), (Part::Facts, facts)].into_iter();
    out.changes.extend(bodies.filter_map(|(part, body)| Some(Change::PutBody { number, part, body: body? })));
}

pub(super) fn facts_bytes(facts: Option<&Bytes>) -> u64 {
    facts.map_or(0, |facts| facts.len() as u64)
}

fn copy_bodies(template: &Template, to: ItemNumber, out: &mut Output) {
    let from = template.body;
    out.copies.push(BodyCopy { from, to, part: Part::Payload, bytes: template.body_bytes });
    if template.facts_bytes > 0 {
        out.copies.push(BodyCopy { from, to, part: Part::Facts, bytes: template.facts_bytes });
    }
}

fn put_attempts(number: ItemNumber, attempts: Vec<Bytes>, out: &mut Output) {
    let parts = attempt::parts(attempts.len() as u32);
    let put = |(part, body)| Change::PutBody { number, part, body };
    out.changes.extend(parts.zip(attempts).map(put));
}

fn copy_bodies_of_item(from: ItemNumber, entry: &Entry, to: ItemNumber, out: &mut Output) {
    let mut copy = |part, bytes| out.copies.push(BodyCopy { from, to, part, bytes });
    copy(Part::Payload, entry.payload_size.bytes());
    let Some(extras) = &entry.extras else { return };
    if extras.facts_bytes > 0 {
        copy(Part::Facts, extras.facts_bytes);
    }
    let bytes = u64::from(extras.attempt_bytes) / u64::from(extras.attempts_logged.clamp(1, LOGGED_MAX));
    attempt::parts(extras.attempts_logged).for_each(|part| copy(part, bytes));
}
