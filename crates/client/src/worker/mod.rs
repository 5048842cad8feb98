//! The worker runtime: leases items, runs a handler for each, keeps the permits, and tells what became of them.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use windlass_client::Client;
//! use windlass_client::worker::{Failure, Work, Worker};
//!
//! #[derive(Deserialize)]
//! struct Page {
//!     url: String,
//! }
//!
//! #[derive(Serialize)]
//! struct Fetched {
//!     bytes: usize,
//! }
//!
//! async fn fetch(work: Work<Page>) -> Result<Fetched, Failure> {
//!     tokio::select! {
//!         body = download(&work.payload.url) => Ok(Fetched { bytes: body?.len() }),
//!         // The permit is lost, somebody cancels the item, or the worker stops.
//!         reason = work.cancellation().cancelled() => Err(Failure::new(format!("{reason:?}"))),
//!     }
//! }
//! # async fn download(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("http://127.0.0.1:9463")?;
//! let worker = Worker::builder(client, "pages")
//!     .handle("fetch", fetch)
//!     .handle("greet", |work: Work<String>| async move { Ok::<_, Failure>(format!("hello, {}", work.payload)) })
//!     // Ten at a time; what is less urgent than priority 0 leaves five of them free.
//!     .concurrency_by_priority([(0, 10), (1, 5)])
//!     .limit("fetch", 3)
//!     .build()?;
//! # let worker: Worker = worker;
//! let stopper = worker.stopper();
//! let running = tokio::spawn(worker.run());
//! // … and when the process is asked to end:
//! stopper.stop();
//! running.await??;
//! # Ok(())
//! # }
//! ```
//!
//! How a handler ends decides:
//!
//! - `Ok(result)` completes the item. The result is kept as JSON; `()` and `None` are no result.
//! - `Err(failure)` tries it again when the queue's policy says, or as the [`Failure`] says. A panic is caught and does
//!   the same, with the code `panicked`.
//! - A payload that is not what the handler takes fails the item for good, with the code `bad_payload`: no other attempt
//!   would read it better.
//! - `Err(work.suspend(reason))` gives it up until somebody answers; its next lease has the answer ([`Work::input`]).
//! - A handler that was cancelled ([`Work::cancellation`]) and returns an error gives the item back, uncharged.
//!
//! While it runs, a handler can say how it goes to whoever watches the item: [`Work::progress`], [`Work::emit`].
//!
//! Handlers run as tasks of the runtime that [`Worker::run`] is polled on. One that computes for long, or blocks, must do
//! so elsewhere (`tokio::task::spawn_blocking`), or it keeps the others and the heartbeat waiting.
//!
//! In the code, read `limits` first (what may start), then `crew` (the loop), `turn` (what is told with a lease), `attend`
//! (one item) and `heart`.

mod attend;
mod builder;
mod cancellation;
mod crew;
mod emit;
mod event;
mod failure;
mod handler;
mod heart;
mod limits;
mod report;
mod slots;
mod turn;
mod work;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

pub use self::builder::{BuildError, Builder};
pub use self::cancellation::{Cancellation, Reason};
pub use self::emit::EmitError;
pub use self::event::{Event, Fate, NotTold};
pub use self::failure::Failure;
pub use self::work::Work;

use self::attend::Station;
use self::crew::{Crew, State};
use self::event::Observer;
use self::handler::Handlers;
use self::heart::Heart;
use self::limits::Limits;
use self::slots::Slots;
use self::turn::Desk;
use crate::client::Client;
use crate::error::ClientError;
use crate::queue::{Lease, QueueClient};
use crate::retries::{Retries, asked_pause, may_pass_some_day};

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Never: somebody stops it.
    #[default]
    Stopped,
    /// When nothing waits any more.
    Drained,
    /// After one item.
    Once,
}

/// Runs handlers for the items of one queue.
#[derive(Debug)]
pub struct Worker {
    queue: QueueClient,
    handlers: Handlers,
    limits: Limits,
    lease: Lease,
    until: Until,
    grace: Duration,
    abort_after: Duration,
    observer: Observer,
    stop: Arc<watch::Sender<Stop>>,
}

/// How a worker was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    Gracefully,
    Now,
}

/// Stops a worker, from anywhere.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<watch::Sender<Stop>>);

impl Stopper {
    /// No more items are taken. What runs has the grace to end; after that it is cancelled and given back, uncharged.
    pub fn stop(&self) {
        self.at_least(Stop::Gracefully);
    }

    /// Like [`Stopper::stop`], without grace.
    pub fn stop_now(&self) {
        self.at_least(Stop::Now);
    }

    fn at_least(&self, stop: Stop) {
        self.0.send_if_modified(|asked| {
            let more = stop > *asked;
            *asked = stop.max(*asked);
            more
        });
    }
}

impl Worker {
    /// A worker for a queue. It needs a handler: [`Builder::handle`].
    pub fn builder(client: Client, queue: impl Into<String>) -> Builder {
        Builder::new(client.queue(queue))
    }

    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Works until it is stopped, and returns when nothing runs any more. A server that is away is waited for; it fails
    /// if the server refuses to lease, as for a queue that is not there.
    ///
    /// Dropped, it drops its handlers, and their items come back when their leases end.
    pub async fn run(self) -> Result<(), ClientError> {
        let mut stop = self.stop.subscribe();
        let lease_timeout = tokio::select! {
            lease_timeout = self.lease_timeout() => lease_timeout?,
            _ = stop.wait_for(|stop| *stop != Stop::No) => return Ok(()),
        };
        let heart = Heart::new(self.queue.clone(), lease_timeout, self.observer.clone());
        // Whoever asked it to stop may have done so before.
        stop.mark_changed();
        let (desk, tellings) = Desk::new();
        let station = Station {
            queue: self.queue,
            desk,
            heart: Arc::clone(&heart),
            observer: self.observer,
            abort_after: self.abort_after,
        };
        let crew = Crew {
            station: Arc::new(station),
            handlers: self.handlers,
            slots: Slots::new(self.limits),
            lease: Lease { lease_timeout: Some(lease_timeout), ..self.lease },
            until: self.until,
            grace: self.grace,
            stop,
            tellings,
            state: State::default(),
        };
        tokio::select! {
            ended = crew.run() => ended,
            () = heart.beat() => unreachable!("a heart beats for as long as it is polled"),
        }
    }

    /// The queue's, unless there is another: what is extended in time must be known.
    async fn lease_timeout(&self) -> Result<Duration, ClientError> {
        if let Some(lease_timeout) = self.lease.lease_timeout {
            return Ok(lease_timeout);
        }
        let mut times = 0;
        loop {
            let error = match self.queue.info().await {
                Ok(queue) => return Ok(queue.lease_timeout.into()),
                Err(error) => error,
            };
            if self.until != Until::Stopped || !may_pass_some_day(&error) {
                return Err(error);
            }
            times += 1;
            let pause =
                Retries::default().backoff(times, fastrand::f64()).saturating_add(asked_pause(&error));
            self.observer.tell(Event::LeaseFailed { error: &error, pause });
            sleep(pause).await;
        }
    }
}
