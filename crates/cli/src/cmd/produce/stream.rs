//! Batches from stdin to the server, several at a time.

use std::io;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::fs::FileType;
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_api::items::{NewItem, ProduceReply, ProduceRequest};
use windlass_client::{Client, ClientError, Outcome};

use super::lines::{BadLine, Batch, Limits, Lines};
use crate::exit::{Exit, Failure};
use crate::human::{count, counted, length};
use crate::output::Output;

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) client: Client,
    pub(super) queue: String,
    pub(super) defaults: NewItem,
    pub(super) limits: Limits,
    pub(super) in_flight: usize,
}

/// What became of one batch.
#[derive(Debug)]
struct Sent {
    bytes: u64,
    produced: u64,
    troubles: Vec<Failure>,
}

#[derive(Debug, Default, Serialize)]
struct Tally {
    produced: u64,
    #[serde(skip)]
    troubles: Vec<Failure>,
}

impl Stream {
    pub(super) async fn run(self, out: Output) -> Result<Exit, Failure> {
        let interrupts = signal(SignalKind::interrupt());
        let interrupts =
            interrupts.map_err(|error| Failure::local(format!("cannot hear signals: {error}")))?;
        let began = Instant::now();
        let progress = out.progress(input_bytes());
        progress.enable_steady_tick(Duration::from_millis(200));
        let tally = self.send_all(interrupts, &progress).await;
        progress.finish_and_clear();
        let produced = counted(tally.produced, "item");
        if tally.troubles.is_empty() || out.json() {
            out.reply(&tally, |_| format!("{produced} produced in {}\n", length(began.elapsed())))?;
        }
        match tally.failure() {
            None => Ok(Exit::Done),
            Some((failure, whys)) => {
                Err(failure.retold(format!("{whys}\nproduced before it stopped: {produced}")))
            }
        }
    }

    /// Ends when everything was sent, or at the first trouble when what was under way by then has been answered.
    async fn send_all(&self, mut interrupts: Signal, progress: &ProgressBar) -> Tally {
        let mut tally = Tally::default();
        let mut batches = self.read();
        let mut under_way = JoinSet::new();
        let mut more = true;
        while more || !under_way.is_empty() {
            let room = under_way.len() < self.in_flight;
            tokio::select! {
                next = batches.recv(), if more && room => match next {
                    Some(Ok(batch)) => {
                        under_way.spawn(send(self.client.clone(), self.queue.clone(), batch));
                    }
                    Some(Err(bad)) => tally.troubles.push(told(&bad)),
                    None => more = false,
                },
                Some(sent) = under_way.join_next() => {
                    let sent = sent.expect("sending does not panic");
                    progress.inc(sent.bytes);
                    tally.add(sent);
                    progress.set_message(rate(tally.produced, progress.elapsed()));
                }
                Some(()) = interrupts.recv() => {
                    let again = !more;
                    tally.troubles.push(if again { interrupted_again() } else { Failure::interrupted("interrupted") });
                    if again {
                        return tally;
                    }
                }
            }
            more &= tally.troubles.is_empty();
        }
        tally
    }

    /// Reads on a thread that may wait for the input as long as it likes.
    fn read(&self) -> mpsc::Receiver<Result<Batch, BadLine>> {
        let (sender, receiver) = mpsc::channel(1);
        let mut lines = Lines::new(io::stdin(), self.defaults.clone(), self.limits);
        tokio::task::spawn_blocking(move || lines.try_for_each(|batch| sender.blocking_send(batch)));
        receiver
    }
}

impl Tally {
    fn add(&mut self, sent: Sent) {
        self.produced += sent.produced;
        self.troubles.extend(sent.troubles);
    }

    /// The worst, and what there is to say of all. Not knowing is worse than failing.
    fn failure(mut self) -> Option<(Failure, String)> {
        let whys: Vec<String> = self.troubles.iter().map(ToString::to_string).collect();
        let unknown = self.troubles.iter().position(|trouble| trouble.exit == Exit::Unknown);
        let worst = unknown.unwrap_or_default();
        (worst < self.troubles.len()).then(|| (self.troubles.swap_remove(worst), whys.join("\n")))
    }
}

async fn send(client: Client, queue: String, batch: Batch) -> Sent {
    let Batch { items, lines, bytes } = batch;
    let request = ProduceRequest { queue, request_timeout: None, items };
    let (produced, troubles) = match client.call(&request).await {
        Ok(reply) => judged(&reply, &lines),
        Err(error) => (0, vec![refused(error, &lines)]),
    };
    Sent { bytes: bytes as u64, produced, troubles }
}

/// Items can be refused one by one.
fn judged(reply: &ProduceReply, lines: &[u64]) -> (u64, Vec<Failure>) {
    let errors = reply.items.iter().zip(lines).filter_map(|(item, line)| Some((item.error.as_ref()?, line)));
    let troubles: Vec<Failure> = errors
        .map(|(error, line)| Failure::local(format!("line {line}: {} ({})", error.message, error.code)))
        .collect();
    ((reply.items.len() - troubles.len()) as u64, troubles)
}

fn refused(error: ClientError, lines: &[u64]) -> Failure {
    let unknown = error.outcome() == Outcome::Unknown;
    let failure = Failure::from(error);
    let fate = if unknown { "may or may not have been produced" } else { "were not produced" };
    let message = with_line(&failure.to_string(), lines);
    let (first, last) =
        (lines.first().copied().unwrap_or_default(), lines.last().copied().unwrap_or_default());
    failure.retold(format!("lines {first} to {last} {fate}: {message}"))
}

/// The server speaks of `items[3]`: the reader wants to know the line.
fn with_line(message: &str, lines: &[u64]) -> String {
    let number = message.split_once("items[").and_then(|(_, rest)| rest.split_once(']'));
    let index = number.and_then(|(number, _)| number.parse::<usize>().ok());
    match index.and_then(|index| lines.get(index)) {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_owned(),
    }
}

fn told(bad: &BadLine) -> Failure {
    Failure::usage(format!(
        "line {}: {}. What stands before it was sent: go on from there",
        bad.line, bad.why
    ))
}

fn interrupted_again() -> Failure {
    Failure::new(Exit::Unknown, "interrupted again: what was under way may or may not have been produced")
}

fn rate(produced: u64, elapsed: Duration) -> String {
    let per_second = produced as f64 / elapsed.as_secs_f64().max(0.001);
    format!("{}, {}/s", counted(produced, "item"), count(per_second as u64))
}

/// Known if stdin is a file.
fn input_bytes() -> Option<u64> {
    let stat = rustix::fs::fstat(io::stdin()).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| u64::try_from(stat.st_size).unwrap_or_default())
}
