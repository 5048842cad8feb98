//! The text of a run, bounded, and the hash of all of it.

use std::fmt;

/// Enough to tell one run from another: FNV-1a over every line, kept or not.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Vec<String>,
    lines_max: usize,
    dropped: u64,
    hash: u64,
}

impl Trace {
    pub fn new(lines_max: usize) -> Self {
        Self { lines: Vec::new(), lines_max, dropped: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub fn line(&mut self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.lines.len() < self.lines_max {
            self.lines.push(line);
        } else {
            self.dropped += 1;
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        if self.dropped > 0 {
            writeln!(f, "… and {} more lines", self.dropped)?;
        }
        writeln!(f, "trace {:016x}", self.hash)
    }
}
