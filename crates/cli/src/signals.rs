//! Being asked to stop.

use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// How it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// By Ctrl-C.
    Interrupt,
    /// By another process, or because the terminal is gone.
    Terminate,
}

/// From the moment it is made, no such signal ends the program by itself.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Asked, Signal)>);

impl Signals {
    pub(crate) fn hear() -> Result<Self, Failure> {
        let mut heard =
            vec![(Asked::Interrupt, SignalKind::interrupt()), (Asked::Terminate, SignalKind::terminate())];
        // Whoever started us may want us to go on, as `nohup` does.
        let others = [SignalKind::hangup(), SignalKind::quit()].into_iter().filter(|kind| !is_ignored(*kind));
        heard.extend(others.map(|kind| (Asked::Terminate, kind)));
        let heard = heard.into_iter().map(|(asked, kind)| signal(kind).map(|signal| (asked, signal)));
        let heard: Result<_, _> = heard.collect();
        heard.map(Self).map_err(|error| Failure::local(format!("cannot hear signals: {error}")))
    }

    /// The next of them. May be dropped and asked again.
    pub(crate) async fn asked(&mut self) -> Asked {
        poll_fn(|context| {
            let mut signals = self.0.iter_mut();
            let heard =
                signals.find_map(|(asked, signal)| signal.poll_recv(context).is_ready().then_some(*asked));
            heard.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// As Linux tells it; elsewhere it counts as not ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    ignored >> (kind.as_raw_value() - 1) & 1 == 1
}
