//! Every metric there is. The page and the reference are made from this table.

use std::fmt;

/// One metric. Its labels are few, and so are their values: names of queues, states, calls and status codes.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal $([$($label:literal),+])?: $help:literal;)+) => {
        $(pub(super) const $constant: Metric = Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($($label),+)?],
            help: $help,
        };)+

        /// In the order of the page.
        pub const METRICS: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    BUILD_INFO = Gauge "windlass_build_info" ["version"]: "Always 1; the label tells the version.";
    UPTIME = Gauge "windlass_uptime_seconds": "Time since the server was started.";
    RESIDENT = Gauge "process_resident_memory_bytes": "Memory that the process takes up. Linux only.";
    LOG_LINES_DROPPED = Counter "windlass_log_lines_dropped_total":
        "Lines of the server's log that were dropped because standard error was not read fast enough.";

    ITEMS = Gauge "windlass_items" ["queue", "state"]: "Items that have not ended, by state.";
    RETAINED = Gauge "windlass_items_retained" ["queue"]: "Items that have ended and are kept.";
    MOVING = Gauge "windlass_items_moving" ["queue"]: "Items that ended here and are on their way to another queue.";
    STOPPED = Gauge "windlass_stopped_items" ["queue"]: "Waiting items that a pause or block holds back.";
    RULES = Gauge "windlass_rules" ["queue", "rule"]: "Pauses and blocks that stand on a queue and its kinds.";
    OLDEST_WAITING = Gauge "windlass_oldest_waiting_age_seconds" ["queue"]:
        "How long the item has waited that waits longest; 0 if none waits.";
    LEASE_WAITERS = Gauge "windlass_lease_waiters" ["queue"]: "Leases that wait for work.";
    ITEM_WAITERS = Gauge "windlass_item_waiters" ["queue"]: "Calls that wait for an item to end.";
    SUBSCRIBERS = Gauge "windlass_subscribers": "Readers of event streams.";
    PRODUCED = Counter "windlass_items_produced_total" ["queue"]: "Items produced.";
    LEASED = Counter "windlass_items_leased_total" ["queue"]:
        "Leases granted, those included that reached nobody and were given back.";
    COMPLETED = Counter "windlass_items_completed_total" ["queue"]: "Items completed.";
    RETRIED = Counter "windlass_items_retried_total" ["queue"]: "Items sent back for another attempt.";
    RELEASED = Counter "windlass_items_released_total" ["queue"]: "Items given back, their attempt not counted.";
    REVOKED = Counter "windlass_items_revoked_total" ["queue"]: "Items taken away from their workers.";
    EXTENDED = Counter "windlass_items_extended_total" ["queue"]: "Leases extended.";
    SUSPENDED = Counter "windlass_items_suspended_total" ["queue"]: "Items given up until somebody answers.";
    RESUMED = Counter "windlass_items_resumed_total" ["queue"]: "Suspended items that were answered.";
    EMITTED = Counter "windlass_events_total" ["queue"]: "Events of items, answers to suspended ones included.";
    CANCELLED = Counter "windlass_items_cancelled_total" ["queue"]:
        "Items that ended as cancelled, those included that were cleared.";
    FAILED = Counter "windlass_items_failed_total" ["queue"]: "Items that ended as failed.";
    EXPIRED = Counter "windlass_items_expired_total" ["queue"]: "Items that ended because they were too old.";
    REDRIVEN = Counter "windlass_items_redriven_total" ["queue"]: "Items sent on by a redrive.";
    MOVED_OUT = Counter "windlass_items_moved_out_total" ["queue"]: "Items that arrived in another queue.";
    MOVED_IN = Counter "windlass_items_moved_in_total" ["queue"]: "Items that came from another queue.";
    DAMAGED = Counter "windlass_bodies_damaged_total" ["queue"]:
        "Stored payloads and inputs that leases and moves found damaged or missing, each counted once.";
    LEASES_EXPIRED = Counter "windlass_leases_expired_total" ["queue"]: "Leases that ended by their deadline.";
    CRON_RUNS = Counter "windlass_cron_runs_total" ["queue"]:
        "Times of crons at which an item was made. What a trigger makes is not counted.";
    CRON_LATENESS = Counter "windlass_cron_lateness_seconds_total" ["queue"]:
        "How long after their times the items of windlass_cron_runs_total were made, all together.";
    CRON_MISSED = Counter "windlass_cron_missed_total" ["queue"]:
        "Times of crons that were missed and did not run by themselves; of those that one cron missed at once, the first hundred.";
    CRON_SKIPPED = Counter "windlass_cron_skipped_total" ["queue"]:
        "Times of crons at which nothing was made: the previous item had not ended, or the address was taken.";
    PARTITIONS = Gauge "windlass_partitions" ["state"]: "Partitions of all queues, by state.";
    UNCLAIMED = Gauge "windlass_partitions_unclaimed" ["store"]:
        "Partitions that each store holds and no queue names: kept, and not served until they are adopted or dropped.";

    MEMORY_LIMIT = Gauge "windlass_memory_limit_bytes":
        "`limits.memory`, to be compared with process_resident_memory_bytes. Absent if memory is not limited.";
    MEMORY_REFUSED = Counter "windlass_memory_refused_total":
        "Calls that would have brought items and were refused at `limits.memory`. Absent if memory is not limited.";

    COMMITS = Counter "windlass_commits_total": "Commits that succeeded.";
    COMMIT_SECONDS = Histogram "windlass_commit_seconds": "How long a commit took.";
    COMMIT_CHANGES = Histogram "windlass_commit_changes": "How many changes a commit held.";
    SYNCS = Counter "windlass_store_syncs_total": "Syncs of the log to disk.";
    BYTES_WRITTEN = Counter "windlass_store_bytes_written_total": "Bytes written to disk.";
    STORE_BYTES = Gauge "windlass_store_bytes" ["kind"]:
        "Disk space that the store takes up (stored), and what of it is bodies that are still wanted (live).";
    STORE_OPEN = Gauge "windlass_store_open" ["store"]: "Whether a store is open (1) or cannot be opened (0).";
    STORE_STORED = Gauge "windlass_store_stored_bytes" ["store"]: "Disk space that each store takes up.";
    STORE_FREE = Gauge "windlass_store_bytes_free" ["store"]:
        "Bytes that may still be written to the disk of each store, as `df` shows them.";
    STORE_FULL = Gauge "windlass_store_full" ["store"]:
        "Whether the disk of a store is full (1): what makes the store grow is refused until there is room.";
    STORE_FAULTY = Gauge "windlass_store_partitions_faulty" ["store"]: "Partitions in each store that cannot serve.";
    SNAPSHOTS = Counter "windlass_store_snapshots_total": "Snapshots written.";
    COMPACTIONS = Counter "windlass_store_compactions_total": "Compactions of the log.";

    REQUESTS = Counter "windlass_http_requests_total" ["call", "code"]:
        "Requests answered, by call (`other`: no call of the API; `refused`: refused before it was read as a request) and HTTP \
         status.";
    REQUEST_SECONDS = Histogram "windlass_http_request_seconds" ["call"]:
        "How long a request took, the time included that a lease waited for work.";
    CONNECTIONS = Gauge "windlass_http_connections": "Open connections.";
    ACCEPTED = Counter "windlass_http_connections_accepted_total": "Connections accepted.";
    REFUSED = Counter "windlass_http_connections_refused_total": "Connections refused at `limits.connections`.";
    CLOSED = Counter "windlass_http_connections_closed_total" ["reason"]:
        "Connections closed because the client was too slow, by what was waited for: its first_byte, the head or body of \
         a request, the next request (idle), or that it takes its reply.";
    ACCEPT_FAILURES = Counter "windlass_http_accept_failures_total":
        "Times that no connection could be accepted, as when the process may not open more files.";
    IN_FLIGHT = Gauge "windlass_http_bytes_in_flight": "Bytes of request bodies that are being read or worked on.";
    REPLIES_IN_FLIGHT = Gauge "windlass_http_reply_bytes_in_flight":
        "Bytes of replies over 64 KiB that clients have not taken yet.";
}
