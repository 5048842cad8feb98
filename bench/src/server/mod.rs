//! The processes of a server: started, watched, halted while others are measured, and ended.

pub(crate) mod launch;
pub(crate) mod limits;
pub(crate) mod place;
pub(crate) mod programs;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod user;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

/// How long a server may take to start: RabbitMQ needs ten seconds on two busy cores.
const START_TIMEOUT: Duration = Duration::from_secs(90);
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a script takes to see that its server has ended.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);
/// Lines of a server's log that an error shows.
const LOG_LINES: usize = 12;

/// A running server. Dropping it ends its processes.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    child: Child,
    /// Processes that the server needs and does not start itself.
    others: Vec<Server>,
    log: PathBuf,
    /// The signal that makes the server end at once and leave nothing behind.
    end_signal: Signal,
}

impl Server {
    pub(crate) fn with(mut self, other: Server) -> Self {
        self.others.push(other);
        self
    }

    /// All processes of the server, children of children included.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut pids = tree::descendants(self.child.id());
        pids.extend(self.others.iter().flat_map(Server::pids));
        pids
    }

    /// Stops the processes of an idle server (SIGSTOP), so that they take no processor time from the one that is measured.
    pub(crate) fn halt(&self) {
        self.signal_all(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.pids() {
            send(pid, signal);
        }
    }

    pub(crate) async fn wait_for_port(&self, address: SocketAddr) -> Result<()> {
        self.wait_until(async || TcpStream::connect(address).await.is_ok()).await
    }

    /// Waits until `ready` says so; fails with the server's log if its process ends or takes too long.
    pub(crate) async fn wait_until(&self, ready: impl AsyncFn() -> bool) -> Result<()> {
        let began = Instant::now();
        while !ready().await {
            if tree::has_ended(self.child.id()) {
                bail!("{} ended at its start; its log says:\n{}", self.name, self.log_tail());
            }
            if began.elapsed() > START_TIMEOUT {
                let seconds = START_TIMEOUT.as_secs();
                bail!("{} was not ready after {seconds} s; its log says:\n{}", self.name, self.log_tail());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Waits until the process has ended, at most `timeout`, and tells whether it has.
    fn ended_within(&mut self, timeout: Duration) -> bool {
        let began = Instant::now();
        loop {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            if began.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pids = tree::descendants(self.child.id());
        self.wake();
        if self.end_signal != Signal::KILL {
            send(self.child.id(), self.end_signal);
            self.ended_within(END_TIMEOUT);
        }
        // Children first: a script that started the server then sees it end, and ends by itself.
        pids.iter().skip(1).rev().for_each(|pid| send(*pid, Signal::KILL));
        if pids.len() == 1 || !self.ended_within(SCRIPT_TIMEOUT) {
            send(self.child.id(), Signal::KILL);
        }
        let _ended = self.child.wait();
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return };
    let _may_be_gone = kill_process(pid, signal);
}
