//! Batches from stdin to the server, several at a time.

use std::io;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::fs::FileType;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_api::error::UNKNOWN;
use windlass_api::items::{NewItem, ProduceError, ProduceReply, ProduceRequest};
use windlass_client::{Client, ClientError, Outcome};

use super::fates::{Fate, Fates, Lines};
use super::lines::{self, BadLine, Batch, Limits};
use crate::exit::{Exit, Failure};
use crate::human::{count, counted, length};
use crate::output::Output;
use crate::remote::failed;
use crate::signals::Signals;

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
    lines: Lines,
    bytes: u64,
    produced: u64,
    fates: Vec<(Lines, Fate)>,
    troubles: Vec<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    /// Where it is, so that they can be told in order.
    line: u64,
    failure: Failure,
}

#[derive(Debug, Default, Serialize)]
struct Tally {
    /// Items, not lines: some lines are blank.
    produced: u64,
    #[serde(flatten)]
    fates: Fates,
    /// Batches that were not answered yet.
    #[serde(skip)]
    under_way: Vec<Lines>,
    #[serde(skip)]
    troubles: Vec<Trouble>,
}

impl Stream {
    pub(super) async fn run(self, out: Output) -> Result<Exit, Failure> {
        let signals = Signals::hear()?;
        let began = Instant::now();
        let progress = out.progress(input_bytes());
        progress.enable_steady_tick(Duration::from_millis(200));
        let mut tally = self.send_all(signals, &progress).await;
        tally.close();
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
    async fn send_all(&self, mut signals: Signals, progress: &ProgressBar) -> Tally {
        let mut tally = Tally::default();
        let mut batches = self.read();
        let mut under_way = JoinSet::new();
        let mut more = true;
        while more || !under_way.is_empty() {
            let room = under_way.len() < self.in_flight;
            tokio::select! {
                next = batches.recv(), if more && room => match next {
                    Some(Ok(batch)) => {
                        let lines = tally.send(&batch);
                        under_way.spawn(send(self.client.clone(), self.queue.clone(), batch, lines));
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
                _ = signals.asked() => {
                    let again = !more;
                    let failure = if again { interrupted_again() } else { Failure::interrupted("interrupted") };
                    tally.troubles.push(Trouble { line: u64::MAX, failure });
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
        let mut lines = lines::Lines::new(io::stdin(), self.defaults.clone(), self.limits);
        tokio::task::spawn_blocking(move || lines.try_for_each(|batch| sender.blocking_send(batch)));
        receiver
    }
}

impl Tally {
    fn send(&mut self, batch: &Batch) -> Lines {
        let last = batch.lines.last().copied().expect("no batch is empty");
        let lines = self.fates.send(last);
        self.under_way.push(lines);
        lines
    }

    fn add(&mut self, sent: Sent) {
        self.under_way.retain(|lines| *lines != sent.lines);
        self.produced += sent.produced;
        sent.fates.into_iter().for_each(|(lines, fate)| self.fates.add(lines, fate));
        self.troubles.extend(sent.troubles);
    }

    /// What was not answered never will be.
    fn close(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        under_way.into_iter().for_each(|lines| self.fates.add(lines, Fate::Unknown));
        self.troubles.sort_by_key(|trouble| trouble.line);
    }

    /// The worst, and what there is to say of all. Not knowing is worse than failing.
    fn failure(mut self) -> Option<(Failure, String)> {
        let mut whys: Vec<String> = self.troubles.iter().map(|trouble| trouble.failure.to_string()).collect();
        whys.push(self.fates.shown());
        let unknown = self.troubles.iter().position(|trouble| trouble.failure.exit == Exit::Unknown);
        let worst = unknown.unwrap_or_default();
        (worst < self.troubles.len()).then(|| (self.troubles.swap_remove(worst).failure, whys.join("\n")))
    }
}

async fn send(client: Client, queue: String, batch: Batch, lines: Lines) -> Sent {
    let Batch { items, lines: numbers, bytes } = batch;
    let request = ProduceRequest { queue, request_timeout: None, items };
    let answer = client.call(&request).await;
    let sent = Sent { lines, bytes: bytes as u64, produced: 0, fates: Vec::new(), troubles: Vec::new() };
    match answer {
        Ok(reply) => sent.judged(&reply, &numbers),
        Err(error) => sent.refused(&request, error, &numbers),
    }
}

impl Sent {
    /// Items can be refused one by one.
    fn judged(mut self, reply: &ProduceReply, numbers: &[u64]) -> Self {
        let mut from = self.lines.from;
        for (item, &line) in reply.items.iter().zip(numbers) {
            let fate = match &item.error {
                None => Fate::Produced,
                Some(error) => {
                    let message = format!("line {line}: {} ({})", error.message, error.code);
                    self.troubles.push(Trouble { line, failure: Failure::local(message) });
                    fate_of(error)
                }
            };
            self.produced += u64::from(fate == Fate::Produced);
            self.fates.push((Lines { from, to: line }, fate));
            from = line + 1;
        }
        self
    }

    fn refused(mut self, request: &ProduceRequest, error: ClientError, numbers: &[u64]) -> Self {
        let (fate, what) = match error.outcome() {
            Outcome::Unknown => (Fate::Unknown, "may or may not be produced"),
            Outcome::NotApplied => (Fate::NotProduced, "not produced"),
        };
        let failure = failed(request, error);
        let message = format!("{}, {what}: {}", self.lines, with_line(&failure.to_string(), numbers));
        self.troubles.push(Trouble { line: self.lines.from, failure: failure.retold(message) });
        self.fates.push((self.lines, fate));
        self
    }
}

fn fate_of(error: &ProduceError) -> Fate {
    let outcome = error.details.as_ref().and_then(|details| details.outcome.as_deref());
    if outcome == Some(UNKNOWN) { Fate::Unknown } else { Fate::NotProduced }
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

fn told(bad: &BadLine) -> Trouble {
    let failure = Failure::usage(format!("line {}: {}", bad.line, bad.why));
    Trouble { line: bad.line, failure }
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
