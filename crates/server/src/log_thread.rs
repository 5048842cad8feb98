//! The thread that writes the server's log to standard error. Threads that log only append to a bounded queue: a reader of
//! standard error that has stopped reading must not stop the server. Lines that find the queue full are dropped, and the log
//! tells how many.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;

/// Bytes of lines that wait to be written.
const BYTES_MAX: usize = 1 << 20;
/// How long a flush waits for lines that nobody reads.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines of this process's log that were dropped.
pub(crate) fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Appends to the queue that the thread writes out. Each event is one [`Write::write`].
#[derive(Clone, Debug)]
pub(crate) struct LogWriter(Arc<Queue>);

/// Dropped at the end of the process: flushes the log.
#[derive(Debug)]
pub struct LogGuard(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There is an entry.
    filled: Condvar,
    /// There is none left, and the last one is written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    bytes: usize,
    is_writing: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Line(Vec<u8>),
    /// So many lines were dropped here.
    Dropped(u64),
}

/// Starts the thread.
pub(crate) fn start(format: LogFormat) -> io::Result<(LogWriter, LogGuard)> {
    let queue = Arc::<Queue>::default();
    // A file of its own: the lock of `io::stderr` would be held while the thread waits for a reader.
    let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let thread_queue = Arc::clone(&queue);
    thread::Builder::new().name("log".to_owned()).spawn(move || thread_queue.write_out(out, format))?;
    Ok((LogWriter(Arc::clone(&queue)), LogGuard(queue)))
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it holds this lock")
    }

    fn write_out(&self, mut out: File, format: LogFormat) {
        loop {
            let _nobody_to_tell = match self.next() {
                Entry::Line(line) => write_all(&mut out, &line),
                Entry::Dropped(count) => write_all(&mut out, notice(format, count).as_bytes()),
            };
        }
    }

    /// The entry before it is written once this is called.
    fn next(&self) -> Entry {
        let mut waiting = self.waiting();
        waiting.is_writing = false;
        loop {
            if let Some(entry) = waiting.pop() {
                return entry;
            }
            self.written.notify_all();
            waiting = self.filled.wait(waiting).expect("nothing panics while it holds this lock");
        }
    }

    fn wait_until_written(&self) {
        let unwritten = |waiting: &mut Waiting| waiting.is_writing || !waiting.entries.is_empty();
        let _nobody_reads = self.written.wait_timeout_while(self.waiting(), FLUSH_TIMEOUT, unwritten);
    }
}

impl Waiting {
    fn push(&mut self, line: &[u8]) {
        if self.bytes + line.len() <= BYTES_MAX {
            self.bytes += line.len();
            self.entries.push_back(Entry::Line(line.to_vec()));
            return;
        }
        DROPPED.fetch_add(1, Ordering::Relaxed);
        match self.entries.back_mut() {
            Some(Entry::Dropped(count)) => *count += 1,
            Some(Entry::Line(_)) | None => self.entries.push_back(Entry::Dropped(1)),
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.is_writing = true;
        if let Entry::Line(line) = &entry {
            self.bytes -= line.len();
        }
        Some(entry)
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.waiting().push(line);
        self.0.filled.notify_one();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl LogGuard {
    /// Waits until all lines are written, or a second has passed.
    pub fn flush(&self) {
        self.0.wait_until_written();
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.flush();
    }
}

/// As [`Write::write_all`], also where another process has made standard error non-blocking.
fn write_all(out: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(out, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A line in place of those that were dropped, in the form of the others.
fn notice(format: LogFormat, dropped: u64) -> String {
    let (now, target) = (Timestamp::now(), module_path!());
    let message = "log lines were dropped because standard error was not read fast enough";
    match format {
        LogFormat::Text => format!("{now}  WARN {target}: {message} dropped={dropped}\n"),
        LogFormat::Json => {
            let line = serde_json::json!({
                "timestamp": now.to_string(), "level": "WARN", "message": message, "dropped": dropped, "target": target,
            });
            format!("{line}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_dropped_and_counted_where_they_are_missing() {
        let mut waiting = Waiting::default();
        let (large, small) = (vec![b'x'; BYTES_MAX], b"small\n".to_vec());
        waiting.push(&large);
        for _ in 0..3 {
            waiting.push(&small);
        }
        assert_eq!(waiting.pop(), Some(Entry::Line(large)));
        waiting.push(&small);
        assert_eq!(waiting.pop(), Some(Entry::Dropped(3)));
        assert_eq!(waiting.pop(), Some(Entry::Line(small)));
        assert_eq!((waiting.pop(), waiting.bytes), (None, 0));
    }

    #[test]
    fn the_notice_has_the_form_of_the_other_lines() {
        let text = notice(LogFormat::Text, 7);
        assert!(
            text.contains("  WARN windlass_server::log_thread: ") && text.ends_with(" dropped=7\n"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&notice(LogFormat::Json, 7)).unwrap();
        assert_eq!((&json["level"], &json["dropped"]), (&"WARN".into(), &7.into()));
    }
}
