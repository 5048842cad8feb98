//! One item: its command, from its start to what came out of it.

use std::time::Duration;

use tokio::sync::watch;
use windlass_api::payload::Payload;
use windlass_client::worker::{Failure, Work};

use super::ResultForm;
use super::facts::facts;
use super::process::{Command, Exited};
use crate::output::Output;
use crate::payload::{Form, payload};

/// How a command says that no further attempt will help.
const DEAD: i32 = 100;

#[derive(Debug)]
pub(super) struct Exec {
    pub(super) command: Command,
    pub(super) result: Option<ResultForm>,
    pub(super) kill_after: Duration,
    /// Whether commands that are to end are killed at once.
    pub(super) kill_now: watch::Receiver<bool>,
    pub(super) out: Output,
}

impl Exec {
    pub(super) async fn handle(&self, work: Work<Payload>) -> Result<Option<Payload>, Failure> {
        let bad_input = |why| self.talked_of(&work, Failure::new(why).code("bad_input").dead());
        let facts = facts(work.queue().name(), work.item()).map_err(bad_input)?;
        let started = self.command.start(facts, &work.payload, self.out);
        let not_started = |error| Failure::new(format!("cannot start /bin/sh: {error}")).code("not_started");
        let mut running = started.await.map_err(|error| self.talked_of(&work, not_started(error)))?;
        tokio::select! {
            exited = running.exited() => {
                self.outcome(exited).map_err(|failure| self.talked_of(&work, failure))
            }
            _ = work.cancellation().cancelled() => {
                running.kill(self.kill_after, self.kill_now()).await;
                Err(Failure::new("the command was ended"))
            }
        }
    }

    async fn kill_now(&self) {
        // Whoever hears signals outlives all commands.
        let mut kill_now = self.kill_now.clone();
        let _nobody_left = kill_now.wait_for(|now| *now).await;
    }

    fn outcome(&self, exited: Exited) -> Result<Option<Payload>, Failure> {
        match exited.status.code() {
            Some(0) => self.result_of(exited.printed).map_err(|why| Failure::new(why).code("bad_result")),
            Some(code) => {
                let message = said(&format!("exit code {code}"), &exited.tail);
                let failure = Failure::new(message).code(format!("exit_{code}"));
                Err(if code == DEAD { failure.dead() } else { failure })
            }
            None => Err(Failure::new(said(&exited.status.to_string(), &exited.tail)).code("killed")),
        }
    }

    fn talked_of(&self, work: &Work<Payload>, failure: Failure) -> Failure {
        let first = failure.message().lines().next().unwrap_or_default();
        self.out.talk(&format!("{}: {first}", work.id()));
        failure
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
