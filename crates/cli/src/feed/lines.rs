//! Lines as items, in batches.

use std::io::{BufRead, BufReader, Read};

use serde::de::DeserializeOwned;

/// A batch is no larger, so that several of them under way stay within what the server takes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Only to bound memory: the server has the last word on what is too large.
const LINE_BYTES_MAX: u64 = 64 << 20;
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    items_max: usize,
    bytes_max: usize,
}

impl Limits {
    pub(crate) fn of_items(items_max: usize) -> Self {
        Self { items_max, bytes_max: BATCH_BYTES_MAX }
    }
}

#[derive(Debug)]
pub(crate) struct Batch<T> {
    pub(crate) items: Vec<T>,
    /// Where each item stands.
    pub(crate) lines: Vec<u64>,
    /// Of the input.
    pub(crate) bytes: usize,
}

/// A line that is no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) why: String,
}

#[derive(Debug)]
pub(crate) struct Lines<R, P, T> {
    input: BufReader<R>,
    parse: P,
    limits: Limits,
    line: u64,
    /// The first item of the next batch: it was too large for the last.
    ahead: Option<(T, usize)>,
    /// What ends the input, once what stands before it was handed out.
    bad: Option<BadLine>,
    ended: bool,
}

impl<R: Read, T, P: Fn(&[u8]) -> Result<Option<T>, String>> Iterator for Lines<R, P, T> {
    type Item = Result<Batch<T>, BadLine>;

    /// As many items as fit, or as there are before the input makes us wait. A bad line is the last that comes.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return self.bad.take().map(Err);
        }
        let mut batch = Batch::empty();
        if let Some((item, bytes)) = self.ahead.take() {
            batch.push(item, self.line, bytes);
        }
        while !self.ended && (batch.items.is_empty() || !(self.full(&batch) || self.would_wait())) {
            match self.next_item() {
                Ok(Some((item, bytes))) if batch.takes(bytes, self.limits) => {
                    batch.push(item, self.line, bytes);
                }
                Ok(Some(too_much)) => {
                    self.ahead = Some(too_much);
                    break;
                }
                Ok(None) => self.ended = true,
                Err(why) => {
                    self.bad = Some(BadLine { line: self.line, why });
                    self.ended = true;
                }
            }
        }
        if batch.items.is_empty() { self.bad.take().map(Err) } else { Some(Ok(batch)) }
    }
}

impl<R: Read, T, P: Fn(&[u8]) -> Result<Option<T>, String>> Lines<R, P, T> {
    pub(crate) fn new(input: R, parse: P, limits: Limits) -> Self {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { input, parse, limits, line: 0, ahead: None, bad: None, ended: false }
    }

    fn full(&self, batch: &Batch<T>) -> bool {
        batch.items.len() >= self.limits.items_max
    }

    /// What has been read must not wait for what has not been written yet.
    fn would_wait(&self) -> bool {
        !self.input.buffer().contains(&b'\n')
    }

    /// The next item and how long its line is; none at the end.
    fn next_item(&mut self) -> Result<Option<(T, usize)>, String> {
        loop {
            let mut text = Vec::new();
            self.line += 1;
            let bytes = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text);
            match bytes.map_err(|error| format!("it cannot be read: {error}"))? {
                0 => return Ok(None),
                bytes if bytes as u64 == LINE_BYTES_MAX => return Err("longer than 64 MiB".into()),
                _ if text.trim_ascii().is_empty() => {}
                bytes => {
                    if let Some(item) = (self.parse)(&text)? {
                        return Ok(Some((item, bytes)));
                    }
                }
            }
        }
    }
}

impl<T> Batch<T> {
    fn empty() -> Self {
        Self { items: Vec::new(), lines: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, item: T, line: u64, bytes: usize) {
        self.items.push(item);
        self.lines.push(line);
        self.bytes += bytes;
    }

    /// One that is too large by itself goes alone.
    fn takes(&self, bytes: usize, limits: Limits) -> bool {
        self.items.is_empty() || self.bytes + bytes <= limits.bytes_max
    }
}

/// A line as what it should be.
pub(crate) fn json<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| why_not(&error))
}

/// Without the position in the text, whose line is always 1.
fn why_not(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
    format!("{what} (column {})", error.column())
}

/// Whether there is `json`, `utf8` and `bytes`: it must be one of them.
pub(crate) fn one_payload(there: [bool; 3]) -> Result<(), String> {
    match there.iter().filter(|there| **there).count() {
        1 => Ok(()),
        0 => Err("it has no payload: put it into `json`, `utf8` or `bytes`".into()),
        _ => Err("it has more than one payload: only one of `json`, `utf8` and `bytes` may be set".into()),
    }
}
