//! The events of an item are one sequence: dense, the same for everybody, in the order in which they came, and never without
//! what anybody was told is in it: what a worker emitted, and what the item was resumed with.

use std::collections::BTreeMap;

use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;

use super::facts::{Facts, violation};
use crate::history::{Call, Emitted, Followed, Op, Outcome, ShownItem, Violation};

#[derive(Default)]
struct Stream<'a> {
    /// Serials by number, as anybody was told.
    events: BTreeMap<u64, u64>,
    /// Numbers by serial.
    numbers: BTreeMap<u64, u64>,
    /// What is in it, or may be.
    said: Vec<Said<'a>>,
    /// Who was told of a last number, and the calls that look.
    known: Vec<(&'a Call, u64)>,
    finals: Vec<(u64, &'a Followed)>,
    acknowledged: Vec<u64>,
}

/// Events of one call.
struct Said<'a> {
    call: &'a Call,
    serials: &'a [u64],
}

impl Said<'_> {
    fn is_sure(&self) -> bool {
        !self.call.outcome.is_unknown()
    }
}

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let mut streams: BTreeMap<ItemId, Stream<'_>> = BTreeMap::new();
    for call in &facts.history.calls {
        if let Some((id, serials)) = said(&call.op).filter(|_| call.outcome.is_possible()) {
            let stream = streams.entry(id).or_default();
            stream.said.push(Said { call, serials });
            if let Outcome::Emitted(emitted) = call.outcome {
                stream.emitted(id, call, serials, emitted)?;
            }
        }
        match (&call.op, &call.outcome) {
            (Op::Follow { id, after, .. }, Outcome::Followed(followed)) => {
                streams.entry(*id).or_default().followed(*id, call, *after, followed)?;
            }
            (Op::Subscribe(id), Outcome::Subscribed { view, last_seq }) => {
                streams.entry(*id).or_default().subscribed(*id, call, view, *last_seq)?;
            }
            (_, _) => {}
        }
    }
    let empty = Stream::default();
    for call in &facts.history.calls {
        for (id, count) in counted(call) {
            let stream = streams.get(&id).unwrap_or(&empty);
            stream.is_not_behind(id, call, count)?;
            stream.is_counted(id, call, count)?;
        }
        if let (Op::Follow { id, after, .. }, Outcome::Refused(Refusal::Invalid(_))) =
            (&call.op, &call.outcome)
            && let Some(stream) = streams.get(id)
        {
            stream.is_not_behind(*id, call, after.saturating_sub(1))?;
        }
    }
    for (id, stream) in &streams {
        stream.is_whole(*id)?;
        stream.is_in_order(*id)?;
    }
    Ok(())
}

/// How many events a call was told that items have.
fn counted(call: &Call) -> impl Iterator<Item = (ItemId, u64)> {
    let shown = call.outcome.shown().map(|view| (view.id, view.event_count));
    let granted = call.outcome.granted().iter().map(|item| (item.id, item.event_count));
    shown.into_iter().chain(granted)
}

/// What a call adds to which stream.
pub(super) fn said(op: &Op) -> Option<(ItemId, &[u64])> {
    if let Op::Emit { id, events, .. } = op {
        return Some((*id, events));
    }
    let Op::Resume { id, input: Some(serial) } = op else { return None };
    Some((*id, std::slice::from_ref(serial)))
}

impl<'a> Stream<'a> {
    fn emitted(
        &mut self,
        id: ItemId,
        call: &'a Call,
        serials: &[u64],
        emitted: Emitted,
    ) -> Result<(), Violation> {
        let Emitted { first_seq, last_seq } = emitted;
        if last_seq + 1 != first_seq + serials.len() as u64 {
            return Err(told(
                id,
                format!("{} events were numbered {first_seq} to {last_seq}", serials.len()),
            ));
        }
        self.known.push((call, last_seq));
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
        if followed.is_final() && !followed.has_gap {
            self.finals.push((after, followed));
        }
        Ok(())
    }

    /// The item and the number were seen at one moment: what follows is all that came after it.
    fn subscribed(
        &mut self,
        id: ItemId,
        call: &'a Call,
        view: &ShownItem,
        last_seq: u64,
    ) -> Result<(), Violation> {
        self.known.push((call, last_seq));
        let count = view.event_count;
        if count == last_seq {
            return Ok(());
        }
        Err(told(id, format!("a snapshot with {count} events was numbered {last_seq} at {}", call.end)))
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

    /// Each is there once: numbers are dense, so the last tells how many there are.
    fn is_counted(&self, id: ItemId, look: &Call, count: u64) -> Result<(), Violation> {
        let sum = |counts: &dyn Fn(&&Said<'_>) -> bool| -> u64 {
            self.said.iter().filter(counts).map(|said| said.serials.len() as u64).sum()
        };
        let least = sum(&|said| said.is_sure() && said.call.end < look.begin);
        let most = sum(&|said| said.call.begin < look.end);
        if (least..=most).contains(&count) {
            return Ok(());
        }
        Err(told(id, format!("there were {count} events at {}, not {least} to {most}", look.begin)))
    }

    /// Nothing is in it that nobody put there, and who saw its end saw all.
    fn is_whole(&self, id: ItemId) -> Result<(), Violation> {
        let possible = |serial: &u64| self.said.iter().any(|said| said.serials.contains(serial));
        if let Some((seq, serial)) = self.events.iter().find(|(_, serial)| !possible(serial)) {
            return Err(told(id, format!("event {seq} is {serial}, which nobody put there")));
        }
        for (after, followed) in &self.finals {
            let last = followed.events.last().map_or(*after, |(seq, _)| *seq);
            if let Some(missed) = self.acknowledged.iter().find(|seq| **seq > last) {
                return Err(told(id, format!("a stream ended with {last} and without {missed}")));
            }
            // Whoever resumes is not told the number.
            let mut sure = self.said.iter().filter(|said| said.is_sure()).flat_map(|said| said.serials);
            let missed =
                sure.find(|serial| *after == 0 && !followed.events.iter().any(|(_, shown)| shown == *serial));
            if let Some(missed) = missed {
                return Err(told(id, format!("a stream ended with {last} and without what is {missed}")));
            }
        }
        Ok(())
    }

    /// What came after something else has the greater number.
    fn is_in_order(&self, id: ItemId) -> Result<(), Violation> {
        let numbered = |said: &'_ Said<'a>| {
            let number = |serial: Option<&u64>| serial.and_then(|serial| self.numbers.get(serial)).copied();
            Some((said.call, number(said.serials.first())?, number(said.serials.last())?))
        };
        let sure: Vec<_> = self.said.iter().filter(|said| said.is_sure()).filter_map(numbered).collect();
        for (call, _, last) in &sure {
            let mut later = sure.iter().filter(|(other, _, _)| other.begin > call.end);
            if let Some((other, first, _)) = later.find(|(_, first, _)| first <= last) {
                let text = format!("event {first} of {} came after {last} of {}", other.begin, call.begin);
                return Err(told(id, text));
            }
        }
        Ok(())
    }
}

fn told(id: ItemId, text: String) -> Violation {
    violation("stream", format!("item {}: {text}", id.number.0))
}
