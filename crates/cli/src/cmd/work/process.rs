//! A shell command in a process group of its own.

use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
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
/// Nobody is told when the last process of a group ends that is no child of ours: it is looked for this often.
const GROUP_PAUSE: Duration = Duration::from_millis(20);
const BUFFER_BYTES: usize = 8 << 10;
/// The most that the system keeps in a pipe, in buffers.
const BUFFERS_LEFT_MAX: usize = (1 << 20) / BUFFER_BYTES;

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
    /// Ends with this.
    _feeding: JoinSet<()>,
    /// From its stdout and stderr.
    reading: JoinSet<()>,
    /// Whether the shell has.
    has_exited: watch::Sender<bool>,
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
    pub(super) fn start(
        &self,
        queue: &str,
        item: &LeasedItem,
        payload: &Payload,
        out: Output,
    ) -> io::Result<Running> {
        let mut command = tokio::process::Command::new("/bin/sh");
        command.arg("-c").arg(&self.line).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(self.stdout(out));
        command.env("WINDLASS_URL", &self.url);
        VARIABLES.iter().zip(facts(queue, item)).for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        let child = command.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.expect("a child that nobody has waited for has an id");
        Ok(Running::new(child, group, payload.clone(), out))
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
    fn new(mut child: Child, group: Pid, payload: Payload, out: Output) -> Self {
        let (printed, tail) = (Arc::<Mutex<Whole>>::default(), Arc::<Mutex<Tail>>::default());
        let (mut feeding, mut reading) = (JoinSet::new(), JoinSet::new());
        let has_exited = watch::Sender::new(false);
        if let Some(stdin) = child.stdin.take() {
            feeding.spawn(feed(stdin, payload));
        }
        if let Some(stdout) = child.stdout.take() {
            let printed = Arc::clone(&printed);
            reading.spawn(drain(stdout, has_exited.subscribe(), move |words| lock(&printed).push(words)));
        }
        if let Some(stderr) = child.stderr.take() {
            let tail = Arc::clone(&tail);
            reading.spawn(drain(stderr, has_exited.subscribe(), move |words| {
                out.pass(words);
                lock(&tail).push(words);
            }));
        }
        Self { child, group, _feeding: feeding, reading, has_exited, printed, tail }
    }

    /// May be dropped and asked again.
    pub(super) async fn exited(&mut self) -> Exited {
        let status = self.child.wait().await.expect("a child of our own can be waited for");
        self.has_exited.send_replace(true);
        while self.reading.join_next().await.is_some() {}
        let printed = std::mem::take(&mut *lock(&self.printed)).into_bytes();
        Exited { status, printed, tail: lock(&self.tail).text() }
    }

    /// It and all it has started: asks them to end, and ends them after a while, or `now`.
    pub(super) async fn kill(&mut self, kill_after: Duration, now: impl Future<Output = ()>) {
        let _gone_already = kill_process_group(self.group, Signal::TERM);
        let gone = tokio::select! {
            gone = timeout(kill_after, self.gone()) => gone.is_ok(),
            () = now => false,
        };
        if !gone {
            let _gone_already = kill_process_group(self.group, Signal::KILL);
            let _waited_for = self.child.wait().await;
        }
    }

    async fn gone(&mut self) {
        let _waited_for = self.child.wait().await;
        while test_kill_process_group(self.group).is_ok() {
            sleep(GROUP_PAUSE).await;
        }
    }
}

async fn feed(mut stdin: ChildStdin, payload: Payload) {
    // A command need not read what it is given.
    let _not_wanted = stdin.write_all(payload.as_bytes()).await;
}

/// A process left in the background may keep the pipe open: when the shell has exited, only what is there is read.
async fn drain(
    mut pipe: impl AsyncRead + AsFd + Unpin,
    mut has_exited: watch::Receiver<bool>,
    mut each: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = tokio::select! {
            read = pipe.read(&mut buffer) => read,
            _ = has_exited.wait_for(|exited| *exited) => break,
        };
        match read {
            Ok(read @ 1..) => each(&buffer[..read]),
            Ok(0) | Err(_) => return,
        }
    }
    // From the system itself: tokio may not know yet that there is something. The pipe does not block.
    for _ in 0..BUFFERS_LEFT_MAX {
        match rustix::io::read(&pipe, &mut buffer[..]) {
            Ok(read @ 1..) => each(&buffer[..read]),
            Ok(0) | Err(_) => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}
