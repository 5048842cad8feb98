//! One item: its command, from its start to the last word about it.

use std::pin::pin;
use std::time::Duration;

use windlass_api::items::{Held, ItemError, LeasedItem};
use windlass_api::payload::Payload;
use windlass_client::Client;

use super::ResultForm;
use super::crew::{Hurry, Hurrying};
use super::heart::{Beat, Heart};
use super::process::{Command, Exited, Running};
use super::report::Word;
use super::tally::Fate;
use crate::cmd::lease::Wanted;
use crate::output::Output;
use crate::payload::{Form, payload};

/// How a command says that no further attempt will help.
const DEAD: i32 = 100;

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) queue: String,
    pub(super) wanted: Wanted,
    pub(super) lease_timeout: Duration,
    pub(super) command: Command,
    pub(super) result: Option<ResultForm>,
    pub(super) kill_after: Duration,
    pub(super) out: Output,
}

/// Why a command is not left to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    LeaseLost,
    CancelRequested,
    Stopping,
}

impl Worker {
    pub(super) async fn attend(&self, item: LeasedItem, mut hurry: Hurrying) -> Fate {
        let mut heart = Heart::new(self, Held { id: item.id.clone(), permit: item.permit });
        let mut running = match self.command.start(&self.queue, item, self.out) {
            Ok(running) => running,
            Err(error) => {
                let word =
                    self.failed(&heart, "not_started", format!("cannot start /bin/sh: {error}"), false);
                return self.tell(heart, word, hurry).await;
            }
        };
        let cut = tokio::select! {
            exited = running.exited() => {
                let word = self.word_of(&heart, exited);
                return self.tell(heart, word, hurry).await;
            }
            beat = heart.beat() => match beat {
                Beat::CancelRequested => Cut::CancelRequested,
                Beat::LeaseLost => Cut::LeaseLost,
            },
            () = hurry.at_least(Hurry::End) => Cut::Stopping,
        };
        self.cut_short(heart, running, cut, hurry).await
    }

    /// The lease is kept meanwhile, or it could not be given back.
    async fn cut_short(&self, mut heart: Heart<'_>, mut running: Running, cut: Cut, hurry: Hurrying) -> Fate {
        let why = match cut {
            Cut::LeaseLost => "its lease is lost",
            Cut::CancelRequested => "it is to be cancelled",
            Cut::Stopping => "this worker stops",
        };
        self.out.talk(&format!("{}: {why}: ending its command", heart.held.id));
        let mut at_once = hurry.clone();
        let mut killing = pin!(running.kill(self.kill_after, at_once.at_least(Hurry::Kill)));
        let lost = cut == Cut::LeaseLost
            || tokio::select! {
                () = &mut killing => false,
                () = heart.keep() => true,
            };
        if lost {
            killing.await;
            return Fate::Lost;
        }
        self.tell(heart, Word::Release, hurry).await
    }

    fn word_of(&self, heart: &Heart<'_>, exited: Exited) -> Word {
        match exited.status.code() {
            Some(0) => match self.result_of(exited.printed) {
                Ok(result) => Word::Complete(result),
                Err(why) => self.failed(heart, "bad_result", why, false),
            },
            Some(code) => {
                let message = said(&format!("exit code {code}"), &exited.tail);
                self.failed(heart, &format!("exit_{code}"), message, code == DEAD)
            }
            None => self.failed(heart, "killed", said(&exited.status.to_string(), &exited.tail), false),
        }
    }

    fn failed(&self, heart: &Heart<'_>, code: &str, message: String, dead: bool) -> Word {
        self.out.talk(&format!("{}: {}", heart.held.id, message.lines().next().unwrap_or_default()));
        Word::Retry { error: ItemError { code: Some(code.to_owned()), message }, dead }
    }

    fn result_of(&self, printed: Option<Vec<u8>>) -> Result<Option<Payload>, String> {
        let Some(form) = self.result else { return Ok(None) };
        let form = match form {
            ResultForm::Utf8 => Form::Utf8,
            ResultForm::Json => Form::Json,
        };
        let printed = printed.ok_or("the command printed more than 1 MiB: it cannot be kept as a result")?;
        let result = payload(printed, Some(form));
        result.map(Some).map_err(|why| format!("what the command printed cannot be the result: {why}"))
    }
}

fn said(how: &str, tail: &str) -> String {
    if tail.is_empty() { how.to_owned() } else { format!("{how}: {tail}") }
}
