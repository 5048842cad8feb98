//! Waits for items of a partition whose commits do not come to an end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;
use windlass_api::items::WaitItemRequest;
use windlass_api::{Code, Span};
use windlass_core::id::ItemId;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::verbs::{CreateQueue, NewItem};
use windlass_engine::Engine;
use windlass_engine::env::{BoxFuture, TokioEnv};
use windlass_engine::store::double::Double;
use windlass_engine::store::memory::MemoryStore;
use windlass_engine::store::{Batch, CommitError, Store};

use super::context::Context;
use super::wire::Encoding;
use super::{App, HttpLimits, Opened, item};
use crate::config::{self, RawConfig};
use crate::listener::{ClientSide, Received, Traffic};

/// Length of a body that counts as large.
const BODY_BYTES: usize = 100 << 10;

#[derive(Debug, Default)]
struct StalledStore {
    inner: MemoryStore,
    /// `true` keeps every commit from coming to an end.
    stalled: watch::Sender<bool>,
    /// How many commits were begun.
    begun: watch::Sender<usize>,
}

impl Double for StalledStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move {
            self.begun.send_modify(|begun| *begun += 1);
            self.stalled.subscribe().wait_for(|stalled| !stalled).await.expect("the store is there");
            self.inner.commit(batch).await
        })
    }
}

struct Bed {
    app: Arc<App>,
    opened: Arc<Opened>,
    store: Arc<StalledStore>,
    queue: QueueName,
    id: ItemId,
}

/// A server with one item, at the address `here` of the queue `q`.
async fn bed() -> Bed {
    let store = Arc::<StalledStore>::default();
    let engine = Engine::open(Arc::new(TokioEnv::default()), Arc::clone(&store) as _).await.unwrap();
    let queue = QueueName { namespace: "default".into(), name: "q".into() };
    engine.create_queue(CreateQueue::new(queue.clone(), Settings::default(), 1)).await.unwrap();
    let item = NewItem { address: Some("here".into()), ..NewItem::plain("default", Bytes::new()) };
    let made = engine.produce(&queue, vec![item]).await.unwrap();
    let id = made.results[0].clone().unwrap().id;
    let config = config::load(RawConfig::default(), None, std::iter::empty()).unwrap();
    let limits = HttpLimits { waiting_max: 10, payload_bytes_max: 1 << 20 };
    let app = App::new(limits, config.gate, Arc::default());
    let opened = Opened { engine, logs: None, backup_dir: config.backup_dir, limits: config.limits };
    Bed { app, opened: Arc::new(opened), store, queue, id }
}

impl Bed {
    /// From now on the partition answers nothing: every answer waits for the commit before it.
    async fn stall(&self) {
        self.store.stalled.send_replace(true);
        let begun = *self.store.begun.borrow();
        let (engine, queue) = (self.opened.engine.clone(), self.queue.clone());
        tokio::spawn(
            async move { engine.produce(&queue, vec![NewItem::plain("default", Bytes::new())]).await },
        );
        self.store.begun.subscribe().wait_for(|now| *now > begun).await.unwrap();
    }

    fn context(&self, client: ClientSide) -> Context {
        let (app, opened) = (Arc::clone(&self.app), Arc::clone(&self.opened));
        Context { app, opened, encoding: Encoding::Json, client, body: None }
    }

    fn at_address(&self) -> WaitItemRequest {
        let (queue, address) = (Some("q".into()), Some("here".into()));
        ten_minutes(WaitItemRequest { queue, address, ..WaitItemRequest::default() })
    }
}

fn ten_minutes(request: WaitItemRequest) -> WaitItemRequest {
    WaitItemRequest { request_timeout: Some(Span::from_secs(600)), ..request }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closed_its_side_is_answered_before_its_wait_is_over() {
    let bed = bed().await;
    bed.stall().await;
    for request in [ten_minutes(WaitItemRequest::of(bed.id.to_string())), bed.at_address()] {
        let patient = item::wait(bed.context(ClientSide::default()), request.clone()).await;
        let closed = item::wait(bed.context(ClientSide::already_closed()), request).await;
        let told =
            [patient, closed].map(|answer| answer.err().map(|problem| (problem.code, problem.message)));
        let late = |after: &str| Some((Code::Timeout, format!("not done within {after}")));
        assert_eq!(told[1], late("30s"), "the item is asked for once more, as `item.get` would");
        assert_ne!(told[0], late("30s"));
    }
}

/// The partition may take long to tell the item as it is, and a body that needs the room must not wait for that.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_sent_home_lets_go_of_its_body_before_it_looks_again() {
    let bed = bed().await;
    bed.stall().await;
    let traffic = Arc::new(Traffic::new(BODY_BYTES, Duration::from_secs(1)));
    let body = Some(Received::of(&traffic, vec![b' '; BODY_BYTES]).await);
    let context = Context { body, ..bed.context(ClientSide::default()) };
    let mut waiting = pin!(item::wait(context, bed.at_address()));
    assert!(timeout(Duration::from_secs(5), waiting.as_mut()).await.is_err(), "the wait goes on");
    let other = Received::of(&traffic, vec![b' '; BODY_BYTES]);
    tokio::select! {
        _ = waiting.as_mut() => panic!("the partition does not answer"),
        other = other => assert_eq!(traffic.bytes_in_flight(), other.counted()),
    }
}
