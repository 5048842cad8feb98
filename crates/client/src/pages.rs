//! Replies that go on: each page tells where the next one begins.

use windlass_api::Call;
use windlass_api::items::{ChangeItemsRequest, FindItemsRequest};

use crate::client::Client;
use crate::error::ClientError;

/// A call whose reply may have a `pivot`, after which the same call goes on.
pub trait Paged: Call {
    /// The pivot to go on with; none at the end.
    fn pivot_of(reply: &Self::Reply) -> Option<String>;

    /// The same request, going on after `pivot`.
    #[must_use]
    fn after(self, pivot: String) -> Self;
}

/// The pages of a call, made by [`QueueClient::find`](crate::QueueClient::find) and
/// [`QueueClient::change`](crate::QueueClient::change).
///
/// A page may be short, or empty, and not the last: the server looks at a bounded number of items for each.
#[derive(Clone, Debug)]
pub struct Pages<C> {
    client: Client,
    /// None at the end.
    next: Option<C>,
}

impl<C: Paged> Pages<C> {
    pub(crate) fn new(client: Client, request: C) -> Self {
        Self { client, next: Some(request) }
    }

    /// The next page; none after the last. A page that failed can be asked for again, and so can one whose answer was not
    /// waited for.
    ///
    /// With `partial`, the page after which only partitions in `missing` are left is the last. Its `pivot` is set: a request
    /// with it goes on once they serve.
    pub async fn next(&mut self) -> Option<Result<C::Reply, ClientError>> {
        let request = self.next.as_ref()?;
        let reply = match self.client.call(request).await {
            Ok(reply) => reply,
            Err(error) => return Some(Err(error)),
        };
        self.next = match (self.next.take(), C::pivot_of(&reply)) {
            (Some(request), Some(pivot)) => Some(request.after(pivot)),
            (Some(_) | None, _) => None,
        };
        Some(Ok(reply))
    }
}

impl Paged for FindItemsRequest {
    /// A `partial` reply has a pivot for as long as a partition is missing. One for which no item was looked at is the last:
    /// the partitions that serve are at their ends.
    fn pivot_of(reply: &Self::Reply) -> Option<String> {
        let only_missing = reply.scanned == 0 && reply.items.is_empty() && !reply.missing.is_empty();
        reply.pivot.clone().filter(|_| !only_missing)
    }

    fn after(self, pivot: String) -> Self {
        Self { pivot: Some(pivot), ..self }
    }
}

impl Paged for ChangeItemsRequest {
    fn pivot_of(reply: &Self::Reply) -> Option<String> {
        reply.pivot.clone()
    }

    fn after(self, pivot: String) -> Self {
        Self { pivot: Some(pivot), ..self }
    }
}
