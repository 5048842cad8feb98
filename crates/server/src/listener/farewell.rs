//! The end of a connection whose client may still be sending.
//!
//! To close a connection with bytes unread resets it, and a reset takes the last reply from a client that has not
//! read it yet. So an ordinary client that is refused in mid-sentence is listened to a little longer.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::time::Duration;

use http::StatusCode;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout, timeout_at};
use windlass_api::error::{Error, ErrorReply};
use windlass_api::{Code, JSON, REQUEST_ID};

use super::pace::Pace;
use super::scratch;

/// How much more, and how slowly, a client may send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) bytes_max: usize,
    pub(super) stall_timeout: Duration,
}

/// Says a last word, and hears the client out.
pub(super) async fn refuse(stream: &TcpStream, text: &str, patience: Patience) {
    let said = timeout(patience.stall_timeout, say(stream, text)).await;
    if matches!(said, Ok(Ok(()))) {
        hear_out(stream, patience).await;
    }
}

/// Throws away what the client still sends, until it closes.
pub(super) async fn hear_out(stream: &TcpStream, patience: Patience) {
    if say_no_more(stream).is_ok() {
        let _gone = discard(stream, patience).await;
    }
}

/// Closes the server's side.
pub(super) fn say_no_more(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).shutdown(Shutdown::Write)
}

async fn say(stream: &TcpStream, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        stream.writable().await?;
        match stream.try_write(rest) {
            Ok(bytes) => rest = &rest[bytes..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn discard(stream: &TcpStream, patience: Patience) -> io::Result<()> {
    let mut pace = Pace::begin(Instant::now(), patience.stall_timeout);
    let mut left = patience.bytes_max;
    loop {
        timeout_at(pace.deadline(), stream.readable()).await??;
        match scratch::read(stream, usize::MAX, |_| {}) {
            Ok(0) => return Ok(()),
            Ok(bytes) if bytes > left => return Ok(()),
            Ok(bytes) => {
                left -= bytes;
                pace.progress(Instant::now(), bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        // A client that sends fast must not keep others from this thread.
        consume_budget().await;
    }
}

/// A reply to what never became a request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Code,
    message: String,
}

impl Refusal {
    pub(super) fn too_many_connections(max: usize) -> Self {
        let message = format!(
            "there are {max} connections, and the server takes no more: try again in a second, \
             and use one connection for many requests"
        );
        Self { status: StatusCode::TOO_MANY_REQUESTS, code: Code::Overloaded, message }
    }

    pub(super) fn no_request(why: &str) -> Self {
        let message =
            format!("what came cannot be read as a request ({why}): this port speaks HTTP/1.1, without TLS");
        Self { status: StatusCode::BAD_REQUEST, code: Code::InvalidArgument, message }
    }

    pub(super) fn large_head(head_bytes_max: usize, headers_max: usize) -> Self {
        let message = format!(
            "the request line and the headers may have {head_bytes_max} bytes together, \
             and there may be {headers_max} headers: send less"
        );
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self { status, code: Code::TooLarge, message }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn text(&self, request_id: &str) -> String {
        let error = Error { code: self.code.to_string(), message: self.message.clone(), details: None };
        let body = serde_json::to_string(&ErrorReply { error }).expect("strings can be written as JSON");
        let retry_after = if self.code == Code::Overloaded { "retry-after: 1\r\n" } else { "" };
        format!(
            "HTTP/1.1 {}\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\n{REQUEST_ID}: {request_id}\r\n\
             {retry_after}connection: close\r\n\r\n{body}",
            self.status,
            body.len(),
        )
    }
}
