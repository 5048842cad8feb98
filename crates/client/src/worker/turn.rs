//! A worker's turn: what became of items is told by the call that takes the next ones, so that both are one commit.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass_api::error::Failed;
use windlass_api::events::Suspend;
use windlass_api::items::{Completion, Held, NextReply, NextRequest, Retry};

use super::event::Fate;
use super::failure::Failure;
use super::report::{Heard, Word, of_the_moment};

/// Tellings on their way to the crew; a task whose telling finds no room waits.
const TELLINGS_MAX: usize = 1024;
/// The most that one turn tells.
const WORDS_MAX: usize = 1000;
/// A turn takes no further words once their results have come to so many bytes. A larger result is told by itself.
const WORDS_BYTES_MAX: usize = 256 << 10;
/// How long a word waits for the turn before it to be answered. After that it is told by itself: it may be of a partition that
/// serves, and the turn of one that does not.
pub(super) const WAIT_FOR_TURN_MAX: Duration = Duration::from_secs(1);

/// What is to be told of one item.
#[derive(Debug)]
pub(super) struct Telling {
    held: Held,
    word: Word,
    /// The number of the item's slot, which is free once the server has heard.
    pub(super) slot: u64,
    told: oneshot::Sender<Told>,
}

/// What became of a [`Telling`].
#[derive(Debug)]
pub(super) enum Told {
    Heard(Heard),
    /// The turn failed, and another attempt may succeed.
    Failed {
        may_be_heard: bool,
    },
    /// It is to be told by a call of its own.
    ByItself,
}

/// The way of tellings to the crew.
#[derive(Debug)]
pub(super) struct Desk(mpsc::Sender<Telling>);

impl Desk {
    pub(super) fn new() -> (Self, mpsc::Receiver<Telling>) {
        let (sender, tellings) = mpsc::channel(TELLINGS_MAX);
        (Self(sender), tellings)
    }

    pub(super) async fn tell(&self, held: &Held, word: &Word, slot: u64) -> Told {
        let (told, answer) = oneshot::channel();
        let telling = Telling { held: held.clone(), word: word.clone(), slot, told };
        if telling.bytes() > WORDS_BYTES_MAX || self.0.send(telling).await.is_err() {
            return Told::ByItself;
        }
        // Dropped without an answer by a crew that has ended.
        answer.await.unwrap_or(Told::ByItself)
    }
}

impl Telling {
    /// Whether nobody waits for the answer any more: its lease is over, or the worker stops.
    pub(super) fn is_gone(&self) -> bool {
        self.told.is_closed()
    }

    pub(super) fn id(&self) -> &str {
        &self.held.id
    }

    pub(super) fn answer(self, told: Told) {
        let _nobody_waits = self.told.send(told);
    }

    fn bytes(&self) -> usize {
        match &self.word {
            Word::Complete(result) => result.as_ref().map_or(0, |result| result.as_bytes().len()),
            Word::Retry(_) | Word::Suspend(_) | Word::Release => 0,
        }
    }

    /// Whether only the reply tells if the item has failed for good. The reply counts, so that a turn takes one of them.
    fn may_be_the_end(&self) -> bool {
        matches!(&self.word, Word::Retry(failure) if !failure.dead)
    }

    fn is_the_end(&self) -> bool {
        matches!(&self.word, Word::Retry(failure) if failure.dead)
    }

    fn add_to(&self, request: &mut NextRequest) {
        let (id, permit) = (self.held.id.clone(), self.held.permit);
        match self.word.clone() {
            Word::Complete(result) => request.complete.push(Completion { id, permit, result }),
            Word::Retry(failure) => request.retry.push(retry(self.held.clone(), failure)),
            Word::Suspend(reason) => request.suspend.push(Suspend { id, permit, reason: Some(reason) }),
            Word::Release => request.release.push(self.held.clone()),
        }
    }
}

/// A failed attempt as a call tells it.
pub(super) fn retry(held: Held, failure: Failure) -> Retry {
    let Failure { error, dead, retry_at, delay, suspend: _ } = failure;
    Retry { id: held.id, permit: held.permit, retry_at, delay, dead, error: Some(error) }
}

/// Takes out what one turn tells, in the order in which it came.
pub(super) fn words_of_turn(words: &mut Vec<Telling>) -> Vec<Telling> {
    let (mut count, mut bytes, mut unclear) = (0, 0, false);
    let fits = |telling: &mut Telling| {
        let another_unclear = unclear && telling.may_be_the_end();
        if count >= WORDS_MAX || bytes + telling.bytes() > WORDS_BYTES_MAX || another_unclear {
            return false;
        }
        (count, bytes) = (count + 1, bytes + telling.bytes());
        unclear |= telling.may_be_the_end();
        true
    };
    words.extract_if(.., fits).collect()
}

/// The lists of a request that tells all of them.
pub(super) fn request_of(words: &[Telling]) -> NextRequest {
    let mut request = NextRequest::default();
    words.iter().for_each(|telling| telling.add_to(&mut request));
    request
}

/// Tells everybody what the server said. Calls `is_settled` with the slot of each item that is out of this worker's hands.
pub(super) fn answer_all(words: Vec<Telling>, reply: &NextReply, is_settled: impl Fn(u64)) {
    let refusal = |telling: &Telling| {
        let is_its = |failed: &&Failed| failed.id == telling.held.id && failed.permit == telling.held.permit;
        reply.failed.iter().find(is_its).cloned()
    };
    let surely_dead =
        words.iter().filter(|telling| telling.is_the_end() && refusal(telling).is_none()).count();
    let unclear_is_dead = reply.dead > surely_dead as u64;
    for telling in words {
        let heard = match refusal(&telling) {
            Some(refusal) => Heard::Refused(Box::new(refusal)),
            None if telling.may_be_the_end() && unclear_is_dead => Heard::Yes(Fate::Dead),
            None => Heard::Yes(telling.word.fate()),
        };
        if !matches!(&heard, Heard::Refused(refusal) if of_the_moment(refusal)) {
            is_settled(telling.slot);
        }
        telling.answer(Told::Heard(heard));
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::Code;
    use windlass_api::payload::Payload;

    use super::*;

    fn telling(id: &str, word: Word) -> (Telling, oneshot::Receiver<Told>) {
        let (told, answer) = oneshot::channel();
        (Telling { held: Held { id: id.to_owned(), permit: 1 }, word, slot: 7, told }, answer)
    }

    fn complete(bytes: usize) -> Word {
        Word::Complete(Some(Payload::from_utf8("x".repeat(bytes))))
    }

    fn ids(words: &[Telling]) -> Vec<&str> {
        words.iter().map(Telling::id).collect()
    }

    #[test]
    fn a_turn_takes_as_many_words_as_fit_and_leaves_the_others_in_their_order() {
        let large = WORDS_BYTES_MAX / 2 + 1;
        let mut words: Vec<Telling> = [
            ("a", complete(large)),
            ("b", Word::Retry(Failure::new("first"))),
            ("c", complete(large)),
            ("d", Word::Retry(Failure::new("second"))),
            ("e", Word::Retry(Failure::new("third").dead())),
            ("f", Word::Release),
        ]
        .into_iter()
        .map(|(id, word)| telling(id, word).0)
        .collect();
        assert_eq!(ids(&words_of_turn(&mut words)), ["a", "b", "e", "f"]);
        assert_eq!(ids(&words_of_turn(&mut words)), ["c", "d"]);
        let mut many: Vec<Telling> = (0..1500).map(|_| telling("x", Word::Release).0).collect();
        assert_eq!((words_of_turn(&mut many).len(), many.len()), (WORDS_MAX, 500));
    }

    #[test]
    fn everybody_is_told_what_the_server_said_of_their_item() {
        let settled = std::cell::RefCell::new(0);
        let refused = |id: &str, code: Code| Failed {
            id: id.to_owned(),
            permit: 1,
            code: code.as_str().to_owned(),
            ..Failed::default()
        };
        let reply = NextReply {
            dead: 2,
            failed: vec![refused("lost", Code::LeaseLost), refused("later", Code::Unavailable)],
            ..NextReply::default()
        };
        let words = [
            ("done", Word::Complete(None)),
            ("lost", Word::Complete(None)),
            ("later", Word::Release),
            ("dead", Word::Retry(Failure::new("no").dead())),
            ("last", Word::Retry(Failure::new("no"))),
        ];
        let (words, mut answers): (Vec<_>, Vec<_>) =
            words.into_iter().map(|(id, word)| telling(id, word)).unzip();
        answer_all(words, &reply, |_| *settled.borrow_mut() += 1);
        let told: Vec<Told> = answers.iter_mut().map(|answer| answer.try_recv().unwrap()).collect();
        let fate = |told: &Told| if let Told::Heard(Heard::Yes(fate)) = told { Some(*fate) } else { None };
        let fates: Vec<_> = told.iter().map(fate).collect();
        assert_eq!(fates, [Some(Fate::Completed), None, None, Some(Fate::Dead), Some(Fate::Dead)]);
        assert_eq!(*settled.borrow(), 4, "all but the one that is to be told again");
    }
}
