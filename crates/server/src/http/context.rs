//! What a call has to work with, and what it comes to.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use windlass_api::Code;
use windlass_core::time::Span;
use windlass_engine::{Commit, Delivery, Engine, EngineError, Grant, Outcome};

use super::check::PayloadRule;
use super::error::Problem;
use super::wire::Encoding;
use super::{App, Opened, show};
use crate::listener::{ClientSide, Received};

/// What a call has to work with.
pub(super) struct Context {
    pub(super) app: Arc<App>,
    pub(super) opened: Arc<Opened>,
    pub(super) encoding: Encoding,
    pub(super) client: ClientSide,
    /// If it is large.
    pub(super) body: Option<Received>,
}

impl Context {
    pub(super) fn engine(&self) -> &Engine {
        &self.opened.engine
    }

    pub(super) fn payload_rule(&self) -> PayloadRule {
        PayloadRule { bytes_max: self.app.limits.payload_bytes_max, encoding: self.encoding }
    }

    /// A place among the requests that wait.
    pub(super) fn wait_in_line(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.app.waiting).try_acquire_owned();
        let max = self.app.limits.waiting_max;
        let full = |_| {
            Problem::new(Code::Overloaded, format!("too many requests wait: at most {max}. Try again later"))
        };
        place.map_err(full)
    }

    /// A wait for work or for the end of an item. `None` if it was ended before: the client has closed its side and may be
    /// gone, or others need the room of the request's body.
    pub(super) async fn unless_sent_home<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = wait => Some(done),
            () = self.client.closed() => None,
            () = self.body_evicted() => None,
        }
    }

    async fn body_evicted(&self) {
        match &self.body {
            Some(body) => {
                body.gives_way();
                body.evicted().await;
            }
            None => std::future::pending().await,
        }
    }

    /// A change that is not answered in time may still be made.
    pub(super) fn within<T>(
        &self,
        timeout: Span,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> impl Future<Output = Result<T, Problem>> {
        self.within_or(timeout, Outcome::Unknown, work)
    }

    /// The timeout counts from this call, not from the first poll.
    pub(super) fn within_or<T>(
        &self,
        timeout: Span,
        outcome: Outcome,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> impl Future<Output = Result<T, Problem>> {
        let late = self.app.deadlines.until(Instant::now() + Duration::from(timeout));
        // `work` is boxed: unboxed, it is part of the future of every async function up to the router (up to 8.6 KB), and those
        // futures are moved for each request.
        let work = Box::pin(work);
        async move {
            tokio::select! {
                biased;
                done = work => done.map_err(Problem::from),
                () = late => {
                    let message = format!("not done within {}", show::span(timeout));
                    Err(Problem { outcome: Some(outcome), ..Problem::new(Code::Timeout, message) })
                }
            }
        }
    }
}

/// A reply before it is encoded.
pub(super) struct Answer<R> {
    pub(super) reply: R,
    pub(super) commits: Vec<Commit>,
    /// To be accepted once the reply is delivered; given back otherwise.
    pub(super) grant: Option<Delivery>,
    /// What is answered if there is no room for the reply and the grant is given back. Unset: the call is refused then.
    pub(super) without_grant: Option<R>,
}

impl<R> Answer<R> {
    pub(super) fn read(reply: R) -> Self {
        Self::changed(reply, Vec::new())
    }

    pub(super) fn changed(reply: R, commits: Vec<Commit>) -> Self {
        Self { reply, commits, grant: None, without_grant: None }
    }

    /// The reply to a call that only leases.
    pub(super) fn granted(reply: R, grant: Grant) -> Self {
        let commits = grant.commits();
        Self { grant: Some(grant.into_delivery()), ..Self::changed(reply, commits) }
    }
}
