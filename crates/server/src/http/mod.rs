//! One reply for each request: decode, call one thing, encode.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use windlass_engine::Engine;
use windlass_engine::store::log::LogStore;

use crate::listener::{Handler, Reply, RequestBody};

#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Requests that wait at once: leases without work.
    pub waiting_max: usize,
    /// Of one payload or result.
    pub payload_bytes_max: usize,
}

/// What requests are answered from.
#[derive(Debug)]
pub struct App {}

/// What there is once the data is loaded.
#[derive(Clone, Debug)]
pub struct Opened {
    pub engine: Engine,
    pub store: Arc<LogStore>,
    pub backup_dir: PathBuf,
}

impl App {
    /// Not ready: every call is `unavailable` until [`App::open`].
    pub fn new(_limits: HttpLimits) -> Arc<Self> {
        todo!()
    }

    pub fn open(&self, _opened: Opened) {
        todo!()
    }

    /// Not ready any more: `/ready` says so, and new work is refused.
    pub fn stop(&self) {
        todo!()
    }
}

impl Handler for App {
    fn handle(
        self: Arc<Self>,
        _request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>> {
        todo!()
    }
}
