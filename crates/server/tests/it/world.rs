//! `TestServer`: a server of one's own for each test; and the verbs that most tests need.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_server::config::{self, RawConfig, RawLimits};
use windlass_server::lifecycle::Server;

use crate::http::Http;

pub(crate) struct TestServer {
    server: Option<Server>,
    directory: TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(RawLimits::default()).await
    }

    /// A server that has the queue `q` with these settings, and a connection to the server.
    pub(crate) async fn with_queue(settings: Value) -> (Self, Http) {
        let server = Self::start().await;
        let mut http = server.connect().await;
        http.ok("queues.create", with(json!({"queue": "q"}), settings)).await;
        (server, http)
    }

    pub(crate) async fn with(limits: RawLimits) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Some(start_on(&data(&directory), limits).await);
        Self { server, directory }
    }

    /// A server with these settings; `data` and `listen` are the test's own.
    pub(crate) async fn configured(flags: RawConfig) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Some(start_with(&data(&directory), flags).await);
        Self { server, directory }
    }

    /// A server on a copy of `data`, which stays as it is.
    pub(crate) async fn on(data: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let copy = self::data(&directory);
        std::fs::create_dir(&copy).expect("a directory is made");
        for entry in std::fs::read_dir(data).expect("the data is there") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a file is copied");
        }
        let server = Some(start_on(&copy, RawLimits::default()).await);
        Self { server, directory }
    }

    pub(crate) fn data(&self) -> PathBuf {
        data(&self.directory)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().expect("it runs").address()
    }

    pub(crate) async fn connect(&self) -> Http {
        Http::connect(self.address()).await
    }

    pub(crate) async fn stop(&mut self) {
        self.server.take().expect("it runs").stop().await;
    }

    /// Stops the server, and starts another on the same data.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.server = Some(start_on(&data(&self.directory), RawLimits::default()).await);
    }
}

/// Not the whole temporary directory: backups go beside the data.
fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

async fn start_on(data: &Path, limits: RawLimits) -> Server {
    start_with(data, RawConfig { limits, ..RawConfig::default() }).await
}

async fn start_with(data: &Path, flags: RawConfig) -> Server {
    let flags = RawConfig {
        data: Some(data.to_str().expect("a path in UTF-8").into()),
        listen: Some("127.0.0.1:0".into()),
        ..flags
    };
    let config = config::load(flags, None, std::iter::empty()).expect("a valid configuration");
    Server::start(config).await.expect("the server starts")
}

/// Calls in JSON that must succeed, each cut down to the part of its reply that tests look at.
impl Http {
    /// The ids of the items, all of which the queue must take.
    pub(crate) async fn produce(&mut self, queue: &str, items: Value) -> Vec<Value> {
        let produced = self.ok("queue.produce", json!({"queue": queue, "items": items})).await;
        let ids: Vec<Value> = list(&produced["items"]).iter().map(|item| item["id"].clone()).collect();
        assert!(ids.iter().all(Value::is_string), "{produced}");
        ids
    }

    /// Up to `batch_size` items that wait now.
    pub(crate) async fn lease(&mut self, queue: &str, batch_size: usize) -> Vec<Value> {
        self.lease_within(queue, batch_size, "0s").await
    }

    pub(crate) async fn lease_within(
        &mut self,
        queue: &str,
        batch_size: usize,
        request_timeout: &str,
    ) -> Vec<Value> {
        let request = json!({
            "queue": queue, "client_id": "c", "batch_size": batch_size, "request_timeout": request_timeout,
        });
        list(&self.ok("queue.lease", request).await["items"])
    }

    /// Completes leased items, without results.
    pub(crate) async fn complete(&mut self, queue: &str, leased: impl IntoIterator<Item = &Value>) {
        let request = held_in(queue, leased);
        let count = request["items"].as_array().map(Vec::len);
        let done = self.ok("queue.complete", request).await;
        assert_eq!(done, json!({"completed": count, "failed": []}));
    }

    pub(crate) async fn item(&mut self, id: impl Serialize) -> Value {
        self.ok("item.get", json!({"id": id})).await["item"].clone()
    }

    pub(crate) async fn stats(&mut self, queue: &str) -> Value {
        self.ok("queue.stats", json!({"queue": queue})).await
    }

    /// Returns once `count` leases wait for items of the queue.
    pub(crate) async fn until_lease_waiters(&mut self, queue: &str, count: usize) {
        self.until(async |http| http.stats(queue).await["lease_waiters"] == count).await;
    }

    /// Asks until it is so.
    pub(crate) async fn until(&mut self, asked: impl AsyncFn(&mut Self) -> bool) {
        self.until_some(async |http| asked(http).await.then_some(())).await;
    }

    /// Asks until there is an answer. The minute only ends a test that would hang.
    pub(crate) async fn until_some<T>(&mut self, asked: impl AsyncFn(&mut Self) -> Option<T>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = asked(self).await {
                    return answer;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asking).await.expect("it comes about")
    }

    /// The page of metrics.
    pub(crate) async fn metrics(&mut self) -> String {
        String::from_utf8(self.get("/metrics").await.body).expect("text")
    }

    /// One value of the page of metrics; `sample` is its name, and its labels if it has some.
    pub(crate) async fn metric(&mut self, sample: &str) -> usize {
        let page = self.metrics().await;
        let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {sample} in {page}")).parse().expect("a number")
    }

    /// Status, code and message of a call that must be refused.
    pub(crate) async fn refused(&mut self, call: &str, request: &Value) -> (u16, String, String) {
        let got = self.post(call, &request.to_string()).await;
        (got.status, got.code(), got.message())
    }
}

/// A leased item as the calls of its worker name it.
pub(crate) fn held(leased: &Value) -> Value {
    json!({"id": leased["id"], "permit": leased["permit"]})
}

/// The request of a worker about leased items.
pub(crate) fn held_in<'a>(queue: &str, leased: impl IntoIterator<Item = &'a Value>) -> Value {
    json!({"queue": queue, "items": leased.into_iter().map(held).collect::<Vec<_>>()})
}

/// A request with these fields besides its own.
pub(crate) fn with(mut request: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("not an object: {more}") };
    request.as_object_mut().expect("an object").extend(more);
    request
}

pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}
