//! A shell command in a process group of its own, with a supervisor that sees to it that it ends with this worker.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_api::payload::Payload;

use super::capture::{Tail, Whole};
use super::facts::{Facts, VARIABLES};
use super::supervise::{self, News, Order};
use crate::output::Output;

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

/// Dropped, all of it is killed.
#[derive(Debug)]
pub(super) struct Running {
    supervisor: Child,
    line: UnixStream,
    group: Pid,
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
    pub(super) async fn start(&self, facts: Facts, payload: &Payload, out: Output) -> io::Result<Running> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let supervisor = self.supervisor(facts, theirs, out)?.spawn()?;
        ours.set_nonblocking(true)?;
        let mut line = UnixStream::from_std(ours)?;
        supervise::send_payload(&mut line, payload.as_bytes()).await?;
        match News::receive(&mut line).await? {
            News::Started(group) => Ok(Running::new(supervisor, line, group, out)),
            News::NotStarted(error) => Err(error),
            News::Exited(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn supervisor(
        &self,
        facts: Facts,
        line: std::os::unix::net::UnixStream,
        out: Output,
    ) -> io::Result<tokio::process::Command> {
        let mut command = supervise::command(&self.line)?;
        command.stdin(OwnedFd::from(line)).stderr(Stdio::piped()).stdout(self.stdout(out));
        command.env("WINDLASS_URL", &self.url);
        VARIABLES.iter().zip(facts).for_each(|(name, value)| match value {
            Some(value) => drop(command.env(name, value)),
            None => drop(command.env_remove(name)),
        });
        Ok(command)
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

impl Running {
    fn new(mut supervisor: Child, line: UnixStream, group: Pid, out: Output) -> Self {
        let (printed, tail) = (Arc::<Mutex<Whole>>::default(), Arc::<Mutex<Tail>>::default());
        let (mut reading, has_exited) = (JoinSet::new(), watch::Sender::new(false));
        // Its own are those of the command.
        if let Some(stdout) = supervisor.stdout.take() {
            let printed = Arc::clone(&printed);
            reading.spawn(drain(stdout, has_exited.subscribe(), move |words| lock(&printed).push(words)));
        }
        if let Some(stderr) = supervisor.stderr.take() {
            let tail = Arc::clone(&tail);
            reading.spawn(drain(stderr, has_exited.subscribe(), move |words| {
                out.pass(words);
                lock(&tail).push(words);
            }));
        }
        Self { supervisor, line, group, reading, has_exited, printed, tail }
    }

    /// To be asked once.
    pub(super) async fn exited(&mut self) -> Exited {
        let status = match News::receive(&mut self.line).await {
            Ok(News::Exited(status)) => status,
            // Somebody has killed the supervisor.
            Ok(News::Started(_) | News::NotStarted(_)) | Err(_) => self.supervisor_gone().await,
        };
        self.has_exited.send_replace(true);
        while self.reading.join_next().await.is_some() {}
        let printed = std::mem::take(&mut *lock(&self.printed)).into_bytes();
        Exited { status, printed, tail: lock(&self.tail).text() }
    }

    /// It and all it has started: asks them to end, and ends them after a while, or `now`.
    pub(super) async fn kill(&mut self, kill_after: Duration, now: impl Future<Output = ()>) {
        let _supervisor_gone = Order::End.send(&mut self.line).await;
        let gone = tokio::select! {
            gone = timeout(kill_after, self.supervisor_gone()) => gone.is_ok(),
            () = now => false,
        };
        if !gone {
            let _supervisor_gone = Order::Kill.send(&mut self.line).await;
            self.supervisor_gone().await;
        }
    }

    /// It ends after the command, unless it is killed: then the command must not go on by itself.
    async fn supervisor_gone(&mut self) -> ExitStatus {
        let status = self.supervisor.wait().await.expect("a child of our own can be waited for");
        if !status.success() {
            let _gone_already = kill_process_group(self.group, Signal::KILL);
        }
        status
    }
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
