//! A worker that emits, followed by many and by nobody, in turns: what its calls take, and when its events arrive.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};
use windlass_api::events::{EmitRequest, NewEvent};
use windlass_api::items::{Held, LeaseRequest, NewItem, ProduceRequest};
use windlass_client::{Client, Frame};

use super::Load;
use super::bed::HttpBed;
use super::figures::{Latencies, Summary};
use crate::args::Encoding;
use crate::exit::Failure;

const QUEUE: &str = "watched";
const EVENTS_PER_SECOND: u64 = 1000;
const ROUNDS: u32 = 5;
/// The type of the event after which nobody follows any more.
const OVER: &str = "over";

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Watched {
    pub(super) subscribers: u16,
    /// What was reached of what was tried.
    pub(super) events_per_second: u64,
    /// What an emit took that nobody followed.
    pub(super) alone: Summary,
    pub(super) followed: Summary,
    /// Of the second to the first.
    pub(super) p99_ratio: f64,
    /// From the moment an emit was sent until a subscriber had an event of it.
    pub(super) delivery: Summary,
    pub(super) delivered: u64,
}

pub(super) async fn measure(
    bed: &HttpBed,
    encoding: Encoding,
    load: Load,
    subscribers: u16,
) -> Result<Watched, Failure> {
    bed.create(QUEUE).await?;
    let worker = Worker::new(bed, encoding, load).await?;
    let (mut alone, mut followed, mut delivery) = (Latencies::new(), Latencies::new(), Latencies::new());
    let mut took = Duration::ZERO;
    for _ in 0..ROUNDS {
        alone.add(&worker.emit_for(load.time() / ROUNDS, None).await?);
        let mut crowd = Crowd::gather(bed, &worker, subscribers).await?;
        let began = Instant::now();
        let over = NewEvent { r#type: Some(OVER.into()), ..worker.event() };
        followed.add(&worker.emit_for(load.time() / ROUNDS, Some(over)).await?);
        took += began.elapsed();
        delivery.add(&crowd.leave().await?);
    }
    bed.delete(QUEUE).await?;
    let (delivered, delivery) = (delivery.calls(), delivery.summary());
    let emitted = followed.calls() * load.batch as u64;
    let events_per_second = (emitted as f64 / took.as_secs_f64()).round() as u64;
    let (alone, followed) = (alone.summary(), followed.summary());
    let p99_ratio = followed.p99_us as f64 / alone.p99_us.max(1) as f64;
    Ok(Watched { subscribers, events_per_second, alone, followed, p99_ratio, delivery, delivered })
}

/// Holds an item, and emits as if it worked on it.
#[derive(Clone)]
struct Worker {
    url: String,
    encoding: Encoding,
    held: Held,
    began: Instant,
    batch: usize,
    payload: usize,
}

impl Worker {
    async fn new(bed: &HttpBed, encoding: Encoding, load: Load) -> Result<Self, Failure> {
        let (client, queue) = (bed.client(encoding)?, bed.queue(QUEUE));
        let item = NewItem { utf8: Some("watched".into()), ..NewItem::default() };
        let produce = ProduceRequest { queue: queue.clone(), items: vec![item], ..ProduceRequest::default() };
        client.call(&produce).await?;
        let lease =
            LeaseRequest { queue, client_id: "bench".into(), batch_size: 1, ..LeaseRequest::default() };
        let leased = client.call(&lease).await?.items.pop();
        let leased = leased.ok_or_else(|| Failure::local("somebody else took the item to be watched"))?;
        let held = Held { id: leased.id, permit: leased.permit };
        let (url, began) = (bed.url().to_owned(), Instant::now());
        Ok(Self { url, encoding, held, began, batch: load.batch, payload: load.payload })
    }

    /// On a thread of its own, as a worker has a process of its own: what those do who follow is not to be measured.
    async fn emit_for(&self, time: Duration, last: Option<NewEvent>) -> Result<Latencies, Failure> {
        let worker = self.clone();
        // Dropped with whoever waits for this.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let emitting = spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.map_err(|error| Failure::local(format!("no thread for a worker: {error}")))?;
            runtime.block_on(async {
                tokio::select! {
                    emitted = worker.emits(time, last) => emitted,
                    _ = unwanted => Ok(Latencies::new()),
                }
            })
        });
        emitting.await.expect("a worker does not panic")
    }

    async fn emits(&self, time: Duration, last: Option<NewEvent>) -> Result<Latencies, Failure> {
        let client = Client::builder(&self.url).encoding(self.encoding.into()).build()?;
        // So that no emit has to connect.
        client.item(&self.held.id).await?;
        let mut latencies = Latencies::new();
        let mut ticks = interval(Duration::from_secs(1) * self.batch as u32 / EVENTS_PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Instant::now() + time;
        while Instant::now() < until {
            ticks.tick().await;
            latencies.time(self.emit(&client, vec![self.event(); self.batch])).await?;
        }
        if let Some(last) = last {
            self.emit(&client, vec![last]).await?;
        }
        Ok(latencies)
    }

    async fn emit(&self, client: &Client, events: Vec<NewEvent>) -> Result<(), Failure> {
        let Held { id, permit } = self.held.clone();
        client.emit(EmitRequest { id, permit, after: None, events }).await?;
        Ok(())
    }

    /// It says when it was sent, and is as long as it should be.
    fn event(&self) -> NewEvent {
        let sent = self.began.elapsed().as_micros().to_string();
        NewEvent { utf8: Some(format!("{sent:<0$}", self.payload)), ..NewEvent::default() }
    }
}

/// Those who follow. Gone with whoever has it.
struct Crowd(JoinSet<Result<Latencies, Failure>>);

impl Crowd {
    /// Each with a connection of its own, and there when this returns.
    async fn gather(bed: &HttpBed, worker: &Worker, subscribers: u16) -> Result<Self, Failure> {
        let (there, mut arrivals) = mpsc::channel::<Infallible>(1);
        let mut tasks = JoinSet::new();
        for _ in 0..subscribers {
            let (client, id) = (bed.client(Encoding::Json)?, worker.held.id.clone());
            tasks.spawn(follow(client, id, worker.began, there.clone()));
        }
        drop(there);
        // Until each has come, or has failed, which is told in the end.
        while arrivals.recv().await.is_some() {}
        Ok(Self(tasks))
    }

    async fn leave(&mut self) -> Result<Latencies, Failure> {
        let mut all = Latencies::new();
        while let Some(one) = self.0.join_next().await {
            all.add(&one.expect("whoever follows does not panic")?);
        }
        Ok(all)
    }
}

async fn follow(
    client: Client,
    id: String,
    began: Instant,
    there: mpsc::Sender<Infallible>,
) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::new();
    let mut there = Some(there);
    let mut events = client.events(id);
    while let Some(frame) = events.next().await {
        match frame? {
            Frame::Snapshot { .. } => drop(there.take()),
            Frame::Event(event) if event.r#type == OVER => return Ok(latencies),
            Frame::Event(event) => {
                let sent = event.utf8.as_deref().and_then(|text| text.trim_end().parse().ok());
                let sent = sent.map(Duration::from_micros).unwrap_or_default();
                latencies.record(began.elapsed().saturating_sub(sent));
            }
            Frame::State(_) | Frame::Gap(_) | Frame::End(_) => {}
        }
    }
    Err(Failure::local("the stream of the item to be watched ended"))
}
