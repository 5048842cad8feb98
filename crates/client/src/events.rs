//! The events of items, and items that wait for an answer.

use serde::Serialize;
use windlass_api::events::{
    CloseStreamsRequest, EmitReply, EmitRequest, NewEvent, ResumeItemRequest, Suspend, SuspendReply,
    SuspendRequest,
};
use windlass_api::payload::Payload;

use crate::client::Client;
use crate::error::ClientError;
use crate::payload::PayloadError;
use crate::queue::QueueClient;

/// How subscriptions are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseMode {
    /// What was emitted before is still delivered.
    Graceful,
    /// Nothing more is delivered.
    Immediate,
}

/// An event to emit, its payload the JSON of `value`.
pub fn new_event(r#type: impl Into<String>, value: &impl Serialize) -> Result<NewEvent, PayloadError> {
    let json = serde_json::to_string(value).map_err(PayloadError::NotWritten)?;
    Ok(NewEvent { json: Some(json), r#type: Some(r#type.into()), ..NewEvent::default() })
}

impl Client {
    /// Appends events to the stream of a leased item: once this returns they are durable.
    ///
    /// With `after`, the number of the last event, it is safe to send it again: if the first one was carried out, the second is
    /// refused with `wrong_state`, and `last_seq` in its details is that of the first.
    pub async fn emit(&self, request: EmitRequest) -> Result<EmitReply, ClientError> {
        self.call(&request).await
    }

    /// Ends the subscriptions that an item has, and tells how many. One can subscribe again, and [`Client::events`] does.
    pub async fn close_streams(&self, id: impl Into<String>, mode: CloseMode) -> Result<u64, ClientError> {
        let mode = match mode {
            CloseMode::Graceful => "graceful",
            CloseMode::Immediate => "immediate",
        };
        Ok(self
            .call(&CloseStreamsRequest { id: Some(id.into()), mode: mode.to_owned(), ..Default::default() })
            .await?
            .closed)
    }

    /// Answers a suspended item: it waits again at its own place, and its next lease carries the answer as `input`.
    pub async fn resume_item(
        &self,
        id: impl Into<String>,
        answer: Option<Payload>,
    ) -> Result<(), ClientError> {
        let Payload { json, utf8, bytes } = answer.unwrap_or_default();
        let request = ResumeItemRequest { json, utf8, bytes, id: Some(id.into()), ..Default::default() };
        self.call(&request).await.map(drop)
    }
}

impl QueueClient {
    /// Gives leased items up until somebody answers, their attempts not counted.
    pub async fn suspend(
        &self,
        items: impl IntoIterator<Item = Suspend>,
    ) -> Result<SuspendReply, ClientError> {
        let items = items.into_iter().collect();
        self.client.call(&SuspendRequest { queue: self.queue.clone(), items }).await
    }
}
