//! A disk that stalls holds up who waits for it, and nobody else, although commits are carried out by the threads that
//! answer requests.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use windlass_engine::env::{BoxFuture, Env, TokioEnv, runtime};
use windlass_engine::store::Store;
use windlass_engine::store::log::disk::{Disk, File};
use windlass_engine::store::log::real::RealDisk;
use windlass_engine::store::log::{LogOptions, LogStore};
use windlass_engine::store::spread::Member;
use windlass_server::config::Config;
use windlass_server::lifecycle::Server;

use crate::stores::{configured, directory};

/// A test that would hang fails after this.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds up syncs, as a disk does that stalls: the thread that syncs stands still.
#[derive(Debug, Default)]
struct Stall {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stalls: bool,
    /// Syncs that stand still.
    held: usize,
}

impl Stall {
    fn set(&self, stalls: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stalls = stalls;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        state.held += 1;
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.stalls).expect("not poisoned");
        state.held -= 1;
    }

    fn until_held(&self) {
        let state = self.state.lock().expect("not poisoned");
        let (_state, waited) =
            self.changed.wait_timeout_while(state, PATIENCE, |state| state.held == 0).expect("not poisoned");
        assert!(!waited.timed_out(), "a sync was begun");
    }
}

#[derive(Debug)]
struct StallingDisk {
    disk: RealDisk,
    stall: Arc<Stall>,
}

#[derive(Debug)]
struct StallingFile {
    file: Arc<dyn File>,
    stall: Arc<Stall>,
}

impl StallingDisk {
    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(StallingFile { file, stall: Arc::clone(&self.stall) })
    }
}

impl Disk for StallingDisk {
    fn lock(&self) -> BoxFuture<'_, io::Result<()>> {
        self.disk.lock()
    }

    fn unlock(&self) {
        self.disk.unlock();
    }

    fn list(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.wrap(self.disk.open(&name).await?)) })
    }

    fn create(&self, name: &str) -> BoxFuture<'_, io::Result<Arc<dyn File>>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.wrap(self.disk.create(&name).await?)) })
    }

    fn rename(&self, from: &str, to: &str) -> BoxFuture<'_, io::Result<()>> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> BoxFuture<'_, io::Result<()>> {
        self.disk.remove(name)
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        self.disk.sync()
    }

    fn path(&self, name: &str) -> String {
        self.disk.path(name)
    }
}

impl File for StallingFile {
    fn write_at<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<usize>> {
        self.file.write_at(offset, bytes)
    }

    fn read_at<'a>(&'a self, offset: u64, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<usize>> {
        self.file.read_at(offset, buffer)
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            self.stall.pass();
            self.file.sync().await
        })
    }

    fn len(&self) -> BoxFuture<'_, io::Result<u64>> {
        self.file.len()
    }
}

/// A server on threads of its own, and two stores whose disks can stall.
struct Bed {
    address: SocketAddr,
    stalls: [Arc<Stall>; 2],
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new(threads: usize) -> Self {
        let (directory, stalls) = (directory(), [Arc::default(), Arc::default()]);
        let config = configured(directory.path(), &[]);
        let stores = ["first", "second"].map(|name| directory.path().join(name));
        let threads = NonZeroUsize::new(threads).expect("some threads");
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let serving = serve(
            config,
            stores,
            stalls.clone(),
            move |address| started.send(address).expect("the test waits"),
            stopped,
        );
        let running = thread::spawn(move || runtime::run(threads, serving).expect("a runtime"));
        let address = starting.recv_timeout(PATIENCE).expect("it starts");
        Self { address, stalls, stop: Some(stop), running: Some(running), _directory: directory }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Two queues of one partition each, of the first store and of the second.
    fn queues(&self) -> [String; 2] {
        let mut client = self.connect();
        let mut found = [None, None];
        for number in 0..8 {
            let queue = format!("q{number}");
            client.ok("queues.create", &json!({"queue": queue, "partitions": 1}));
            let stats = client.ok("queue.stats", &json!({"queue": queue}));
            let of_second = stats["partitions"][0]["store"] == "second";
            found[usize::from(of_second)] = Some(queue);
        }
        found.map(|queue| queue.expect("new queues go to each of the stores in turn"))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.stalls.iter().for_each(|stall| stall.set(false));
        drop(self.stop.take());
        if let Some(running) = self.running.take() {
            let ended = running.join();
            assert!(ended.is_ok() || thread::panicking(), "the server stops");
        }
    }
}

/// Until `stopped` is dropped.
async fn serve(
    config: Config,
    [first, second]: [PathBuf; 2],
    stalls: [Arc<Stall>; 2],
    started: impl FnOnce(SocketAddr),
    stopped: oneshot::Receiver<()>,
) {
    // One for both, as in a server: it knows how many threads block.
    let env: Arc<dyn Env> = Arc::new(TokioEnv::new());
    let first = open(&env, &first, "default", None, &stalls[0]).await;
    let owner = Some(first.server().await);
    let second: Arc<dyn Store> = Arc::new(open(&env, &second, "second", owner, &stalls[1]).await);
    let others = vec![Member::opened("second", second)];
    let server = Server::start_on(config, Arc::new(first), others).await.expect("it starts");
    started(server.address());
    let _dropped = stopped.await;
    server.stop().await;
}

async fn open(
    env: &Arc<dyn Env>,
    directory: &Path,
    store: &str,
    server: Option<u64>,
    stall: &Arc<Stall>,
) -> LogStore {
    let disk = RealDisk::new(directory).expect("a directory");
    let disk = Arc::new(StallingDisk { disk, stall: Arc::clone(stall) });
    let options = LogOptions { store: store.into(), server, ..LogOptions::default() };
    LogStore::open(Arc::clone(env), disk, options).await.expect("the log opens")
}

/// A client that needs no thread of the server's runtime.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Self(stream)
    }

    fn send(&mut self, head: &str, body: &str) {
        let request =
            format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.0.write_all(request.as_bytes()).expect("the request is sent");
    }

    /// Status and body of the next reply.
    fn receive(&mut self) -> (u16, String) {
        let mut bytes = Vec::new();
        let head = loop {
            let mut piece = [0; 4096];
            let read = self.0.read(&mut piece).expect("a reply comes");
            assert!(read > 0, "the connection is open");
            bytes.extend_from_slice(&piece[..read]);
            if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8(bytes[..head].to_vec()).expect("a head in ASCII").to_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.expect("a length").parse().expect("a number");
        let mut body = bytes.split_off(head);
        let missing = length - body.len();
        let mut rest = vec![0; missing];
        self.0.read_exact(&mut rest).expect("the whole body comes");
        body.extend_from_slice(&rest);
        let status = text[9..12].parse().expect("a status");
        (status, String::from_utf8(body).expect("a body in UTF-8"))
    }

    fn post(&mut self, call: &str, request: &Value) {
        self.send(&format!("POST /v1/{call}"), &request.to_string());
    }

    fn ok(&mut self, call: &str, request: &Value) -> Value {
        self.post(call, request);
        let (status, body) = self.receive();
        assert_eq!(status, 200, "{call}: {body}");
        serde_json::from_str(&body).expect("a reply in JSON")
    }

    fn get(&mut self, path: &str) -> u16 {
        self.send(&format!("GET {path}"), "");
        self.receive().0
    }
}

fn produce(queue: &str) -> Value {
    json!({"queue": queue, "items": [{"json": 1}]})
}

#[test]
fn while_a_disk_stalls_health_reads_and_other_stores_answer() {
    (1..=2).for_each(a_disk_that_stalls_holds_up_its_own_queues);
}

fn a_disk_that_stalls_holds_up_its_own_queues(threads: usize) {
    let bed = Bed::new(threads);
    let [stalled, sound] = bed.queues();
    let id = bed.connect().ok("queue.produce", &produce(&sound))["items"][0]["id"].clone();
    bed.stalls[0].set(true);
    let mut waiting = bed.connect();
    waiting.post("queue.produce", &produce(&stalled));
    bed.stalls[0].until_held();
    // More of them than there are threads: none may be held by a commit that waits for the one before.
    let mut more: Vec<Client> = (0..4).map(|_| bed.connect()).collect();
    more.iter_mut().for_each(|client| client.post("queue.produce", &produce(&stalled)));

    let mut other = bed.connect();
    assert_eq!(other.get("/health"), 200);
    assert_eq!(other.ok("item.get", &json!({"id": id}))["item"]["state"], "waiting");
    other.ok("queues.list", &json!({}));
    other.ok("queue.produce", &produce(&sound));

    bed.stalls[0].set(false);
    for mut client in more.into_iter().chain([waiting]) {
        assert_eq!(client.receive().0, 200);
    }
}

#[test]
fn while_all_disks_stall_health_answers() {
    (1..=2).for_each(disks_that_stall_do_not_hold_up_health);
}

fn disks_that_stall_do_not_hold_up_health(threads: usize) {
    let bed = Bed::new(threads);
    let queues = bed.queues();
    let mut waiting: Vec<Client> = Vec::new();
    for (queue, stall) in queues.iter().zip(&bed.stalls) {
        stall.set(true);
        let mut client = bed.connect();
        client.post("queue.produce", &produce(queue));
        stall.until_held();
        waiting.push(client);
    }
    let mut other = bed.connect();
    assert_eq!(other.get("/health"), 200);
    other.ok("queues.list", &json!({}));
    bed.stalls.iter().for_each(|stall| stall.set(false));
    for mut client in waiting {
        assert_eq!(client.receive().0, 200);
    }
}
