//! What a client may take: every wait has an end and every amount a limit.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[derive(Clone, Debug)]
pub struct Limits {
    pub connections_max: usize,
    /// Of the request line and all headers together.
    pub head_bytes_max: usize,
    pub headers_max: usize,
    /// Until a new connection sends anything.
    pub first_byte_timeout: Duration,
    /// From the first byte of a request until its head is complete.
    pub head_timeout: Duration,
    /// Between two requests.
    pub idle_timeout: Duration,
    /// A window in which so much of a request body must come, and so much of a reply be taken (`pace`). A reply has three windows
    /// before its connection is closed.
    pub stall_timeout: Duration,
    /// When there is no room, a body or reply that has been slow for so long gives way to others (`budget`).
    pub slow_after: Duration,
    /// A stream's reader may be slow, but it must take something: no longer than this without.
    pub stream_stall_timeout: Duration,
    pub body_bytes_max: usize,
    /// Bytes of all request bodies together that are being read or worked on, and as many of large replies that have
    /// not been taken.
    pub bytes_in_flight_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            head_bytes_max: 32 * KIB,
            headers_max: 100,
            first_byte_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(10),
            // Longer than the minute after which most proxies and clients give a connection up by themselves.
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(10),
            // As long as `Retry-After` tells those to wait for whom there is no room.
            slow_after: Duration::from_secs(1),
            // More than the 30 seconds for which a reader may take nothing; and who vanished is gone within a minute, as
            // something is sent to it every 10 seconds.
            stream_stall_timeout: Duration::from_secs(40),
            body_bytes_max: 16 * MIB,
            bytes_in_flight_max: 256 * MIB,
        }
    }
}
