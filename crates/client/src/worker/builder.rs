//! What a worker is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use windlass_api::payload::Payload;

use super::event::{Event, Observer};
use super::failure::Failure;
use super::handler::{Handler, Handlers};
use super::limits::Limits;
use super::work::Work;
use super::{Stop, Until, Worker};
use crate::queue::{Lease, QueueClient};

/// Settings of a worker; made by [`Worker::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    queue: QueueClient,
    handlers: Handlers,
    priorities: BTreeMap<u8, usize>,
    kind_limits: BTreeMap<String, usize>,
    lease: Lease,
    until: Until,
    grace: Duration,
    abort_after: Duration,
    observer: Observer,
}

/// Settings that would make no worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("there is no handler: add one with `handle`")]
    NoHandler,
    #[error("nothing could ever run: the limit is 0")]
    NoRoom,
    #[error("nothing of the kind `{kind}` could ever run: its limit is 0. Leave its handler out")]
    NoRoomForKind { kind: String },
    #[error("the kind `{kind}` has a limit but no handler")]
    LimitWithoutHandler { kind: String },
    #[error(
        "the kind `{kind}` has a limit, and there is a handler for all other kinds: the server cannot be asked for \
         all kinds but one. Name the kinds"
    )]
    LimitAmongOthers { kind: String },
}

impl Builder {
    pub(super) fn new(queue: QueueClient) -> Self {
        Self {
            queue,
            handlers: Handlers::default(),
            priorities: [(0, 1)].into(),
            kind_limits: BTreeMap::new(),
            lease: Lease::new(format!("worker-{}", std::process::id())),
            until: Until::default(),
            grace: Duration::from_secs(30),
            abort_after: Duration::from_secs(5),
            observer: Observer::default(),
        }
    }

    /// What to do with items of a kind. The payload must be JSON; the result is kept as JSON.
    pub fn handle<T, R, E, F>(
        mut self,
        kind: impl Into<String>,
        handler: impl Fn(Work<T>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned,
        R: Serialize,
        E: Into<Failure>,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        self.handlers.by_kind.insert(kind.into(), Handler::typed(handler));
        self
    }

    /// Like [`Builder::handle`], with payloads and results in whatever form they are.
    pub fn handle_raw<E, F>(
        mut self,
        kind: impl Into<String>,
        handler: impl Fn(Work<Payload>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Failure>,
        F: Future<Output = Result<Option<Payload>, E>> + Send + 'static,
    {
        self.handlers.by_kind.insert(kind.into(), Handler::raw(handler));
        self
    }

    /// What to do with items of any other kind. Without it they are not leased.
    pub fn handle_others<E, F>(mut self, handler: impl Fn(Work<Payload>) -> F + Send + Sync + 'static) -> Self
    where
        E: Into<Failure>,
        F: Future<Output = Result<Option<Payload>, E>> + Send + 'static,
    {
        self.handlers.others = Some(Handler::raw(handler));
        self
    }

    /// How many items run at a time: 1 if unset.
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.concurrency_by_priority([(0, concurrency)])
    }

    /// How many items may run at a time for one of a priority to start: with `[(0, 10), (1, 5)]` anything may start while
    /// less than five run, and from there to nine only priority 0. A priority that is not named has the limit of the
    /// nearest more urgent one that is; none has a higher limit than a more urgent one.
    pub fn concurrency_by_priority(self, limits: impl IntoIterator<Item = (u8, usize)>) -> Self {
        Self { priorities: limits.into_iter().collect(), ..self }
    }

    /// How many items of a kind run at a time, at least 1. While there are so many, no more of them are asked for.
    pub fn limit(mut self, kind: impl Into<String>, limit: usize) -> Self {
        self.kind_limits.insert(kind.into(), limit);
        self
    }

    /// Nothing less urgent is taken; inclusive.
    pub fn max_priority(mut self, max_priority: u8) -> Self {
        self.lease.max_priority = Some(max_priority);
        self
    }

    /// How long a lease lasts if it is not extended: the queue's setting if unset. It is extended at a third of it, and so
    /// is how soon a handler learns that its item is cancelled.
    pub fn lease_timeout(mut self, lease_timeout: Duration) -> Self {
        self.lease.lease_timeout = Some(lease_timeout);
        self
    }

    /// Who this is, shown to operators: by default made of the number of the process. 1 to 128 characters.
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.lease.client_id = client_id.into();
        self
    }

    /// When it ends by itself: never, if unset.
    pub fn until(self, until: Until) -> Self {
        Self { until, ..self }
    }

    /// How long handlers may go on when the worker is to stop, before they are cancelled: 30 s if unset.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long a cancelled handler may go on before it is dropped: 5 s if unset. It is not left past the end of its lease,
    /// and no longer than a second if the server says that the lease is lost. A handler whose lease cannot be extended is
    /// cancelled so long before the lease ends, at most a third of it.
    pub fn abort_after(self, abort_after: Duration) -> Self {
        Self { abort_after, ..self }
    }

    /// Tells what happens, as it happens. It must not block.
    pub fn observe(self, observe: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        Self { observer: Observer(Some(Arc::new(observe))), ..self }
    }

    pub fn build(self) -> Result<Worker, BuildError> {
        self.check()?;
        let (kinds, max_priority) = (self.handlers.kinds(), self.lease.max_priority);
        Ok(Worker {
            queue: self.queue,
            limits: Limits::new(&self.priorities, max_priority, kinds, self.kind_limits),
            handlers: self.handlers,
            lease: self.lease,
            until: self.until,
            grace: self.grace,
            abort_after: self.abort_after,
            observer: self.observer,
            stop: Arc::new(watch::Sender::new(Stop::No)),
        })
    }

    fn check(&self) -> Result<(), BuildError> {
        let Handlers { by_kind, others } = &self.handlers;
        if by_kind.is_empty() && others.is_none() {
            return Err(BuildError::NoHandler);
        }
        // A less urgent priority may well have none.
        if self.priorities.values().next().is_none_or(|limit| *limit == 0) {
            return Err(BuildError::NoRoom);
        }
        if let Some(kind) = self.kind_limits.keys().find(|kind| !by_kind.contains_key(*kind)) {
            return Err(BuildError::LimitWithoutHandler { kind: kind.clone() });
        }
        if let Some((kind, _)) = self.kind_limits.iter().find(|(_, limit)| **limit == 0) {
            return Err(BuildError::NoRoomForKind { kind: kind.clone() });
        }
        match (self.kind_limits.keys().next(), others) {
            (Some(kind), Some(_)) => Err(BuildError::LimitAmongOthers { kind: kind.clone() }),
            (Some(_) | None, _) => Ok(()),
        }
    }
}
