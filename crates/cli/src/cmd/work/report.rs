//! Telling the server what became of an item: again and again, for as long as the lease lasts. To repeat it is harmless,
//! also when nobody knows whether the server has heard it already.

use std::time::Duration;

use tokio::time::sleep;
use windlass_api::Code;
use windlass_api::error::Failed;
use windlass_api::items::{
    CompleteRequest, Completion, Held, ItemError, ReleaseRequest, Retry, RetryRequest,
};
use windlass_api::payload::Payload;
use windlass_client::{ClientError, Outcome};

use super::attend::Worker;
use super::crew::{Hurry, Hurrying};
use super::heart::Heart;
use super::tally::Fate;
use crate::exit::Failure;

/// What cannot be told is tried again after this: the client has been patient already.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it is tried when this worker is to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What there is to tell.
#[derive(Clone, Debug)]
pub(super) enum Word {
    Complete(Option<Payload>),
    Retry { error: ItemError, dead: bool },
    Release,
}

impl Word {
    /// What the item is, if the server has heard it.
    fn fate(&self) -> Fate {
        match self {
            Self::Complete(_) => Fate::Completed,
            Self::Retry { dead: true, .. } => Fate::Dead,
            Self::Retry { dead: false, .. } => Fate::Retried,
            Self::Release => Fate::Released,
        }
    }

    /// Whether a refusal only says that the server had heard it before.
    fn was_heard(&self, refusal: &Failed) -> bool {
        let ended_by = match self {
            Self::Complete(_) => "completed",
            Self::Retry { .. } => "retried",
            Self::Release => "released",
        };
        let reason = refusal.details.as_ref().and_then(|details| details.reason.as_deref());
        // A completed item with nothing to show is forgotten at once.
        let forgotten = matches!(self, Self::Complete(_)) && refusal.code == Code::NotFound.as_str();
        reason == Some(ended_by) || forgotten
    }
}

impl Worker {
    pub(super) async fn tell(&self, mut heart: Heart<'_>, word: Word, mut hurry: Hurrying) -> Fate {
        let held = heart.held.clone();
        let why = tokio::select! {
            told = self.repeat(&held, &word) => match told {
                Ok(fate) => return fate,
                Err(why) => why,
            },
            () = heart.lapse() => "its lease is over. It will be tried again".to_owned(),
            () = async { hurry.at_least(Hurry::End).await; sleep(LAST_WORDS).await } => {
                "this worker stops. It will be tried again when its lease ends".to_owned()
            }
        };
        self.out.talk(&format!("{}: how it ended could not be told: {why}", held.id));
        Fate::Lost
    }

    async fn repeat(&self, held: &Held, word: &Word) -> Result<Fate, String> {
        let mut may_be_heard = false;
        loop {
            let error = match self.say(held, word).await {
                Ok((None, fate)) => return Ok(fate),
                Ok((Some(refusal), _)) if may_be_heard && word.was_heard(&refusal) => return Ok(word.fate()),
                Ok((Some(refusal), _)) => return Err(format!("{} ({})", refusal.message, refusal.code)),
                Err(error) => error,
            };
            may_be_heard |= error.outcome() == Outcome::Unknown;
            let failure = Failure::from(error);
            if !failure.may_pass() {
                return Err(failure.to_string());
            }
            self.out.talk(&format!("{}: {failure}\ntelling it again until its lease ends", held.id));
            sleep(PAUSE).await;
        }
    }

    /// Once. A refusal, if there is one, or what the item is now.
    async fn say(&self, held: &Held, word: &Word) -> Result<(Option<Failed>, Fate), ClientError> {
        let (queue, id, permit) = (self.queue.clone(), held.id.clone(), held.permit);
        let (failed, fate) = match word.clone() {
            Word::Complete(result) => {
                let items = vec![Completion { id, permit, result }];
                let request = CompleteRequest { queue, request_timeout: None, items };
                (self.client.call(&request).await?.failed, Fate::Completed)
            }
            Word::Retry { error, dead } => {
                let items = vec![Retry { id, permit, retry_at: None, dead, error: Some(error) }];
                let reply = self.client.call(&RetryRequest { queue, items }).await?;
                (reply.failed, if reply.dead > 0 { Fate::Dead } else { Fate::Retried })
            }
            Word::Release => {
                let request = ReleaseRequest { queue, items: vec![held.clone()] };
                (self.client.call(&request).await?.failed, Fate::Released)
            }
        };
        Ok((failed.into_iter().next(), fate))
    }
}
