//! Standard output: the tables.

use std::io::Write;

/// Prints `text`. A reader that closed the pipe is not an error: the files are still to be written.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _reader_gone = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
