//! How far a directory is read, on a terminal.

use indicatif::ProgressBar;

use crate::human::bytes;
use crate::output::Output;

/// Begins once it is known how much there is.
pub(super) struct Bar {
    out: Output,
    done: &'static str,
    bar: Option<ProgressBar>,
}

impl Bar {
    pub(super) fn new(out: Output, done: &'static str) -> Self {
        Self { out, done, bar: None }
    }

    pub(super) fn tell(&mut self, done: u64, total: u64) {
        let bar = self.bar.get_or_insert_with(|| self.out.progress(Some(total)));
        bar.set_position(done);
        bar.set_message(format!("{} of {} {}", bytes(done), bytes(total), self.done));
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
