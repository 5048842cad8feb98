//! The server's own log, on standard error.

use std::io;

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

/// Once per process, before anything is logged. The guard is to be kept until the process ends.
pub fn init(config: &Config) -> Result<LogGuard, TelemetryError> {
    let filter = EnvFilter::builder().parse(&config.log_level)?;
    let (writer, guard) = log_thread::start(config.log_format)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    match config.log_format {
        LogFormat::Text => log.with_ansi(false).finish().try_init()?,
        LogFormat::Json => log.json().flatten_event(true).finish().try_init()?,
    }
    Ok(guard)
}
