//! What goes to standard output.

use std::io::Write;

/// Whoever closed the pipe does not want the rest.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _reader_gone = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
