//! A workbench: a server with a queue, a worker that runs, and handlers that the test holds up.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use windlass_client::api::Span;
use windlass_client::api::items::{Item, NewItem};
use windlass_client::api::payload::Payload;
use windlass_client::api::queues::{CreateQueueRequest, RetryPolicyChange};
use windlass_client::worker::{Builder, Event, Failure, Fate, Stopper, Work, Worker};
use windlass_client::{Client, ClientError, QueueClient, new_item};

use crate::real_server::RealServer;
use crate::world::within;

/// A server whose queue `work` has items to be worked on.
pub(crate) struct Bench {
    pub(crate) server: RealServer,
    pub(crate) client: Client,
    pub(crate) queue: QueueClient,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let server = RealServer::start().await;
        let client = server.client();
        let queue = client.queue("work");
        let settings = CreateQueueRequest {
            // A worker soon hears of a cancellation, and no test sees an item tried again.
            lease_timeout: Some(Span::from_millis(1500)),
            retry: Some(RetryPolicyChange { initial: Some(Span::from_secs(3600)), ..Default::default() }),
            ..CreateQueueRequest::default()
        };
        queue.create_with(settings).await.unwrap();
        Self { server, client, queue }
    }

    pub(crate) fn worker(&self) -> Builder {
        Worker::builder(self.client.clone(), "work")
    }

    pub(crate) async fn produce(&self, kind: &str, priority: u32) -> String {
        let item = NewItem { priority: Some(priority), ..new_item(&json!({"kind": kind})).unwrap() };
        self.produce_item(NewItem { kind: Some(kind.to_owned()), ..item }).await
    }

    pub(crate) async fn produce_item(&self, item: NewItem) -> String {
        let produced = self.queue.produce([item]).await.unwrap().remove(0);
        produced.id.unwrap()
    }

    pub(crate) async fn item(&self, id: &str) -> Item {
        self.client.item(id).await.unwrap()
    }
}

/// A worker that runs, and the fates that it reports.
pub(crate) struct Running {
    pub(crate) stopper: Stopper,
    ended: JoinHandle<Result<(), ClientError>>,
    fates: mpsc::UnboundedReceiver<(String, Fate)>,
}

impl Running {
    pub(crate) fn start(builder: Builder) -> Self {
        let (tell, fates) = mpsc::unbounded_channel();
        let worker = builder.observe(move |event| {
            if let Event::Ended { id, fate } = event {
                tell.send((id.to_owned(), fate)).unwrap();
            }
        });
        let worker = worker.build().unwrap();
        Self { stopper: worker.stopper(), ended: tokio::spawn(worker.run()), fates }
    }

    pub(crate) async fn fate(&mut self) -> (String, Fate) {
        within(self.fates.recv()).await.expect("it runs")
    }

    pub(crate) async fn stopped(self) {
        self.stopper.stop();
        within(self.ended).await.unwrap().unwrap();
    }
}

/// Handlers that report what they have begun, and go on when `go_on` has a permit.
#[derive(Clone)]
pub(crate) struct Gate {
    begun: mpsc::UnboundedSender<String>,
    pub(crate) go_on: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (begun, begins) = mpsc::unbounded_channel();
        (Self { begun, go_on: Arc::new(Semaphore::new(0)) }, begins)
    }

    pub(crate) async fn pass(self, work: Work<Payload>) -> Result<Option<Payload>, Failure> {
        self.begun.send(format!("{}{}", work.item().kind, work.item().priority)).unwrap();
        self.go_on.acquire().await?.forget();
        Ok(None)
    }

    pub(crate) fn on(&self, builder: Builder, kind: &str) -> Builder {
        let gate = self.clone();
        builder.handle_raw(kind, move |work| gate.clone().pass(work))
    }
}

pub(crate) async fn next(begins: &mut mpsc::UnboundedReceiver<String>) -> String {
    within(begins.recv()).await.unwrap()
}
