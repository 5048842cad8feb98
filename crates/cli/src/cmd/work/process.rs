//! A shell command in a process group of its own.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_api::items::LeasedItem;
use windlass_api::payload::Payload;

use super::capture::{Tail, Whole};
use crate::output::Output;

/// What the command is told, beside `WINDLASS_URL`.
pub(crate) const VARIABLES: [&str; 9] = [
    "WINDLASS_QUEUE",
    "WINDLASS_ITEM_ID",
    "WINDLASS_PERMIT",
    "WINDLASS_KIND",
    "WINDLASS_PRIORITY",
    "WINDLASS_ATTEMPTS",
    "WINDLASS_CREATED_AT",
    "WINDLASS_HEADERS",
    "WINDLASS_REFERENCE",
];
/// A process left in the background may keep the pipes open: the item does not wait for it.
const PIPES_GRACE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Command {
    pub(super) line: String,
    pub(super) url: String,
    /// Whether stdout is kept, or passed on.
    pub(super) captures: bool,
}

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    group: Pid,
    /// To its stdin, and from its stdout and stderr.
    pipes: JoinSet<()>,
    printed: Arc<Mutex<Whole>>,
    tail: Arc<Mutex<Tail>>,
}

#[derive(Debug)]
pub(super) struct Exited {
    pub(super) status: ExitStatus,
    /// None if it was too much.
    pub(super) printed: Option<Vec<u8>>,
    pub(super) tail: String,
}

impl Command {
    pub(super) fn start(&self, queue: &str, item: LeasedItem, out: Output) -> io::Result<Running> {
        let mut command = tokio::process::Command::new("/bin/sh");
        command.arg("-c").arg(&self.line).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(self.stdout(out));
        command.env("WINDLASS_URL", &self.url);
        VARIABLES.iter().zip(facts(queue, &item)).for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.expect("a child that nobody has waited for has an id");
        Ok(Running::new(child, group, item, out))
    }

    fn stdout(&self, out: Output) -> Stdio {
        if self.captures {
            Stdio::piped()
        } else if out.json() {
            // There stands one document on stdout, and nothing else.
            io::stderr().into()
        } else {
            Stdio::inherit()
        }
    }
}

/// In the order of [`VARIABLES`].
fn facts(queue: &str, item: &LeasedItem) -> [Option<String>; 9] {
    let headers = serde_json::to_string(&item.headers).expect("texts can be written");
    [
        Some(queue.to_owned()),
        Some(item.id.clone()),
        Some(item.permit.to_string()),
        Some(item.kind.clone()),
        Some(item.priority.to_string()),
        Some(item.attempts.to_string()),
        Some(item.created_at.to_string()),
        Some(headers),
        item.reference.clone(),
    ]
}

impl Running {
    fn new(mut child: Child, group: Pid, item: LeasedItem, out: Output) -> Self {
        let (printed, tail) = (Arc::<Mutex<Whole>>::default(), Arc::<Mutex<Tail>>::default());
        let mut pipes = JoinSet::new();
        if let Some(stdin) = child.stdin.take() {
            pipes.spawn(feed(stdin, Payload { json: item.json, utf8: item.utf8, bytes: item.bytes }));
        }
        if let Some(stdout) = child.stdout.take() {
            let printed = Arc::clone(&printed);
            pipes.spawn(drain(stdout, move |words| lock(&printed).push(words)));
        }
        if let Some(stderr) = child.stderr.take() {
            let tail = Arc::clone(&tail);
            pipes.spawn(drain(stderr, move |words| {
                out.pass(words);
                lock(&tail).push(words);
            }));
        }
        Self { child, group, pipes, printed, tail }
    }

    /// May be dropped and asked again.
    pub(super) async fn exited(&mut self) -> Exited {
        let status = self.child.wait().await.expect("a child of our own can be waited for");
        let read_all = async { while self.pipes.join_next().await.is_some() {} };
        let _left_behind = timeout(PIPES_GRACE, read_all).await;
        let printed = std::mem::take(&mut *lock(&self.printed)).into_bytes();
        Exited { status, printed, tail: lock(&self.tail).text() }
    }

    /// It and all it has started.
    pub(super) async fn kill(mut self, kill_after: Duration) {
        let _gone_already = kill_process_group(self.group, Signal::TERM);
        let _still_there = timeout(kill_after, self.child.wait()).await;
        let _gone_already = kill_process_group(self.group, Signal::KILL);
        let _waited_for = self.child.wait().await;
    }
}

async fn feed(mut stdin: ChildStdin, payload: Payload) {
    // A command need not read what it is given.
    let _not_wanted = stdin.write_all(payload.as_bytes()).await;
}

async fn drain(mut pipe: impl AsyncRead + Unpin, mut each: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        each(&buffer[..read]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}
