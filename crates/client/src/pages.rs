//! Replies that go on: each page tells where the next one begins.

use windlass_api::Call;
use windlass_api::items::{ChangeItemsRequest, FindItemsRequest};

use crate::client::Client;
use crate::error::ClientError;

/// A call whose reply may have a `pivot`, after which the same call goes on.
pub trait Paged: Call {
    /// The pivot of a reply; none at the end.
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

macro_rules! paged {
    ($($request:ident)+) => {
        $(impl Paged for $request {
            fn pivot_of(reply: &Self::Reply) -> Option<String> {
                reply.pivot.clone()
            }

            fn after(self, pivot: String) -> Self {
                Self { pivot: Some(pivot), ..self }
            }
        })+
    };
}

paged! { FindItemsRequest ChangeItemsRequest }
