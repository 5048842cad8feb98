//! Which lines of the input came through, and which did not.

use std::fmt;

use serde::Serialize;

/// From one line to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Lines {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    NotDone,
    Unknown,
}

/// Lines in their order, those that follow one another together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Ranges(Vec<Lines>);

impl Ranges {
    pub(crate) fn add(&mut self, lines: Lines) {
        let at = self.0.partition_point(|known| *known < lines);
        self.0.insert(at, lines);
        self.join(at);
        if at > 0 {
            self.join(at - 1);
        }
    }

    /// One with the next, if nothing is between them.
    fn join(&mut self, at: usize) {
        if let [first, second, ..] = &mut self.0[at..]
            && first.to + 1 == second.from
        {
            first.to = second.to;
            self.0.remove(at + 1);
        }
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            write!(f, "line {}", self.to)
        } else {
            write!(f, "lines {} to {}", self.from, self.to)
        }
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().map(Lines::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

/// What became of all that was sent.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    done: Ranges,
    pub(crate) not_done: Ranges,
    pub(crate) unknown: Ranges,
    /// Nothing after it was sent.
    pub(crate) sent_to_line: u64,
    /// There is nothing after it.
    pub(crate) all_sent: bool,
}

impl Fates {
    /// The lines of a batch that is about to be sent, up to this one; with blank ones before it.
    pub(crate) fn send(&mut self, to: u64) -> Lines {
        let from = self.sent_to_line + 1;
        self.sent_to_line = to;
        Lines { from, to }
    }

    pub(crate) fn add(&mut self, lines: Lines, fate: Fate) {
        match fate {
            Fate::Done => self.done.add(lines),
            Fate::NotDone => self.not_done.add(lines),
            Fate::Unknown => self.unknown.add(lines),
        }
    }

    /// Only what there was, each in a line of its own.
    pub(crate) fn shown(&self, done: &str) -> String {
        let parts = [
            (done.to_owned(), &self.done),
            (format!("not {done}"), &self.not_done),
            (format!("may or may not be {done}"), &self.unknown),
        ];
        let parts = parts.into_iter().filter(|(_, ranges)| !ranges.0.is_empty());
        let mut shown: String = parts.map(|(what, ranges)| format!("{what}: {ranges}\n")).collect();
        shown.push_str(&match self.sent_to_line {
            _ if self.all_sent => "all lines were sent".to_owned(),
            0 => "nothing was sent".to_owned(),
            last => format!("nothing after line {last} was sent"),
        });
        shown
    }
}
