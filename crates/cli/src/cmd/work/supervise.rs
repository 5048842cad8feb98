//! `windlass supervise`: stands between a worker and the command of one item, so that the command never outlives the
//! worker: not even one that was killed, and could not end anything any more.
//!
//! Its stdin is a socket to the worker, and what they say to each other is all here. The worker sends the payload, then
//! orders; it is told that the command has started, and how its shell ended. When the worker's side is closed, for
//! whatever reason, all that the command has started is killed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::ChildStdin;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::exit::{Exit, Failure};
use crate::signals::Signals;

const NAME: &str = "supervise";
/// Nobody is told when the last process of a group ends that is no child of ours: it is looked for this often.
const GROUP_PAUSE: Duration = Duration::from_millis(20);
/// What is still there so long after SIGKILL cannot be ended by anybody.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// What a worker wants of all that the command has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// To end, in its own time.
    End,
    /// To be gone.
    Kill,
}

/// What a worker is told.
#[derive(Debug)]
pub(super) enum News {
    /// In a process group of this number.
    Started(Pid),
    NotStarted(io::Error),
    /// The shell has. What it has left in the background goes on, unless there was an order.
    Exited(ExitStatus),
}

/// As a worker starts it: the very program that runs, whatever has become of its file since.
pub(super) fn command(line: &str) -> io::Result<tokio::process::Command> {
    let linux = cfg!(target_os = "linux");
    let program = if linux { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = tokio::process::Command::new(program);
    // What a terminal sends to the worker's group is not for it.
    command.arg0("windlass").arg(NAME).arg(line).process_group(0);
    Ok(command)
}

pub(super) async fn send_payload(to: &mut (impl AsyncWrite + Unpin), payload: &[u8]) -> io::Result<()> {
    to.write_u64(payload.len() as u64).await?;
    to.write_all(payload).await
}

async fn receive_payload(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let bytes = from.read_u64().await?;
    let mut payload = Vec::new();
    from.take(bytes).read_to_end(&mut payload).await?;
    if payload.len() as u64 == bytes { Ok(payload) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Order {
    pub(super) async fn send(self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let word = match self {
            Self::End => b'E',
            Self::Kill => b'K',
        };
        to.write_u8(word).await
    }

    /// May be dropped and asked again.
    async fn receive(from: &mut (impl AsyncRead + Unpin)) -> Self {
        match from.read_u8().await {
            Ok(b'E') => Self::End,
            // The worker is gone, or has let go.
            Ok(_) | Err(_) => Self::Kill,
        }
    }

    fn carry_out(self, group: Pid) {
        let signal = match self {
            Self::End => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        };
        let _gone_already = kill_process_group(group, signal);
    }
}

impl News {
    async fn send(self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (word, number) = match self {
            Self::Started(group) => (b'S', group.as_raw_pid()),
            Self::NotStarted(error) => (b'N', error.raw_os_error().unwrap_or_default()),
            Self::Exited(status) => (b'X', status.into_raw()),
        };
        to.write_u8(word).await?;
        to.write_i32(number).await
    }

    pub(super) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let (word, number) = (from.read_u8().await?, from.read_i32().await?);
        let news = match word {
            b'S' => Pid::from_raw(number).map(Self::Started),
            b'N' => Some(Self::NotStarted(io::Error::from_raw_os_error(number))),
            b'X' => Some(Self::Exited(ExitStatus::from_raw(number))),
            _ => None,
        };
        news.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The line to run. No command like the others: it is for workers, and shows up nowhere else.
pub(crate) fn asked() -> Option<OsString> {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().filter(|name| name == NAME).and_then(|_| arguments.next())
}

pub(crate) fn run(line: &OsStr) -> Result<Exit, Failure> {
    let failed = |error: io::Error| Failure::local(format!("cannot supervise the command: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        // Whoever ends a worker often signals all it has started: this one ends after the command, whatever comes.
        let _heard = Signals::hear()?;
        supervise(line).await.map_err(failed)?;
        Ok(Exit::Done)
    })
}

async fn supervise(line: &OsStr) -> io::Result<()> {
    let worker = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    worker.set_nonblocking(true)?;
    let mut worker = UnixStream::from_std(worker)?;
    let payload = receive_payload(&mut worker).await?;
    adopt_orphans()?;
    let ends = signal(SignalKind::child())?;
    let mut child = match start(line) {
        Ok(child) => child,
        Err(error) => return News::NotStarted(error).send(&mut worker).await,
    };
    let shell = Pid::from_child(&child);
    let mut feeding = JoinSet::new();
    if let Some(stdin) = child.stdin.take() {
        feeding.spawn(feed(ChildStdin::from_std(stdin)?, payload));
    }
    // If it does not hear this it is gone, and that is heard next.
    let _worker_gone = News::Started(shell).send(&mut worker).await;
    let mut family = Family { shell, ends };
    let order = tokio::select! {
        biased;
        status = family.exited() => return News::Exited(status).send(&mut worker).await,
        order = Order::receive(&mut worker) => order,
    };
    end(&mut family, order, &mut worker).await;
    Ok(())
}

fn start(line: &OsStr) -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(line).process_group(0).stdin(Stdio::piped()).spawn()
}

async fn feed(mut stdin: ChildStdin, payload: Vec<u8>) {
    // A command need not read what it is given.
    let _not_wanted = stdin.write_all(&payload).await;
}

/// So that nothing that has ended counts as running only because nobody asks how it ended.
fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

async fn end(family: &mut Family, mut order: Order, worker: &mut UnixStream) {
    loop {
        order.carry_out(family.shell);
        tokio::select! {
            () = family.gone() => return,
            next = Order::receive(worker), if order == Order::End => order = next,
            () = sleep(KILL_PATIENCE), if order == Order::Kill => return,
        }
    }
}

/// The command, and all it has started.
struct Family {
    /// Leads the process group.
    shell: Pid,
    /// Of children.
    ends: Signal,
}

impl Family {
    async fn exited(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.reap() {
                return status;
            }
            self.ends.recv().await;
        }
    }

    async fn gone(&mut self) {
        loop {
            self.reap();
            // One that may not be signalled counts as gone: nothing can be done about it.
            if test_kill_process_group(self.shell).is_err() {
                return;
            }
            tokio::select! {
                _ = self.ends.recv() => {}
                () = sleep(GROUP_PAUSE) => {}
            }
        }
    }

    /// All children that have ended; and how the shell did, if it is among them.
    fn reap(&mut self) -> Option<ExitStatus> {
        let mut shell = None;
        while let Ok(Some((child, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if child == self.shell {
                shell = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
        shell
    }
}
