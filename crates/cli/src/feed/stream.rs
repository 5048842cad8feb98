//! Batches to the server, several at a time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::ser::{Serialize, SerializeMap, Serializer};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_api::items::ProduceError;
use windlass_client::{Client, ClientError, Outcome};

use super::fates::{Fate, Fates, Lines};
use super::lines::{self, BadLine, Batch, Limits};
use super::{Feed, Input, PassedOver};
use crate::exit::{Exit, Failure};
use crate::human::{count, counted, length};
use crate::output::Output;
use crate::remote::failed;
use crate::signals::Signals;

/// So many items that were refused by themselves are told with their reasons; of others it is told which they are.
const REFUSED_TOLD_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Stream<F> {
    pub(crate) client: Client,
    pub(crate) feed: F,
    pub(crate) limits: Limits,
    pub(crate) in_flight: usize,
}

/// What became of one batch.
#[derive(Debug)]
struct Sent {
    lines: Lines,
    bytes: u64,
    done: u64,
    fates: Vec<(Lines, Fate)>,
    refused: Vec<Trouble>,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    /// Where it is, so that they can be told in order.
    line: u64,
    failure: Failure,
}

#[derive(Debug)]
struct Tally {
    /// The word for what is done to items.
    word: &'static str,
    /// Items, not lines: some lines are blank.
    done: u64,
    fates: Fates,
    /// Batches that were not answered yet.
    under_way: Vec<Lines>,
    troubles: Vec<Trouble>,
    /// Items that were refused by themselves.
    refused: u64,
    /// Nothing more is sent.
    stopped: bool,
    /// Lines that were read and hold no item to send.
    passed_over: Vec<PassedOver>,
}

impl<F: Feed> Stream<F> {
    pub(crate) async fn run(self, input: Input, out: Output) -> Result<Exit, Failure> {
        let signals = Signals::hear()?;
        let began = Instant::now();
        let progress = out.progress(input.bytes);
        progress.enable_steady_tick(Duration::from_millis(200));
        let mut tally = self.send_all(input, signals, &progress).await;
        tally.close();
        tally.passed_over = self.feed.passed_over();
        progress.finish_and_clear();
        if tally.troubles.is_empty() || out.json() {
            let shown = |_| {
                let passed_over = tally.lines_passed_over().map(|line| line + "\n").unwrap_or_default();
                format!("{} in {}\n{passed_over}", tally.items_done(), length(began.elapsed()))
            };
            out.reply(&tally, shown)?;
        }
        match tally.failure() {
            None => Ok(Exit::Done),
            Some(failure) => Err(failure),
        }
    }

    /// Ends when everything was sent, or at a trouble that stops it when what was under way by then has been answered.
    async fn send_all(&self, input: Input, mut signals: Signals, progress: &ProgressBar) -> Tally {
        let mut tally = Tally::new(F::DONE);
        let mut batches = self.read(input);
        let mut under_way = JoinSet::new();
        let mut more = true;
        while more || !under_way.is_empty() {
            let room = under_way.len() < self.in_flight;
            tokio::select! {
                next = batches.recv(), if more && room => match next {
                    Some(Ok(batch)) => {
                        let lines = tally.send(&batch);
                        under_way.spawn(send(self.client.clone(), self.feed.clone(), batch, lines));
                    }
                    Some(Err(bad)) => tally.stop(told(&bad)),
                    None => {
                        tally.fates.all_sent = true;
                        more = false;
                    }
                },
                Some(sent) = under_way.join_next() => {
                    let sent = sent.expect("sending does not panic");
                    progress.inc(sent.bytes);
                    tally.add(sent, F::GOES_ON);
                    progress.set_message(rate(tally.done, progress.elapsed()));
                }
                _ = signals.asked() => {
                    let again = !more;
                    let failure = if again { interrupted_again(F::DONE) } else { Failure::interrupted("interrupted") };
                    tally.stop(Trouble { line: u64::MAX, failure });
                    if again {
                        return tally;
                    }
                }
            }
            more &= !tally.stopped;
        }
        tally
    }

    /// Reads on a thread that may wait for the input as long as it likes.
    fn read(&self, input: Input) -> mpsc::Receiver<Result<Batch<F::Item>, BadLine>> {
        let (sender, receiver) = mpsc::channel(1);
        let (feed, limits) = (self.feed.clone(), self.limits);
        tokio::task::spawn_blocking(move || {
            let mut lines = lines::Lines::new(input.reader, |line: &[u8]| feed.parse(line), limits);
            lines.try_for_each(|batch| sender.blocking_send(batch))
        });
        receiver
    }
}

impl Tally {
    fn new(word: &'static str) -> Self {
        Self {
            word,
            done: 0,
            fates: Fates::default(),
            under_way: Vec::new(),
            troubles: Vec::new(),
            refused: 0,
            stopped: false,
            passed_over: Vec::new(),
        }
    }

    fn send<T>(&mut self, batch: &Batch<T>) -> Lines {
        let last = batch.lines.last().copied().expect("no batch is empty");
        let lines = self.fates.send(last);
        self.under_way.push(lines);
        lines
    }

    fn add(&mut self, sent: Sent, goes_on: bool) {
        self.under_way.retain(|lines| *lines != sent.lines);
        self.done += sent.done;
        sent.fates.into_iter().for_each(|(lines, fate)| self.fates.add(lines, fate));
        for refused in sent.refused {
            self.refuse(refused, goes_on);
        }
        if let Some(trouble) = sent.trouble {
            self.stop(trouble);
        }
    }

    fn refuse(&mut self, refused: Trouble, goes_on: bool) {
        self.refused += 1;
        self.stopped |= !goes_on;
        if self.refused <= REFUSED_TOLD_MAX as u64 {
            self.troubles.push(refused);
        }
    }

    fn stop(&mut self, trouble: Trouble) {
        self.troubles.push(trouble);
        self.stopped = true;
    }

    /// What was not answered never will be.
    fn close(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        under_way.into_iter().for_each(|lines| self.fates.add(lines, Fate::Unknown));
        self.troubles.sort_by_key(|trouble| trouble.line);
    }

    /// `12 items produced`.
    fn items_done(&self) -> String {
        format!("{} {}", counted(self.done, "item"), self.word)
    }

    /// `passed over: 2 groups, 1 event`.
    fn lines_passed_over(&self) -> Option<String> {
        let shown: Vec<String> =
            self.passed_over.iter().map(|passed| counted(passed.lines, passed.what)).collect();
        (!shown.is_empty()).then(|| format!("passed over: {}", shown.join(", ")))
    }

    /// The worst, with what there is to say of all.
    fn failure(mut self) -> Option<Failure> {
        let whys = self.whys();
        let troubles = self.troubles.iter().enumerate();
        let (worst, _) = troubles.min_by_key(|(_, trouble)| rank(trouble.failure.exit))?;
        Some(self.troubles.swap_remove(worst).failure.retold(whys))
    }

    fn whys(&self) -> String {
        let mut whys: Vec<String> = self.troubles.iter().map(|trouble| trouble.failure.to_string()).collect();
        let untold = self.refused.saturating_sub(REFUSED_TOLD_MAX as u64);
        if untold > 0 {
            whys.push(format!("{} more refused", counted(untold, "item")));
        }
        whys.push(self.fates.shown(self.word));
        whys.extend(self.lines_passed_over());
        let (word, done) = (self.word, counted(self.done, "item"));
        let when = if self.stopped { "before it stopped" } else { "in all" };
        whys.push(format!("{word} {when}: {done}"));
        whys.join("\n")
    }
}

/// Not knowing is worse than having to stop, and that is worse than a refusal.
fn rank(exit: Exit) -> u8 {
    match exit {
        Exit::Unknown => 0,
        Exit::Usage | Exit::Unreachable | Exit::Damaged | Exit::Interrupted => 1,
        Exit::Refused | Exit::Done => 2,
    }
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.word, &self.done)?;
        map.serialize_entry(&format!("not_{}", self.word), &self.fates.not_done)?;
        map.serialize_entry("unknown", &self.fates.unknown)?;
        map.serialize_entry("sent_to_line", &self.fates.sent_to_line)?;
        if !self.passed_over.is_empty() {
            let name = |what: &str| format!("{}s", what.replace(' ', "_"));
            let passed_over: BTreeMap<String, u64> =
                self.passed_over.iter().map(|passed| (name(passed.what), passed.lines)).collect();
            map.serialize_entry("passed_over", &passed_over)?;
        }
        map.end()
    }
}

async fn send<F: Feed>(client: Client, feed: F, batch: Batch<F::Item>, lines: Lines) -> Sent {
    let Batch { items, lines: numbers, bytes } = batch;
    let request = feed.request(items);
    let sent =
        Sent { lines, bytes: bytes as u64, done: 0, fates: Vec::new(), refused: Vec::new(), trouble: None };
    match client.call(&request).await {
        Ok(reply) => sent.judged(F::refusals(reply), &numbers),
        Err(error) => sent.failed::<F>(&request, error, &numbers),
    }
}

impl Sent {
    /// Items can be refused one by one.
    fn judged(mut self, refusals: Vec<Option<ProduceError>>, numbers: &[u64]) -> Self {
        let mut from = self.lines.from;
        for (refusal, &line) in refusals.into_iter().zip(numbers) {
            let fate = match refusal {
                None => Fate::Done,
                Some(error) => {
                    let message = format!("line {line}: {} ({})", error.message, error.code);
                    self.refused.push(Trouble { line, failure: Failure::local(message) });
                    Fate::NotDone
                }
            };
            self.done += u64::from(fate == Fate::Done);
            self.fates.push((Lines { from, to: line }, fate));
            from = line + 1;
        }
        self
    }

    fn failed<F: Feed>(mut self, request: &F::Request, error: ClientError, numbers: &[u64]) -> Self {
        let (fate, how) = match error.outcome() {
            Outcome::Unknown => (Fate::Unknown, "may or may not be"),
            Outcome::NotApplied => (Fate::NotDone, "not"),
        };
        let failure = failed(request, error);
        let why = with_line(&failure.to_string(), numbers);
        let message = format!("{}, {how} {}: {why}", self.lines, F::DONE);
        self.trouble = Some(Trouble { line: self.lines.from, failure: failure.retold(message) });
        self.fates.push((self.lines, fate));
        self
    }
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

fn interrupted_again(done: &str) -> Failure {
    let message = format!("interrupted again: what was under way may or may not have been {done}");
    Failure::new(Exit::Unknown, message)
}

fn rate(done: u64, elapsed: Duration) -> String {
    let per_second = done as f64 / elapsed.as_secs_f64().max(0.001);
    format!("{}, {}/s", counted(done, "item"), count(per_second as u64))
}
