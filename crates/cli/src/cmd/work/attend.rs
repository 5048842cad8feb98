//! One item: its command, its heartbeat, and what the server is told at the end.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use windlass_api::error::Failed;
use windlass_api::items::{
    CompleteRequest, Completion, ExtendRequest, Held, ItemError, LeasedItem, ReleaseRequest, Retry,
    RetryRequest,
};
use windlass_api::payload::Payload;
use windlass_client::{Client, ClientError};

use super::ResultForm;
use super::process::{Command, Exited, Running};
use super::tally::Fate;
use crate::cmd::lease::Wanted;
use crate::exit::Failure;
use crate::output::Output;
use crate::payload::{Form, payload};

/// How a command says that no further attempt will help.
const DEAD: i32 = 100;
/// A heartbeat that fails is sent again after this.
const HEARTBEAT_PAUSE: Duration = Duration::from_secs(1);

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
    pub(super) async fn attend(&self, item: LeasedItem, mut kill: watch::Receiver<bool>) -> Fate {
        let leased = Instant::now();
        let held = Held { id: item.id.clone(), permit: item.permit };
        let mut running = match self.command.start(&self.queue, item, self.out) {
            Ok(running) => running,
            Err(error) => {
                let message = format!("cannot start /bin/sh: {error}");
                return self.retry(held, failed("not_started", message), false).await;
            }
        };
        let cut = tokio::select! {
            exited = running.exited() => return self.report(held, exited).await,
            cut = self.heartbeats(&held, leased) => cut,
            () = async { drop(kill.wait_for(|kill| *kill).await) } => Cut::Stopping,
        };
        self.cut_short(held, running, cut).await
    }

    async fn cut_short(&self, held: Held, running: Running, cut: Cut) -> Fate {
        let why = match cut {
            Cut::LeaseLost => "its lease is lost",
            Cut::CancelRequested => "it is to be cancelled",
            Cut::Stopping => "this worker stops",
        };
        self.out.talk(&format!("{}: {why}: ending its command", held.id));
        running.kill(self.kill_after).await;
        match cut {
            Cut::LeaseLost => Fate::Lost,
            Cut::CancelRequested | Cut::Stopping => self.release(held).await,
        }
    }

    /// Until there is a reason not to go on.
    async fn heartbeats(&self, held: &Held, leased: Instant) -> Cut {
        let mut sent = leased;
        loop {
            sleep_until(sent + self.lease_timeout / 3).await;
            let ends = sent + self.lease_timeout;
            sent = Instant::now();
            match timeout_at(ends, self.extend(held)).await {
                Ok(Some(cut)) => return cut,
                Ok(None) => {}
                Err(_elapsed) => return Cut::LeaseLost,
            }
        }
    }

    /// Tries until the server answers.
    async fn extend(&self, held: &Held) -> Option<Cut> {
        let lease_timeout = self.wanted.lease_timeout;
        let request = ExtendRequest { queue: self.queue.clone(), lease_timeout, items: vec![held.clone()] };
        loop {
            match self.client.call(&request).await {
                Ok(reply) if !reply.failed.is_empty() => return Some(Cut::LeaseLost),
                Ok(reply) => {
                    let cancel = reply.items.iter().any(|item| item.cancel_requested);
                    return cancel.then_some(Cut::CancelRequested);
                }
                Err(error) => {
                    self.out.talk(&format!("{}: cannot extend its lease: {}", held.id, Failure::from(error)));
                    sleep(HEARTBEAT_PAUSE).await;
                }
            }
        }
    }

    async fn report(&self, held: Held, exited: Exited) -> Fate {
        match exited.status.code() {
            Some(0) => match self.result_of(exited.printed) {
                Ok(result) => self.complete(held, result).await,
                Err(why) => self.retry(held, failed("bad_result", why), false).await,
            },
            Some(code) => {
                let error = failed(&format!("exit_{code}"), said(&format!("exit code {code}"), &exited.tail));
                self.retry(held, error, code == DEAD).await
            }
            None => {
                let error = failed("killed", said(&exited.status.to_string(), &exited.tail));
                self.retry(held, error, false).await
            }
        }
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

    async fn complete(&self, held: Held, result: Option<Payload>) -> Fate {
        let items = vec![Completion { id: held.id.clone(), permit: held.permit, result }];
        let request = CompleteRequest { queue: self.queue.clone(), request_timeout: None, items };
        let reply = self.client.call(&request).await;
        self.told(&held, reply.map(|reply| (reply.failed, Fate::Completed)))
    }

    async fn retry(&self, held: Held, error: ItemError, dead: bool) -> Fate {
        self.out.talk(&format!("{}: {}", held.id, error.message.lines().next().unwrap_or_default()));
        let retry =
            Retry { id: held.id.clone(), permit: held.permit, retry_at: None, dead, error: Some(error) };
        let reply = self.client.call(&RetryRequest { queue: self.queue.clone(), items: vec![retry] }).await;
        self.told(
            &held,
            reply.map(|reply| (reply.failed, if reply.dead > 0 { Fate::Dead } else { Fate::Retried })),
        )
    }

    async fn release(&self, held: Held) -> Fate {
        let items = vec![held.clone()];
        let reply = self.client.call(&ReleaseRequest { queue: self.queue.clone(), items }).await;
        self.told(&held, reply.map(|reply| (reply.failed, Fate::Released)))
    }

    fn told(&self, held: &Held, reply: Result<(Vec<Failed>, Fate), ClientError>) -> Fate {
        let lost = match reply {
            Ok((failed, fate)) => match failed.first() {
                None => return fate,
                Some(failed) => format!("{} ({})", failed.message, failed.code),
            },
            Err(error) => format!("{}. It will be tried again when its lease ends", Failure::from(error)),
        };
        self.out.talk(&format!("{}: how it ended could not be told: {lost}", held.id));
        Fate::Lost
    }
}

fn failed(code: &str, message: String) -> ItemError {
    ItemError { code: Some(code.to_owned()), message }
}

fn said(how: &str, tail: &str) -> String {
    if tail.is_empty() { how.to_owned() } else { format!("{how}: {tail}") }
}
