//! The events of an item are one sequence: dense, the same for everybody, and never without what a worker was told is in it.

use std::collections::BTreeMap;

use windlass_core::command::Emitted;
use windlass_core::id::ItemId;

use super::facts::{Facts, violation};
use crate::history::{Call, Followed, Op, Outcome, Violation};

#[derive(Default)]
struct Stream<'a> {
    /// Serials by number, as anybody was told.
    events: BTreeMap<u64, u64>,
    /// Numbers by serial.
    numbers: BTreeMap<u64, u64>,
    /// Serials that may be in it.
    possible: Vec<u64>,
    /// Who was told of a last number, and the calls that look.
    known: Vec<(&'a Call, u64)>,
    finals: Vec<(u64, &'a Followed)>,
    acknowledged: Vec<u64>,
}

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut streams: BTreeMap<ItemId, Stream<'_>> = BTreeMap::new();
    for call in &facts.history.calls {
        match (&call.op, &call.outcome) {
            (Op::Emit { id, events, .. }, Outcome::Emitted(emitted)) => {
                streams.entry(*id).or_default().emitted(*id, call, events, *emitted)?;
            }
            (Op::Emit { id, events, .. }, Outcome::Open | Outcome::Unknown(_)) => {
                streams.entry(*id).or_default().possible.extend(events);
            }
            (Op::Follow { id, after, .. }, Outcome::Followed(followed)) => {
                streams.entry(*id).or_default().followed(*id, call, *after, followed)?;
            }
            (_, _) => {}
        }
    }
    for call in &facts.history.calls {
        if let (Op::Get(id), Outcome::Shown(view)) = (&call.op, &call.outcome)
            && let Some(stream) = streams.get(id)
        {
            let count = view.item.extras.as_ref().map_or(0, |extras| extras.event_count);
            stream.is_not_behind(*id, call, count)?;
        }
    }
    streams.iter().try_for_each(|(id, stream)| stream.is_whole(*id))
}

impl<'a> Stream<'a> {
    fn emitted(
        &mut self,
        id: ItemId,
        call: &'a Call,
        serials: &[u64],
        emitted: Emitted,
    ) -> Result<(), Violation> {
        let Emitted { first_seq, last_seq, .. } = emitted;
        if last_seq + 1 != first_seq + serials.len() as u64 {
            return Err(told(
                id,
                format!("{} events were numbered {first_seq} to {last_seq}", serials.len()),
            ));
        }
        self.known.push((call, last_seq));
        self.possible.extend(serials);
        for (seq, serial) in (first_seq..).zip(serials) {
            self.acknowledged.push(seq);
            self.is(id, seq, *serial)?;
        }
        Ok(())
    }

    fn followed(
        &mut self,
        id: ItemId,
        call: &'a Call,
        after: u64,
        followed: &'a Followed,
    ) -> Result<(), Violation> {
        let mut last = after;
        for (seq, serial) in &followed.events {
            let follows = if followed.has_gap { *seq > last } else { *seq == last + 1 };
            if !follows {
                return Err(told(id, format!("event {seq} was shown after {last}")));
            }
            last = *seq;
            self.is(id, *seq, *serial)?;
        }
        self.known.push((call, last));
        if followed.is_final && !followed.has_gap {
            self.finals.push((after, followed));
        }
        Ok(())
    }

    /// One number, one event, whoever tells.
    fn is(&mut self, id: ItemId, seq: u64, serial: u64) -> Result<(), Violation> {
        let other = self.events.insert(seq, serial).filter(|other| *other != serial);
        let elsewhere = self.numbers.insert(serial, seq).filter(|elsewhere| *elsewhere != seq);
        if other.is_none() && elsewhere.is_none() {
            return Ok(());
        }
        Err(told(id, format!("event {seq} is {serial}, and is {other:?}, which is also {elsewhere:?}")))
    }

    /// What anybody was told of before is durable.
    fn is_not_behind(&self, id: ItemId, look: &Call, count: u64) -> Result<(), Violation> {
        let ahead = self.known.iter().find(|(call, seq)| call.end < look.begin && *seq > count);
        let Some((call, seq)) = ahead else { return Ok(()) };
        Err(told(id, format!("event {seq} was there at {}, and only {count} at {}", call.end, look.begin)))
    }

    /// Nothing is in it that nobody emitted, and who saw its end saw all.
    fn is_whole(&self, id: ItemId) -> Result<(), Violation> {
        if let Some((seq, serial)) = self.events.iter().find(|(_, serial)| !self.possible.contains(serial)) {
            return Err(told(id, format!("event {seq} is {serial}, which nobody emitted")));
        }
        for (after, followed) in &self.finals {
            let last = followed.events.last().map_or(*after, |(seq, _)| *seq);
            if let Some(missed) = self.acknowledged.iter().find(|seq| **seq > last) {
                return Err(told(id, format!("a stream ended with {last} and without {missed}")));
            }
        }
        Ok(())
    }
}

fn told(id: ItemId, text: String) -> Violation {
    violation("stream", format!("item {}: {text}", id.number.0))
}
