//! `bench/budget.toml` is kept: the costs of a request of a single client are counted, not timed, so a busy machine counts the same.
//! `just budget` runs these tests alone: other tests make syncs slow, and a slow sync is left to the committer's thread, which costs
//! context switches.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::windlass;

/// Requests of a full cycle: produce, lease, complete.
const CYCLE_REQUESTS: u64 = 3;
/// Cycles before anything is counted: buffers grow, and code is reached for the first time.
const WARM_UP: u64 = 50;
const CYCLES: u64 = 400;
/// Under callgrind, where each takes fifty times as long.
const FEW_CYCLES: u64 = 100;
/// Half of the time from which on the server leaves syncs to the committer's thread.
const SLOW_SYNC: Duration = Duration::from_millis(1);

/// `bench/budget.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    request: Request,
    instructions: Instructions,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    context_switches: f64,
    syncs: f64,
    writes: f64,
    allocations: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instructions {
    whole: f64,
    edge: f64,
    engine: f64,
    core: f64,
}

/// Rows of a name, the count and the most that is allowed.
#[derive(Default)]
struct Table(Vec<(&'static str, f64, f64)>);

impl Table {
    fn row(&mut self, name: &'static str, counted: f64, allowed: f64) {
        self.0.push((name, counted, allowed));
    }

    /// Shows all, and fails if something is beyond its budget.
    fn check(self) {
        let mut beyond = Vec::new();
        for (name, counted, allowed) in self.0 {
            eprintln!("{name:<44} {counted:>10.2} of {allowed:>10.2}");
            if counted > allowed {
                beyond.push(name);
            }
        }
        assert!(
            beyond.is_empty(),
            "beyond the budget: {}. Make it cheaper, or raise bench/budget.toml and say why",
            beyond.join(", ")
        );
    }
}

fn budget() -> Budget {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/budget.toml");
    toml::from_str(&fs::read_to_string(path).expect("bench/budget.toml is there")).expect("a budget")
}

/// A server, perhaps under a tool that counts, and one connection to it.
struct Counted {
    child: Child,
    stream: TcpStream,
    directory: TempDir,
}

impl Counted {
    fn start(mut command: Command) -> Self {
        let directory = TempDir::new().unwrap();
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--log-level", "error", "--data"]);
        command.arg(directory.path().join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).expect("the server is ready");
        let address = ready["url"].as_str().unwrap().strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut server = Self { child, stream, directory };
        server.call("queues.create", &json!({"queue": "q"}));
        server
    }

    fn call(&mut self, name: &str, body: &Value) -> Value {
        let reply = self.ask(&format!("POST /v1/{name}"), &body.to_string());
        serde_json::from_str(&reply).unwrap()
    }

    fn ask(&mut self, target: &str, body: &str) -> String {
        let length = body.len();
        let request =
            format!("{target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).unwrap();
        let (mut reply, mut buffer) = (Vec::new(), [0; 65536]);
        loop {
            let bytes = self.stream.read(&mut buffer).unwrap();
            assert!(bytes > 0, "the server closed the connection");
            reply.extend_from_slice(&buffer[..bytes]);
            let text = std::str::from_utf8(&reply).unwrap();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            assert!(head.starts_with("HTTP/1.1 200"), "{text}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return body.to_owned();
            }
        }
    }

    fn cycles(&mut self, count: u64) {
        for _ in 0..count {
            self.call("queue.produce", &json!({"queue": "q", "items": [{"utf8": "x".repeat(200)}]}));
            let lease = json!({"queue": "q", "client_id": "w", "batch_size": 1, "request_timeout": "0s"});
            let item = self.call("queue.lease", &lease)["items"][0].clone();
            let held = json!([{"id": item["id"], "permit": item["permit"]}]);
            let done = self.call("queue.complete", &json!({"queue": "q", "items": held}));
            assert_eq!(done["completed"], 1);
        }
    }

    fn syncs(&mut self) -> u64 {
        let page = self.ask("GET /metrics", "");
        let lines = page.lines().filter(|line| line.starts_with("windlass_store_syncs_total"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    fn of_proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    fn writes(&self) -> u64 {
        number_behind(&self.of_proc("io"), "syscw: ")
    }

    /// Voluntary ones: a thread that waits, not one that others push aside.
    fn context_switches(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let switches = tasks.map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            // The watcher of blocked threads looks at the clock, not at requests.
            if status.contains("blocking-watch") { 0 } else { voluntary(&status) }
        });
        switches.sum()
    }

    fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

fn voluntary(status: &str) -> u64 {
    number_behind(status, "\nvoluntary_ctxt_switches:\t")
}

fn number_behind(text: &str, name: &str) -> u64 {
    let rest = text.split_once(name).expect("the kernel tells it").1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Context switches of a write and its sync alone, on the same disk. `None` if a sync takes so long that the server would not
/// have it done by the thread that brings it.
fn switches_of_a_bare_sync(directory: &Path) -> Option<f64> {
    let file = File::create(directory.join("bare")).unwrap();
    file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let own = || voluntary(&fs::read_to_string("/proc/thread-self/status").unwrap());
    let (before, began) = (own(), Instant::now());
    for number in 0..CYCLES {
        file.write_all_at(&[1; 300], 300 * number).unwrap();
        file.sync_data().unwrap();
    }
    let per_sync = (own() - before) as f64 / CYCLES as f64;
    (began.elapsed() < SLOW_SYNC * CYCLES as u32).then_some(per_sync)
}

#[test]
#[ignore = "nothing may run beside it: `just budget`"]
fn requests_keep_to_the_budget_of_switches_syncs_and_writes() {
    let Request { context_switches, syncs, writes, .. } = budget().request;
    let mut server = Counted::start(windlass());
    server.cycles(WARM_UP);
    let bare = switches_of_a_bare_sync(server.directory.path());
    let before = (server.syncs(), server.writes(), server.context_switches());
    server.cycles(CYCLES);
    let switched = server.context_switches() - before.2;
    let (written, synced) = (server.writes() - before.1, server.syncs() - before.0);
    let per_request = |count: u64| count as f64 / (CYCLES * CYCLE_REQUESTS) as f64;
    let mut table = Table::default();
    match bare {
        Some(bare) => {
            let beside = per_request(switched) - bare;
            table.row("context switches beside those of the sync", beside, context_switches);
        }
        None => eprintln!("SKIPPED: context switches, for this disk takes longer than {SLOW_SYNC:?} to sync"),
    }
    table.row("syncs", per_request(synced), syncs);
    table.row("writes to disk and to wake threads", per_request(written), writes);
    table.check();
    server.stop();
}

#[test]
#[ignore = "takes valgrind: `just budget`"]
fn requests_keep_to_the_budget_of_instructions_and_allocations() {
    let (request, allowed) = (budget().request, budget().instructions);
    let directory = TempDir::new().unwrap();
    let [few, many] = [1, 2].map(|times| Profile::of(directory.path(), WARM_UP + times * FEW_CYCLES));
    let per_request = |count: fn(&Profile) -> u64| {
        (count(&many) - count(&few)) as f64 / (FEW_CYCLES * CYCLE_REQUESTS) as f64
    };
    let mut table = Table::default();
    table.row("instructions", per_request(|profile| profile.whole), allowed.whole);
    table.row("instructions of connections and handlers", per_request(|profile| profile.edge), allowed.edge);
    table.row("instructions of writers", per_request(|profile| profile.engine), allowed.engine);
    table.row("instructions of the core", per_request(|profile| profile.core), allowed.core);
    table.row("allocations", per_request(|profile| profile.allocations), request.allocations);
    table.check();
}

/// Counts of callgrind, of a whole run of the server.
#[derive(Debug)]
struct Profile {
    whole: u64,
    edge: u64,
    engine: u64,
    core: u64,
    allocations: u64,
}

impl Profile {
    fn of(directory: &Path, cycles: u64) -> Self {
        let out = directory.join(format!("callgrind.{cycles}"));
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
        command.arg(windlass().get_program());
        let mut server = Counted::start(command);
        server.cycles(cycles);
        server.stop();
        Self::read(&out)
    }

    fn read(out: &PathBuf) -> Self {
        let mut command = Command::new("callgrind_annotate");
        command.args(["--inclusive=yes", "--threshold=100", "--show-percs=no"]).arg(out);
        let output = command.output().expect("callgrind_annotate comes with valgrind");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // A function stands in several lines, one for each file that code was inlined from: the line of the function itself has the most.
        let most = |names: &[&str]| {
            let lines = text.lines().filter(|line| names.iter().any(|name| line.contains(name)));
            lines.filter_map(count_in).max().unwrap_or_else(|| panic!("callgrind saw no {names:?}"))
        };
        Self {
            whole: most(&["PROGRAM TOTALS"]),
            edge: most(&["connection::answer_all::{{closure}}", "connection::serve::{{closure}}"]),
            engine: most(&["writer::Writer<M>::run::{{closure}}"]),
            core: most(&["windlass_core::machine::"]),
            allocations: calls_of(&fs::read_to_string(out).unwrap(), "mi_malloc_aligned"),
        }
    }
}

fn count_in(line: &str) -> Option<u64> {
    line.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// How often a function was called, as callgrind wrote it: `cfn=(id) name` or, later, `cfn=(id)`, and `calls=count` behind it.
fn calls_of(profile: &str, name: &str) -> u64 {
    let (mut id, mut is_it, mut calls) = (None, false, 0);
    for line in profile.lines() {
        if let Some(called) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, named) = called.split_once(' ').unwrap_or((called, ""));
            if named == name {
                id = Some(number.to_owned());
            }
            is_it = line.starts_with("cfn=") && id.as_deref() == Some(number);
        } else if is_it && let Some(count) = line.strip_prefix("calls=") {
            calls += count.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    calls
}
