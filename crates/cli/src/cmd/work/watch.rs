//! What a worker tells of itself, for whoever looks at the terminal; and the tally.

use std::sync::{Arc, Mutex};

use windlass_client::worker::{Event, Reason};

use super::tally::Tally;
use crate::human::{counted, length};
use crate::output::Output;
use crate::remote;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    out: Output,
    tally: Arc<Mutex<Tally>>,
}

impl Watch {
    pub(super) fn new(out: Output) -> Self {
        Self { out, tally: Arc::default() }
    }

    pub(super) fn tally(&self) -> Tally {
        *self.tally.lock().expect("nothing panics while it holds this")
    }

    pub(super) fn see(&self, event: Event<'_>) {
        if let Event::Ended { fate, .. } = event {
            self.tally.lock().expect("nothing panics while it holds this").count(fate);
        }
        if let Some(words) = words_of(event) {
            self.out.talk(&words);
        }
    }
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
