//! Where the load goes: a server, running or started for it, or the engine without one.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_api::Span;
use windlass_api::queues::{CreateQueueRequest, DeleteQueueRequest};
use windlass_client::Client;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time;
use windlass_core::verbs::CreateQueue;
use windlass_engine::Engine;
use windlass_engine::env::TokioEnv;
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{self, LogOptions, LogStore};
use windlass_server::config::{self, RawConfig};
use windlass_server::lifecycle::Server;

use super::caller::{Caller, EngineCaller, HttpCaller};
use super::{Bench, Durability, Load, Target};
use crate::args::{Encoding, Global};
use crate::exit::Failure;
use crate::output::Output;

/// No lease may end while it is measured.
const LEASE_SECONDS: u64 = 3600;

#[derive(Clone, Copy, Debug)]
pub(super) enum Bed<'a> {
    Http(&'a HttpBed, Encoding),
    Engine(&'a EngineBed),
}

impl Bed<'_> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http(..) => "server",
            Self::Engine(_) => "engine",
        }
    }

    /// Makes a queue, and those who will use it.
    pub(super) async fn callers(self, queue: &str, load: Load) -> Result<Vec<Caller>, Failure> {
        match self {
            Self::Http(bed, encoding) => bed.callers(queue, encoding, load).await,
            Self::Engine(bed) => bed.callers(queue, load).await,
        }
    }

    /// A backlog for a queue that is there.
    pub(super) async fn fill(self, queue: &str, load: Load) -> Result<(), Failure> {
        let caller = match self {
            Self::Http(bed, encoding) => bed.caller(queue, encoding, load)?,
            Self::Engine(bed) => bed.caller(queue, load),
        };
        let mut left = load.backlog;
        while left > 0 {
            left = left.saturating_sub(caller.produce().await?);
        }
        Ok(())
    }

    pub(super) async fn delete(self, queue: &str) -> Result<(), Failure> {
        match self {
            Self::Http(bed, _) => bed.delete(queue).await,
            Self::Engine(bed) => {
                bed.engine.delete_queue(&queue_name(queue), true).await.map_err(engine_failed)?;
                Ok(())
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct HttpBed {
    url: String,
    /// So that several benches of one server do not meet.
    prefix: String,
    own: Option<(Server, TempDir)>,
}

impl HttpBed {
    pub(super) async fn new(bench: &Bench, global: &Global, out: Output) -> Result<Self, Failure> {
        let prefix = format!("bench-{:08x}", fastrand::u32(..));
        if let Some(url) = global.url() {
            return Ok(Self { url, prefix, own: None });
        }
        let directory = directory(bench)?;
        let server = start(bench, &directory).await?;
        let url = format!("http://{}", server.address());
        out.talk(&format!("started a server in this process, data in {}", directory.path().display()));
        Ok(Self { url, prefix, own: Some((server, directory)) })
    }

    pub(super) fn target(&self, bench: &Bench) -> Target {
        let started_here = self.own.is_some();
        let durability = started_here.then(|| bench.durability().name());
        Target { url: self.url.clone(), started_here, durability }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// With a pool of its own, hence a connection of its own.
    pub(super) fn client(&self, encoding: Encoding) -> Result<Client, Failure> {
        Ok(Client::builder(&self.url).encoding(encoding.into()).build()?)
    }

    pub(super) fn queue(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub(super) async fn create(&self, name: &str) -> Result<(), Failure> {
        let create = CreateQueueRequest {
            queue: self.queue(name),
            lease_timeout: Some(Span::from_secs(LEASE_SECONDS)),
            ..CreateQueueRequest::default()
        };
        self.client(Encoding::Json)?.call(&create).await?;
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), Failure> {
        let delete = DeleteQueueRequest { queue: self.queue(name), force: true };
        self.client(Encoding::Json)?.call(&delete).await?;
        Ok(())
    }

    pub(super) async fn callers(
        &self,
        queue: &str,
        encoding: Encoding,
        load: Load,
    ) -> Result<Vec<Caller>, Failure> {
        self.create(queue).await?;
        (0..load.clients).map(|_| self.caller(queue, encoding, load)).collect()
    }

    pub(super) fn caller(&self, queue: &str, encoding: Encoding, load: Load) -> Result<Caller, Failure> {
        let caller = HttpCaller::new(self.client(encoding)?, self.queue(queue), load);
        Ok(Caller::Http(Arc::new(caller)))
    }

    /// Also what an interrupted measurement has left behind.
    pub(super) async fn close(self) {
        match self.own {
            Some((server, directory)) => {
                server.stop().await;
                let _left_to_the_system = directory.close();
            }
            None => self.delete_leftovers().await,
        }
    }

    async fn delete_leftovers(&self) {
        let Ok(client) = self.client(Encoding::Json) else { return };
        let queues = client.queues().await.unwrap_or_default();
        for queue in queues.into_iter().filter(|queue| queue.queue.starts_with(&self.prefix)) {
            let _may_be_gone = client.queue(queue.queue).delete(true).await;
        }
    }
}

async fn start(bench: &Bench, directory: &TempDir) -> Result<Server, Failure> {
    let flags = RawConfig {
        data: Some(directory.path().display().to_string().into()),
        listen: Some("127.0.0.1:0".into()),
        durability: Some(bench.durability().name().into()),
        ..RawConfig::default()
    };
    // Not from the environment: what is measured is told by the flags alone.
    let config = config::load(flags, None, std::iter::empty());
    let config = config.map_err(|error| Failure::usage(error.to_string()))?;
    Server::start(config).await.map_err(|error| Failure::local(error.to_string()))
}

fn directory(bench: &Bench) -> Result<TempDir, Failure> {
    let parent = bench.data_dir.clone().unwrap_or_else(std::env::temp_dir);
    let made = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(&parent);
    made.map_err(|error| Failure::local(format!("cannot make a directory in {}: {error}", parent.display())))
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Interval => "interval",
            Self::None => "none",
        }
    }

    fn of_log(self) -> log::Durability {
        match self {
            Self::Always => log::Durability::Always,
            Self::Interval => log::Durability::Interval(time::Span::from_millis(100)),
            Self::None => log::Durability::None,
        }
    }
}

#[derive(Debug)]
pub(super) struct EngineBed {
    engine: Engine,
    directory: TempDir,
}

impl EngineBed {
    pub(super) async fn new(bench: &Bench) -> Result<Self, Failure> {
        let directory = directory(bench)?;
        let disk = RealDisk::new(directory.path()).map_err(|error| Failure::local(error.to_string()))?;
        let durability = bench.durability().of_log();
        let env = Arc::new(TokioEnv::new());
        let options = LogOptions { durability, ..LogOptions::default() };
        let store = LogStore::open(env.clone(), Arc::new(disk), options).await;
        let store = store.map_err(|error| Failure::local(error.to_string()))?;
        let engine = Engine::open(env, Arc::new(store)).await.map_err(engine_failed)?;
        Ok(Self { engine, directory })
    }

    async fn callers(&self, queue: &str, load: Load) -> Result<Vec<Caller>, Failure> {
        let settings =
            Settings { lease_timeout: time::Span::from_secs(LEASE_SECONDS), ..Settings::default() };
        let create = CreateQueue::new(queue_name(queue), settings, 1);
        self.engine.create_queue(create).await.map_err(engine_failed)?;
        Ok(vec![self.caller(queue, load); load.clients])
    }

    fn caller(&self, queue: &str, load: Load) -> Caller {
        Caller::Engine(Arc::new(EngineCaller::new(self.engine.clone(), queue_name(queue), load)))
    }

    pub(super) async fn close(self) {
        self.engine.close().await;
        let _left_to_the_system = self.directory.close();
    }
}

fn queue_name(queue: &str) -> QueueName {
    QueueName { namespace: "default".into(), name: queue.into() }
}

pub(super) fn engine_failed(error: windlass_engine::EngineError) -> Failure {
    Failure::local(format!("the engine: {error}"))
}
