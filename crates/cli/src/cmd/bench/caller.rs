//! [`Caller`]: produces, leases and completes, over HTTP or on the engine itself.

use std::sync::Arc;

use bytes::Bytes;
use windlass_api::Span;
use windlass_api::items::{CompleteRequest, Completion, Held, LeaseRequest, NewItem, ProduceRequest};
use windlass_client::Client;
use windlass_core::row::QueueName;
use windlass_core::time;
use windlass_core::verbs;
use windlass_core::verbs::{Filter, LeaseItems};
use windlass_engine::{Engine, Granted};

use super::Load;
use super::bed::engine_failed;
use crate::exit::Failure;

/// In a cycle there is always something to be had soon.
const WAIT_SECONDS: u64 = 30;

#[derive(Clone, Debug)]
pub(super) enum Caller {
    Http(Arc<HttpCaller>),
    Engine(Arc<EngineCaller>),
}

/// A batch that was leased.
#[derive(Debug)]
pub(super) enum Taken {
    Http(Vec<Held>),
    Engine(Vec<verbs::Held>),
}

#[derive(Debug)]
pub(super) struct HttpCaller {
    client: Client,
    produce: ProduceRequest,
    lease: LeaseRequest,
}

#[derive(Debug)]
pub(super) struct EngineCaller {
    engine: Engine,
    queue: QueueName,
    items: Vec<verbs::NewItem>,
    lease: LeaseItems,
}

impl Caller {
    pub(super) async fn produce(&self) -> Result<u64, Failure> {
        match self {
            Self::Http(caller) => {
                caller.client.call(&caller.produce).await?;
                Ok(caller.produce.items.len() as u64)
            }
            Self::Engine(caller) => {
                let produced = caller.engine.produce(&caller.queue, caller.items.clone()).await;
                Ok(produced.map_err(engine_failed)?.results.len() as u64)
            }
        }
    }

    /// Waits for something, or takes what there is.
    pub(super) async fn lease(&self, waits: bool) -> Result<Taken, Failure> {
        let wait = if waits { WAIT_SECONDS } else { 0 };
        match self {
            Self::Http(caller) => {
                let request_timeout = Some(Span::from_secs(wait));
                let request = LeaseRequest { request_timeout, ..caller.lease.clone() };
                let items = caller.client.call(&request).await?.items;
                Ok(Taken::Http(
                    items.into_iter().map(|item| Held { id: item.id, permit: item.permit }).collect(),
                ))
            }
            Self::Engine(caller) => {
                let wait = time::Span::from_secs(wait);
                let grant = caller.engine.lease(&caller.queue, caller.lease.clone(), wait).await;
                let items = grant.map_err(engine_failed)?.accept();
                Ok(Taken::Engine(items.iter().map(Granted::held).collect()))
            }
        }
    }

    pub(super) async fn complete(&self, taken: Taken) -> Result<u64, Failure> {
        match (self, taken) {
            (Self::Http(caller), Taken::Http(held)) => caller.complete(held).await,
            (Self::Engine(caller), Taken::Engine(held)) => {
                let completion = |held| verbs::Completion { held, result: None };
                let items = held.into_iter().map(completion).collect();
                let judged = caller.engine.complete(&caller.queue, items).await.map_err(engine_failed)?;
                let results: Result<Vec<()>, _> = judged.results.into_iter().collect();
                Ok(results.map_err(engine_failed)?.len() as u64)
            }
            (Self::Http(_), Taken::Engine(_)) | (Self::Engine(_), Taken::Http(_)) => {
                unreachable!("whoever leased a batch completes it")
            }
        }
    }
}

impl Taken {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Http(items) => items.len() as u64,
            Self::Engine(items) => items.len() as u64,
        }
    }
}

impl HttpCaller {
    pub(super) fn new(client: Client, queue: String, load: Load) -> Self {
        let item = NewItem { utf8: Some("x".repeat(load.payload)), ..NewItem::default() };
        let items = vec![item; load.batch];
        let produce = ProduceRequest { queue: queue.clone(), items, ..ProduceRequest::default() };
        let batch_size = u32::try_from(load.batch).expect("a batch has at most a thousand items");
        let lease = LeaseRequest { queue, client_id: "bench".into(), batch_size, ..LeaseRequest::default() };
        Self { client, produce, lease }
    }

    async fn complete(&self, held: Vec<Held>) -> Result<u64, Failure> {
        let completion = |held: Held| Completion { id: held.id, permit: held.permit, result: None };
        let items = held.into_iter().map(completion).collect();
        let request = CompleteRequest { queue: self.lease.queue.clone(), request_timeout: None, items };
        let reply = self.client.call(&request).await?;
        match reply.failed.first() {
            None => Ok(reply.completed),
            Some(failed) => Err(Failure::local(format!("a completion was refused: {}", failed.message))),
        }
    }
}

impl EngineCaller {
    pub(super) fn new(engine: Engine, queue: QueueName, load: Load) -> Self {
        let item = verbs::NewItem::plain("default", Bytes::from(vec![b'x'; load.payload]));
        let lease = LeaseItems {
            client_id: "bench".into(),
            batch_size: load.batch,
            lease_timeout: None,
            filter: Filter::ANY,
        };
        Self { engine, queue, items: vec![item; load.batch], lease }
    }
}
