//! Starts the program, talks to it, and leaves nothing behind. Everything can run side by side.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Against hanging only: nothing here takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn windlass() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    // Variables of whoever runs the tests must not decide.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WINDLASS_") {
            command.env_remove(name);
        }
    }
    command
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Stdout of a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    #[track_caller]
    pub(crate) fn json_lines(self) -> Vec<Value> {
        json_lines(&self.ok())
    }

    /// Stderr of a command that must fail with this code.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.err
    }
}

pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The id in `ID:PERMIT`, as `windlass lease --ids` prints it.
pub(crate) fn id(held: &str) -> &str {
    held.split_once(':').unwrap().0
}

/// Whether a table of names and values has this line.
pub(crate) fn says(shown: &str, name: &str, value: &str) -> bool {
    shown
        .lines()
        .any(|line| line.split_once(' ').is_some_and(|(first, rest)| first == name && rest.trim() == value))
}

/// Runs a command without a server.
pub(crate) fn run(args: &[&str]) -> Ended {
    finish(windlass().args(args), b"")
}

fn finish(command: &mut Command, input: &[u8]) -> Ended {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let _watchdog = Watchdog::over(&child);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    Ended::of(output)
}

/// A server of its own: a temporary directory, any free port, gone with the test.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) ready: String,
    data: PathBuf,
    /// Removed with the server.
    directory: Option<TempDir>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let mut server = Self::start_on(&directory.path().join("data"));
        server.directory = Some(directory);
        server
    }

    /// A server that has a queue, made with these flags.
    pub(crate) fn with_queue(queue: &str, flags: &[&str]) -> Self {
        let server = Self::start();
        server.run(&[&["queue", "create", queue], flags].concat()).ok();
        server
    }

    /// A server on a directory that outlives it.
    pub(crate) fn start_on(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub(crate) fn start_with(data: &Path, flags: &[&str]) -> Self {
        let log_path = data.with_extension("log");
        let log = File::create(&log_path).unwrap();
        let mut command = windlass();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(flags);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let url = ready
            .split_whitespace()
            .find_map(|word| word.strip_suffix(',').filter(|word| word.starts_with("http")));
        let Some(url) = url.map(str::to_owned) else {
            panic!("not ready: {ready:?}\n{}", std::fs::read_to_string(log_path).unwrap());
        };
        Self { child, url, ready, data: data.to_owned(), directory: None }
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = windlass();
        command.env("WINDLASS_URL", &self.url);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ended {
        finish(self.command().args(args), input.as_bytes())
    }

    /// Produces one item, with a payload and flags as `args`, and returns its id.
    pub(crate) fn produce(&self, queue: &str, args: &[&str]) -> String {
        self.run(&[&["produce", queue], args].concat()).ok().trim().to_owned()
    }

    /// Leases one item, and returns it as `windlass complete` takes it: `ID:PERMIT`.
    pub(crate) fn lease(&self, queue: &str) -> String {
        self.run(&["lease", queue, "--ids"]).ok().trim().to_owned()
    }

    pub(crate) fn item(&self, id: &str) -> Value {
        self.run(&["item", "get", id, "--json"]).json()["item"].clone()
    }

    pub(crate) fn stats(&self, queue: &str) -> Value {
        self.run(&["queue", "stats", queue, "--json"]).json()
    }

    /// A command that a shell runs.
    pub(crate) fn begin_shell(&self, script: &str) -> Going {
        Going::new(Command::new("/bin/sh").args(["-c", script]).env("WINDLASS_URL", &self.url))
    }

    /// A command on a terminal of its own, so many columns wide: what it says to stderr is on its stdout.
    pub(crate) fn begin_on_terminal(&self, columns: u32, command: &str) -> Going {
        let windlass = env!("CARGO_BIN_EXE_windlass");
        self.begin_shell(&format!(
            "exec script -qec \"stty cols {columns} rows 24; exec '{windlass}' {command}\" /dev/null"
        ))
    }

    /// A command that goes on, and finds the server at `url`.
    pub(crate) fn begin_by(&self, url: &str, args: &[&str]) -> Going {
        Going::new(self.command().env("WINDLASS_URL", url).args(args))
    }

    /// A command that goes on, to be spoken with.
    pub(crate) fn begin(&self, args: &[&str]) -> Going {
        Going::new(self.command().args(args))
    }

    /// Stops the server by SIGTERM, as an operator does, and returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal(&self.child, Signal::TERM);
        let _watchdog = Watchdog::over(&self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have been stopped, and waited for, before.
        let _ended = self.child.kill();
        let _waited = self.child.wait();
        drop(self.directory.take());
    }
}

/// A command that runs beside the test.
#[derive(Debug)]
pub(crate) struct Going {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    _watchdog: Watchdog,
}

impl Going {
    fn new(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Self { _watchdog: Watchdog::over(&child), child, out, err }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next line on stderr with these words.
    pub(crate) fn heard(&mut self, words: &str) -> String {
        let mut line = String::new();
        while self.err.read_line(&mut line).unwrap() > 0 && !line.contains(words) {
            line.clear();
        }
        line
    }

    /// Stdout up to these words.
    pub(crate) fn seen(&mut self, words: &str) -> String {
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(words.as_bytes()) && self.out.read(&mut byte).expect("stdout is piped") > 0 {
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Ends what the command reads.
    pub(crate) fn hush(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn say(&mut self, words: &str) {
        self.child.stdin.as_mut().unwrap().write_all(words.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    /// Waits until the command, and every process it has started, has closed its stdout.
    pub(crate) fn end(mut self) -> Ended {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        Ended { code: self.child.wait().unwrap().code(), out, err }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Kills a child that hangs, so that the test fails instead of hanging too.
#[derive(Debug)]
struct Watchdog {
    done: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn over(child: &Child) -> Self {
        let pid = Pid::from_child(child);
        let (done, finished) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if finished.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _gone_already = kill_process(pid, Signal::KILL);
            }
        });
        Self { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        self.thread.take().map(JoinHandle::join);
    }
}
