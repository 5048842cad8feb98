//! Telling the server what became of an item: again and again, for as long as the lease lasts. To repeat it is harmless,
//! also when nobody knows whether the server has heard it already.

use std::time::Duration;

use tokio::time::sleep;
use windlass_api::Code;
use windlass_api::error::{Failed, UNKNOWN};
use windlass_api::events::Suspend;
use windlass_api::items::{Completion, Held};
use windlass_api::payload::Payload;

use super::attend::{Ending, Station};
use super::emit::Emitter;
use super::event::{Event, Fate, NotTold};
use super::failure::Failure;
use super::handler::Outcome;
use super::heart::KeptLease;
use super::turn::{Told, retry};
use crate::error::{self, ClientError};
use crate::retries::{Retries, may_pass_some_day};

/// How long it is tried when this worker is to end.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// How much of that the item's events may take.
const LAST_EVENTS: Duration = Duration::from_secs(1);
/// How long the end of an item waits for its events at most: a server may have no room for them and yet take the end, by which
/// it gets some.
const EVENTS_WAIT_MAX: Duration = Duration::from_secs(60);

/// What there is to tell.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Complete(Option<Payload>),
    Retry(Failure),
    /// With what it waits for.
    Suspend(String),
    Release,
}

/// What the server says to it.
#[derive(Debug)]
pub(super) enum Heard {
    Yes(Fate),
    Refused(Box<Failed>),
}

impl From<Outcome> for Word {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(result) => Self::Complete(result),
            Err(failure) if failure.suspend => Self::Suspend(failure.error.message),
            Err(failure) => Self::Retry(failure),
        }
    }
}

impl Word {
    /// What the item is, if the server has heard it.
    pub(super) fn fate(&self) -> Fate {
        match self {
            Self::Complete(_) => Fate::Completed,
            Self::Retry(Failure { dead: true, .. }) => Fate::Dead,
            Self::Retry(_) => Fate::Retried,
            Self::Suspend(_) => Fate::Suspended,
            Self::Release => Fate::Released,
        }
    }

    /// Whether a refusal only says that the server had heard it before.
    fn was_heard(&self, refusal: &Failed) -> bool {
        let ended_by = match self {
            Self::Complete(_) => "completed",
            Self::Retry(_) => "retried",
            Self::Suspend(_) => "suspended",
            Self::Release => "released",
        };
        let reason = refusal.details.as_ref().and_then(|details| details.reason.as_deref());
        // A completed item with nothing to show is forgotten at once.
        let forgotten = matches!(self, Self::Complete(_)) && refusal.code == Code::NotFound.as_str();
        reason == Some(ended_by) || forgotten
    }
}

impl Station {
    /// The item's events go before, if they can be sent in time: nothing can follow.
    pub(super) async fn tell(
        &self,
        lease: &mut KeptLease,
        word: Word,
        slot: u64,
        mut ending: Ending,
        emitter: Emitter,
    ) -> Fate {
        let held = lease.held.clone();
        let no_longer = self.patience_with_events(ending.clone());
        let why = tokio::select! {
            told = async { emitter.ended(no_longer).await; self.repeat(&held, word, slot).await } => match told {
                Ok(fate) => return fate,
                Err(why) => why,
            },
            () = lease.lapse() => NotTold::LeaseEnded,
            () = async { ending.begun().await; sleep(LAST_WORDS).await } => NotTold::Stopping,
        };
        self.observer.tell(Event::NotTold { id: &held.id, why: &why });
        Fate::Lost
    }

    async fn patience_with_events(&self, mut ending: Ending) {
        tokio::select! {
            () = sleep(self.heart.lease_timeout().min(EVENTS_WAIT_MAX)) => {}
            () = async { ending.begun().await; sleep(LAST_EVENTS).await } => {}
        }
    }

    async fn repeat(&self, held: &Held, mut word: Word, slot: u64) -> Result<Fate, NotTold> {
        let mut may_be_heard = false;
        let mut times = 0;
        loop {
            let said = match self.desk.tell(held, &word, slot).await {
                Told::Heard(heard) => Ok(heard),
                Told::ByItself => self.say(held, &word).await,
                Told::Failed { may_be_heard: perhaps } => {
                    may_be_heard |= perhaps;
                    pause(&mut times).await;
                    continue;
                }
            };
            match said {
                Ok(Heard::Yes(fate)) => return Ok(fate),
                Ok(Heard::Refused(refusal)) if may_be_heard && word.was_heard(&refusal) => {
                    return Ok(word.fate());
                }
                Ok(Heard::Refused(refusal)) if of_the_moment(&refusal) => {
                    let outcome = refusal.details.and_then(|details| details.outcome);
                    may_be_heard |= outcome.as_deref() == Some(UNKNOWN);
                }
                Ok(Heard::Refused(refusal)) => return Err(NotTold::Refused(refusal)),
                Err(error) if may_pass_some_day(&error) => {
                    may_be_heard |= error.outcome() == error::Outcome::Unknown;
                    self.observer.tell(Event::TellFailed { id: &held.id, error: &error });
                }
                // A result that the server does not take, such as one too large.
                Err(error @ ClientError::Refused { status: 400 | 413, .. })
                    if matches!(word, Word::Complete(_)) =>
                {
                    word = Word::Retry(Failure::from(error).code("bad_result"));
                    continue;
                }
                Err(error) => return Err(NotTold::Failed(error)),
            }
            pause(&mut times).await;
        }
    }

    /// Once, by a call of its own.
    async fn say(&self, held: &Held, word: &Word) -> Result<Heard, ClientError> {
        let (id, permit) = (held.id.clone(), held.permit);
        let (failed, fate) = match word.clone() {
            Word::Complete(result) => {
                let reply = self.queue.complete([Completion { id, permit, result }]).await?;
                (reply.failed, Fate::Completed)
            }
            Word::Retry(failure) => {
                let reply = self.queue.retry([retry(held.clone(), failure)]).await?;
                (reply.failed, if reply.dead > 0 { Fate::Dead } else { Fate::Retried })
            }
            Word::Suspend(reason) => {
                let reply = self.queue.suspend([Suspend { id, permit, reason: Some(reason) }]).await?;
                (reply.failed, Fate::Suspended)
            }
            Word::Release => (self.queue.release([held.clone()]).await?.failed, Fate::Released),
        };
        let refused = failed.into_iter().next();
        Ok(refused.map_or(Heard::Yes(fate), |refusal| Heard::Refused(Box::new(refusal))))
    }
}

/// Before the next time.
async fn pause(times: &mut u32) {
    *times += 1;
    sleep(Retries::default().backoff(*times, fastrand::f64())).await;
}

/// The item's partition could not do it just now.
pub(super) fn of_the_moment(refusal: &Failed) -> bool {
    let codes = [Code::Unavailable, Code::Timeout, Code::Overloaded, Code::Internal];
    codes.iter().any(|code| code.as_str() == refusal.code)
}
