//! [`ReplyHead`]: the status line and the headers of a reply.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{CONNECTION, DATE};
use http::response::Parts;
use http::{HeaderMap, Version};

/// How the client knows where the body of a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listener) enum Body {
    /// There is none, whatever was asked for: of `204` and `304`.
    Never,
    Length(usize),
    Chunked,
    /// The end of the connection, for clients of HTTP/1.0.
    UntilClosed,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::listener) struct ReplyHead<'a> {
    pub(in crate::listener) parts: &'a Parts,
    /// The version of the request.
    pub(in crate::listener) version: Version,
    pub(in crate::listener) body: Body,
    /// Whether the connection is closed behind this reply.
    pub(in crate::listener) closes: bool,
}

impl ReplyHead<'_> {
    pub(in crate::listener) fn write(&self, into: &mut Vec<u8>) {
        let Parts { status, headers, .. } = self.parts;
        into.extend_from_slice(if self.version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        into.extend_from_slice(status.as_str().as_bytes());
        into.push(b' ');
        into.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        into.extend_from_slice(b"\r\n");
        for (name, value) in headers {
            header(into, name.as_str(), value.as_bytes());
        }
        match self.body {
            Body::Length(bytes) => {
                header(into, "content-length", itoa::Buffer::new().format(bytes).as_bytes());
            }
            Body::Chunked => header(into, "transfer-encoding", b"chunked"),
            Body::Never | Body::UntilClosed => {}
        }
        self.write_connection(headers, into);
        if !headers.contains_key(DATE) {
            NOW.with_borrow_mut(|now| header(into, "date", now.read()));
        }
        into.extend_from_slice(b"\r\n");
    }

    fn write_connection(&self, headers: &HeaderMap, into: &mut Vec<u8>) {
        match (self.closes, self.version) {
            _ if headers.contains_key(CONNECTION) => {}
            (true, _) => header(into, "connection", b"close"),
            (false, Version::HTTP_10) => header(into, "connection", b"keep-alive"),
            (false, _) => {}
        }
    }
}

fn header(into: &mut Vec<u8>, name: &str, value: &[u8]) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

thread_local! {
    static NOW: RefCell<Now> = RefCell::default();
}

/// The date as headers tell it, made once a second.
#[derive(Default)]
struct Now {
    second: i64,
    text: String,
}

impl Now {
    fn read(&mut self) -> &[u8] {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = i64::try_from(since.as_secs()).unwrap_or_default();
        if self.text.is_empty() || second != self.second {
            (self.second, self.text) = (second, date(second));
        }
        self.text.as_bytes()
    }
}

fn date(second: i64) -> String {
    let at = jiff::Timestamp::from_second(second).unwrap_or_default();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Response, StatusCode};

    use super::*;

    fn lines(version: Version, body: Body, closes: bool, parts: &Parts) -> Vec<String> {
        let mut text = Vec::new();
        ReplyHead { parts, version, body, closes }.write(&mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("\r\n\r\n"));
        text.trim_end().split("\r\n").map(str::to_owned).collect()
    }

    fn without_date(mut lines: Vec<String>) -> Vec<String> {
        assert!(lines.pop().unwrap().starts_with("date: "));
        lines
    }

    fn parts(status: StatusCode) -> Parts {
        let mut parts = Response::new(()).into_parts().0;
        parts.status = status;
        parts
    }

    #[test]
    fn a_head_tells_status_headers_length_and_date() {
        let mut parts = parts(StatusCode::NOT_FOUND);
        parts.headers.insert("x-a", HeaderValue::from_static("1"));
        let told = without_date(lines(Version::HTTP_11, Body::Length(17), false, &parts));
        assert_eq!(told, ["HTTP/1.1 404 Not Found", "x-a: 1", "content-length: 17"]);
    }

    #[test]
    fn a_head_tells_whether_the_connection_goes_on() {
        let ok = parts(StatusCode::OK);
        let last =
            |version, closes| without_date(lines(version, Body::UntilClosed, closes, &ok)).pop().unwrap();
        assert_eq!(last(Version::HTTP_11, false), "HTTP/1.1 200 OK");
        assert_eq!(last(Version::HTTP_11, true), "connection: close");
        assert_eq!(last(Version::HTTP_10, false), "connection: keep-alive");
        assert_eq!(last(Version::HTTP_10, true), "connection: close");
        let mut told = parts(StatusCode::OK);
        told.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        assert_eq!(lines(Version::HTTP_11, Body::Chunked, true, &told).len(), 4, "told once");
    }

    #[test]
    fn dates_are_as_browsers_want_them() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        let mut now = Now::default();
        assert_eq!(now.read().len(), 29);
        now.second -= 1;
        now.text = "stale".to_owned();
        assert_eq!(now.read().len(), 29);
    }
}
