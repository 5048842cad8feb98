//! The stream of an item, for whoever watches it.

mod feed;
mod sse;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use windlass_api::events::{EndFrame, EventFrame, GapFrame, StateFrame};
use windlass_api::items::Item;

use self::feed::Feed;
use crate::client::Client;
use crate::error::ClientError;

/// What a stream tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The item when the subscription began, and the number of its last event then: first, unless it was said where to begin.
    Snapshot {
        item: Box<Item>,
        last_seq: u64,
    },
    Event(EventFrame),
    /// The item is in another state. States that changed while there was no connection are not told, but for the final one.
    State(StateFrame),
    /// These events are not kept any more.
    Gap(GapFrame),
    /// The item has ended: the last frame.
    End(EndFrame),
}

/// The stream of an item, made by [`Client::events`].
///
/// It reconnects by itself and goes on after the last event that it gave, also when the server ended the subscription: no event
/// comes twice, and none is left out. It ends after [`Frame::End`], or after an error that will not pass
/// ([`ClientError::may_pass`]), as when the server refuses.
///
/// A trouble of the moment is passed over for as long as the client's [`Retries`](crate::Retries) allow, and told from then on.
/// Whoever asks again after it goes on where the stream was, after a pause by the same `Retries`.
///
/// `not_found` after other frames is no mistake: while there was no connection the item has ended, and nothing of it is kept.
pub struct Events {
    client: Client,
    subscription: Subscription,
    state: State,
}

/// What a subscription asks for.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    /// Only events after this number are wanted.
    pub(crate) after: Option<u64>,
    /// Whether to subscribe to the latest item along `moved_to`.
    pub(crate) follow: bool,
}

type Told = Option<Result<Frame, ClientError>>;
type Telling = Pin<Box<dyn Future<Output = (Told, Box<Feed>)> + Send>>;

enum State {
    Idle(Box<Feed>),
    /// The next frame is waited for.
    Busy(Telling),
    Over,
}

impl Client {
    /// Watches an item: as it is now, and then what comes. Nothing is sent before the first frame is asked for.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> Result<(), windlass_client::ClientError> {
    /// use windlass_client::Frame;
    ///
    /// let mut events = client.events("00000000-0000-8080-8000-000000000001").after(0);
    /// while let Some(frame) = events.next().await {
    ///     if let Frame::Event(event) = frame? {
    ///         println!("{} {}", event.seq, event.r#type);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, id: impl Into<String>) -> Events {
        Events::new(self.clone(), Subscription { id: id.into(), after: None, follow: false })
    }
}

impl Events {
    fn new(client: Client, subscription: Subscription) -> Self {
        let feed = Feed::new(client.clone(), subscription.clone());
        Self { client, subscription, state: State::Idle(Box::new(feed)) }
    }

    /// Begins after that event instead of now; with 0 it is the whole stream.
    pub fn after(self, seq: u64) -> Self {
        let subscription = Subscription { after: Some(seq), ..self.subscription };
        Self::new(self.client, subscription)
    }

    /// Watches the latest item of the chain along `moved_to` instead, as it is when the stream begins, and stays with it. Refused
    /// beside [`Events::after`] if the item was moved: the numbers are those of its own events.
    #[must_use]
    pub fn follow(self) -> Self {
        let subscription = Subscription { follow: true, ..self.subscription };
        Self::new(self.client, subscription)
    }

    /// The next frame; none when it is over. May be dropped and asked again.
    pub async fn next(&mut self) -> Option<Result<Frame, ClientError>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Result<Frame, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Idle(mut feed) => {
                    self.state = State::Busy(Box::pin(async move { (feed.next().await, feed) }));
                }
                State::Busy(mut telling) => {
                    let polled = telling.as_mut().poll(context);
                    if polled.is_pending() {
                        self.state = State::Busy(telling);
                    }
                    let (told, feed) = ready!(polled);
                    if told.is_some() {
                        self.state = State::Idle(feed);
                    }
                    return Poll::Ready(told);
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}
