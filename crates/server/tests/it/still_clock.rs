//! The clock of a test's runtime, which stands still until the test moves it: what is slow or old is so when the test says so,
//! however busy the machine is.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Dropped, the clock goes its own way again.
#[derive(Debug)]
pub(crate) struct StillClock {
    _stands_still: Sender<()>,
}

impl StillClock {
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        let (stands_still, goes_on) = channel();
        // A paused clock moves by itself while all tasks wait, for a socket too, unless a blocking task runs.
        tokio::task::spawn_blocking(move || goes_on.recv());
        Self { _stands_still: stands_still }
    }

    pub(crate) async fn advance(&self, span: Duration) {
        tokio::time::advance(span).await;
    }
}
