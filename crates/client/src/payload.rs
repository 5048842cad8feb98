//! Typed payloads, and what a worker says of an item it holds.

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_api::events::{EventFrame, Suspend};
use windlass_api::items::{Completion, Held, Item, ItemError, LeasedItem, NewItem, Retry};
use windlass_api::json;
use windlass_api::payload::Payload;

#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    #[error("the value cannot be written as JSON: {0}")]
    NotWritten(#[source] serde_json::Error),
    #[error("the payload does not have the shape asked for: {0}")]
    OtherShape(#[source] serde_json::Error),
    #[error("the payload is not JSON, it was sent as {sent_as}: read it with `payload_bytes()`")]
    NotJson { sent_as: &'static str },
    #[error("there is no payload: the queue does not keep it, or the call does not show it")]
    Missing,
}

/// An item to produce, its payload the JSON of `value`.
///
/// Set what else it should have: `NewItem { priority: Some(7), ..new_item(&value)? }`.
pub fn new_item(value: &impl Serialize) -> Result<NewItem, PayloadError> {
    let json = serde_json::to_string(value).map_err(PayloadError::NotWritten)?;
    Ok(NewItem { json: Some(json), ..NewItem::default() })
}

/// What carries a payload.
pub trait PayloadExt {
    /// A copy of the payload alone.
    fn to_payload(&self) -> Payload;

    /// The payload as its bytes, whichever field it came in; empty if there is none.
    fn payload_bytes(&self) -> &[u8];

    /// A JSON payload as a value.
    fn parse<T: DeserializeOwned>(&self) -> Result<T, PayloadError>;
}

macro_rules! carries_payload {
    ($($type:ty),+) => {
        $(impl PayloadExt for $type {
            fn to_payload(&self) -> Payload {
                let (json, utf8, bytes) = (self.json.clone(), self.utf8.clone(), self.bytes.clone());
                Payload { json, utf8, bytes }
            }

            fn payload_bytes(&self) -> &[u8] {
                let text = self.json.as_deref().or(self.utf8.as_deref());
                text.map(str::as_bytes).or(self.bytes.as_deref()).unwrap_or_default()
            }

            fn parse<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
                match (&self.json, &self.utf8, &self.bytes) {
                    (Some(text), _, _) => json::read(text).map_err(PayloadError::OtherShape),
                    (None, Some(_), _) => Err(PayloadError::NotJson { sent_as: "utf8" }),
                    (None, None, Some(_)) => Err(PayloadError::NotJson { sent_as: "bytes" }),
                    (None, None, None) => Err(PayloadError::Missing),
                }
            }
        })+
    };
}

carries_payload!(Payload, NewItem, LeasedItem, Item, EventFrame);

/// What a worker says of an item it holds.
pub trait LeasedItemExt {
    /// The item and the permit to it: for extend and release.
    fn held(&self) -> Held;

    /// It is done: for complete.
    fn done(&self) -> Completion;

    /// It is done, and this came out: for complete.
    fn done_with(&self, result: &impl Serialize) -> Result<Completion, PayloadError>;

    /// The attempt failed, and the queue's policy says when to try again: for retry.
    fn failed(&self, message: impl Into<String>) -> Retry;

    /// The attempt failed, and no other would do better: for retry.
    fn dead(&self, message: impl Into<String>) -> Retry;

    /// It cannot go on until somebody answers: for suspend.
    fn suspended(&self, reason: impl Into<String>) -> Suspend;
}

impl LeasedItemExt for LeasedItem {
    fn held(&self) -> Held {
        Held { id: self.id.clone(), permit: self.permit }
    }

    fn done(&self) -> Completion {
        Completion { id: self.id.clone(), permit: self.permit, result: None }
    }

    fn done_with(&self, result: &impl Serialize) -> Result<Completion, PayloadError> {
        let result = Payload::from_json(result).map_err(PayloadError::NotWritten)?;
        Ok(Completion { result: Some(result), ..self.done() })
    }

    fn failed(&self, message: impl Into<String>) -> Retry {
        let error = ItemError { code: None, message: message.into() };
        Retry { id: self.id.clone(), permit: self.permit, error: Some(error), ..Retry::default() }
    }

    fn dead(&self, message: impl Into<String>) -> Retry {
        Retry { dead: true, ..self.failed(message) }
    }

    fn suspended(&self, reason: impl Into<String>) -> Suspend {
        Suspend { id: self.id.clone(), permit: self.permit, reason: Some(reason.into()) }
    }
}
