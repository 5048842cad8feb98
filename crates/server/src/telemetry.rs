//! The server's own log, on standard error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::{io, thread};

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{Config, LogFormat};
use crate::log_thread::{self, LogGuard};

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Only for a `Config` that was changed after it was loaded.
    #[error("log_level is not a filter: {0}")]
    Filter(#[from] ParseError),
    #[error("the log of this process was set up before: {0}")]
    SetUpBefore(#[from] TryInitError),
    #[error("the thread that writes the log cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// Panics are logged whatever `log_level` says.
const PANICS: &str = "panic=error";

/// Once per process, before anything is logged. Panics are logged from then on. The guard is to be kept until the process ends.
pub fn init(config: &Config) -> Result<LogGuard, TelemetryError> {
    let filter = EnvFilter::builder().parse(&config.log_level)?.add_directive(PANICS.parse()?);
    let (writer, guard) = log_thread::start(config.log_format)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match config.log_format {
        LogFormat::Text => log.with_ansi(false).finish().try_init()?,
        LogFormat::Json => log.json().flatten_event(true).finish().try_init()?,
    }
    // The default hook writes to standard error itself: a thread that panics would wait there for a reader.
    panic::set_hook(Box::new(log_panic));
    Ok(guard)
}

/// Texts are recorded as `&str`, which the log escapes: a panic is one line.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let place = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    error!(
        target: "panic",
        thread = thread.name(),
        place,
        panic = panic.payload_as_str(),
        backtrace = backtrace.as_deref(),
        "a thread panicked"
    );
}
