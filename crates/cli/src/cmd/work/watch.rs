//! What a worker tells of itself, for whoever looks at the terminal; and the tally.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_client::worker::{Event, Fate, NotTold, Reason};

use super::tally::Tally;
use crate::human::{counted, length};
use crate::output::Output;
use crate::remote;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    out: Output,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    tally: Tally,
    /// Items that their commands have suspended, until they are counted.
    suspended: BTreeSet<String>,
}

impl Watch {
    pub(super) fn new(out: Output) -> Self {
        Self { out, seen: Arc::default() }
    }

    pub(super) fn tally(&self) -> Tally {
        self.seen().tally
    }

    pub(super) fn see(&self, event: Event<'_>) {
        if let Event::NotTold { id, why } = event
            && is_suspended(why)
        {
            self.seen().suspended.insert(id.to_owned());
            return;
        }
        if let Event::Ended { id, fate } = event {
            let mut seen = self.seen();
            let fate = if seen.suspended.remove(id) { Fate::Suspended } else { fate };
            seen.tally.count(fate);
        }
        if let Some(words) = words_of(event) {
            self.out.talk(&words);
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nothing panics while it holds this")
    }
}

/// Nobody but the command itself can do that with its permit, and then there is nothing to tell of its end.
fn is_suspended(why: &NotTold) -> bool {
    let NotTold::Refused(refusal) = why else { return false };
    refusal.details.as_ref().is_some_and(|details| details.reason.as_deref() == Some("suspended"))
}

fn words_of(event: Event<'_>) -> Option<String> {
    Some(match event {
        Event::LeaseFailed { error, pause } => {
            format!("{}\ntrying again in {}", remote::described(error), length(pause))
        }
        Event::ExtendFailed { error } => format!("cannot extend leases: {}", remote::described(error)),
        Event::Cancelled { id, reason } => {
            let why = match reason {
                Reason::LeaseLost => "its lease is lost",
                Reason::LeaseEnding => "its lease is about to end and cannot be extended",
                Reason::CancelRequested => "it is to be cancelled",
                Reason::Stopping => "this worker stops",
            };
            format!("{id}: {why}: ending its command")
        }
        Event::EmitFailed { id, error } => {
            format!("{id}: its events are refused: {}", remote::described(error))
        }
        Event::TellFailed { id, error } => {
            format!("{id}: {}\ntelling it again until its lease ends", remote::described(error))
        }
        Event::NotTold { id, why } => format!("{id}: how it ended could not be told: {why}"),
        Event::Stopping { running: 0, .. } | Event::Ended { .. } => return None,
        Event::Stopping { running, grace } => {
            let (running, grace) = (counted(running as u64, "command"), length(grace));
            format!("stopping: {running} may go on for {grace}; signal again to end now")
        }
    })
}
