//! How a handler says that an attempt failed.

use std::error::Error;
use std::time::{Duration, SystemTime};

use windlass_api::items::ItemError;
use windlass_api::{Span, Time};

use crate::payload::PayloadError;

/// What the server takes.
const CODE_CHARS_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 4096;
const REASON_BYTES_MAX: usize = 512;

/// A failed attempt. Unless it says otherwise, the item is tried again when the queue's policy says.
///
/// Every error becomes one by `?`: its message, and those of its sources, are the item's error.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub(super) error: ItemError,
    pub(super) dead: bool,
    pub(super) retry_at: Option<Time>,
    pub(super) delay: Option<Span>,
    /// It is no failure: the item waits for an answer.
    pub(super) suspend: bool,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        let message = fitting(message.into());
        let error = ItemError { code: None, message };
        Self { error, dead: false, retry_at: None, delay: None, suspend: false }
    }

    /// What was wrong.
    pub fn message(&self) -> &str {
        &self.error.message
    }

    /// A word that programs can rely on: 1 to 128 characters.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        let code: String = code.into();
        let code: String = code.chars().filter(|char| *char != '\0').take(CODE_CHARS_MAX).collect();
        self.error.code = Some(code).filter(|code| !code.is_empty());
        self
    }

    /// No other attempt would do better: the item fails for good.
    pub fn dead(self) -> Self {
        Self { dead: true, ..self }
    }

    /// When to try again; in the past it means at once.
    pub fn retry_at(self, at: SystemTime) -> Self {
        Self { retry_at: Some(at.into()), delay: None, ..self }
    }

    /// How long to wait before trying again, by the server's clock.
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { retry_at: None, delay: Some(delay.into()), ..self }
    }

    /// The item waits until somebody answers: the message says for what.
    pub(super) fn suspend(reason: impl Into<String>) -> Self {
        let mut failure = Self::new(reason);
        let message = &mut failure.error.message;
        message.truncate(message.floor_char_boundary(REASON_BYTES_MAX));
        Self { suspend: true, ..failure }
    }

    /// The producer's fault, and no attempt can mend it.
    pub(super) fn bad_payload(error: &PayloadError) -> Self {
        Self::new(error.to_string()).code("bad_payload").dead()
    }

    pub(super) fn bad_result(error: &PayloadError) -> Self {
        Self::new(format!("the result cannot be kept: {error}")).code("bad_result")
    }

    pub(super) fn panicked(message: &str) -> Self {
        Self::new(format!("the handler panicked: {message}")).code("panicked")
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self::new(message)
    }
}

/// As the server takes it: an error must not be lost because it is long, or says nothing.
fn fitting(message: String) -> String {
    if message.is_empty() {
        return "an error without a message".to_owned();
    }
    let mut message = message.replace('\0', "\u{fffd}");
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_says_nothing_is_told_all_the_same() {
        assert_eq!(Failure::new("").error.message, "an error without a message");
    }

    #[test]
    fn an_error_tells_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot render")]
        struct Outer(#[source] std::num::ParseIntError);

        let inner = "x".parse::<u8>().unwrap_err();
        let failure = Failure::from(Outer(inner));
        assert_eq!(failure.error.message, "cannot render: invalid digit found in string");
    }

    #[test]
    fn a_message_is_made_to_fit() {
        let failure = Failure::new(format!("\0{}", "é".repeat(5000))).code("x".repeat(500));
        assert!(failure.error.message.len() <= MESSAGE_BYTES_MAX && failure.error.message.len() > 4000);
        assert!(failure.error.message.starts_with("\u{fffd}é"));
        assert_eq!(failure.error.code.unwrap().len(), CODE_CHARS_MAX);
        assert_eq!(Failure::new("m").code("").error.code, None);
    }
}
