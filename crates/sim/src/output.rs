//! The only place that prints.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program is there to say what it found")]

use std::fmt::Display;

pub(crate) fn line(text: impl Display) {
    println!("{text}");
}

/// Overwrites itself, and is not part of the result.
pub(crate) fn progress(text: impl Display) {
    eprint!("\r{text}");
}

pub(crate) fn progress_done() {
    eprintln!();
}

pub(crate) fn error(text: impl Display) {
    eprintln!("{text}");
}
