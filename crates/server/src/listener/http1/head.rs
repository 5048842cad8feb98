//! [`Head`]: the request line and the headers of a request, and what they say about its body and its connection.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, Request, Uri, Version};
use httparse::{Header, Status};

/// Headers for which the parser has room without memory of its own.
const USUAL_HEADERS_MAX: usize = 100;
/// An empty line after the end of another.
const END_BYTES_MAX: usize = b"\n\r\n".len();

#[derive(Clone, Copy, Debug)]
pub(in crate::listener) struct HeadLimits {
    /// Of the request line and all headers together.
    pub(in crate::listener) bytes_max: usize,
    pub(in crate::listener) headers_max: usize,
}

#[derive(Debug)]
pub(in crate::listener) struct Head {
    pub(in crate::listener) request: Request<()>,
    pub(in crate::listener) framing: Framing,
    /// The client wants to use the connection for another request.
    pub(in crate::listener) keeps_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(in crate::listener) expects_continue: bool,
}

/// How the end of a request's body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listener) enum Framing {
    /// 0 if there is no body.
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::listener) enum BadHead {
    #[error("too large")]
    TooLarge,
    #[error("{0}")]
    Unreadable(&'static str),
}

impl From<httparse::Error> for BadHead {
    fn from(error: httparse::Error) -> Self {
        use httparse::Error;
        Self::Unreadable(match error {
            Error::TooManyHeaders => return Self::TooLarge,
            Error::HeaderName => "bad header name",
            Error::HeaderValue => "bad header value",
            Error::NewLine => "bad line end",
            Error::Version => "not HTTP/1.0 or HTTP/1.1",
            Error::Token => "bad method or target",
            Error::Status => "a reply, not a request",
        })
    }
}

impl Head {
    /// Takes a head from the start of `unread`. `None` if its end has not come yet: then `unread` stays as it is.
    pub(in crate::listener) fn take(unread: &mut Bytes, limits: HeadLimits) -> Result<Option<Self>, BadHead> {
        let bytes = unread.clone();
        let (mut usual, mut many);
        let headers = if limits.headers_max <= USUAL_HEADERS_MAX {
            usual = [const { MaybeUninit::uninit() }; USUAL_HEADERS_MAX];
            &mut usual[..limits.headers_max]
        } else {
            many = vec![MaybeUninit::uninit(); limits.headers_max];
            &mut many[..]
        };
        let mut parsed = httparse::Request::new(&mut []);
        match parsed.parse_with_uninit_headers(&bytes, headers)? {
            Status::Partial if bytes.len() < limits.bytes_max => Ok(None),
            Status::Complete(length) if length <= limits.bytes_max => {
                let head = Self::of(&parsed, &bytes)?;
                // `advance` would keep the buffer when nothing is left of it.
                drop(unread.split_to(length));
                Ok(Some(head))
            }
            Status::Partial | Status::Complete(_) => Err(BadHead::TooLarge),
        }
    }

    /// Whether a head may end in the last bytes of `unread`, behind the first `seen` ones. A head that drips is not parsed for
    /// every byte of it.
    pub(in crate::listener) fn may_end(unread: &[u8], seen: usize) -> bool {
        // The end of a head is an empty line, and its beginning may have been seen.
        let tail = &unread[seen.saturating_sub(END_BYTES_MAX - 1)..];
        tail.windows(2).any(|pair| pair == b"\n\n") || tail.windows(3).any(|bytes| bytes == b"\n\r\n")
    }

    fn of(parsed: &httparse::Request<'_, '_>, bytes: &Bytes) -> Result<Self, BadHead> {
        let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(BadHead::Unreadable("no request line"));
        };
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| bad("bad method"))?;
        let target = bytes.slice_ref(target.as_bytes());
        *request.uri_mut() = Uri::from_maybe_shared(target).map_err(|_| bad("bad target"))?;
        *request.version_mut() = if version == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
        *request.headers_mut() = header_map(parsed.headers, bytes)?;
        let (headers, version) = (request.headers(), request.version());
        Ok(Self {
            framing: framing(headers, version)?,
            keeps_alive: keeps_alive(headers, version),
            expects_continue: version == Version::HTTP_11 && expects_continue(headers),
            request,
        })
    }
}

fn bad(why: &'static str) -> BadHead {
    BadHead::Unreadable(why)
}

fn header_map(parsed: &[Header<'_>], bytes: &Bytes) -> Result<HeaderMap, BadHead> {
    let mut headers = HeaderMap::with_capacity(parsed.len());
    for Header { name, value } in parsed {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("bad header name"))?;
        let value =
            HeaderValue::from_maybe_shared(bytes.slice_ref(value)).map_err(|_| bad("bad header value"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// A request that states its length in two ways is refused: a proxy before this server may have believed the other one, and
/// taken for a body what is read here as the next request.
fn framing(headers: &HeaderMap, version: Version) -> Result<Framing, BadHead> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (coding, length) = (codings.next(), lengths.next());
    match (coding, length) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(_), Some(_)) => Err(bad("both `Transfer-Encoding` and `Content-Length`")),
        (Some(_), None) if version == Version::HTTP_10 => Err(bad("`Transfer-Encoding` in HTTP/1.0")),
        (Some(coding), None) if codings.next().is_none() && is_chunked(coding) => Ok(Framing::Chunked),
        (Some(_), None) => Err(bad("a `Transfer-Encoding` other than `chunked`")),
        (None, Some(length)) if lengths.all(|other| other == length) => {
            Ok(Framing::Length(digits(length.as_bytes()).ok_or(bad("bad `Content-Length`"))?))
        }
        (None, Some(_)) => Err(bad("several `Content-Length`")),
    }
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")
}

/// Digits and nothing else: no sign, no space.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    !names(headers, b"close") && (version != Version::HTTP_10 || names(headers, b"keep-alive"))
}

/// Whether `Connection` names this option.
fn names(headers: &HeaderMap, option: &[u8]) -> bool {
    let options =
        headers.get_all(CONNECTION).iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    options.into_iter().any(|named| named.trim_ascii().eq_ignore_ascii_case(option))
}

fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 4096, headers_max: 100 };

    fn take(text: &str) -> Result<Option<Head>, BadHead> {
        Head::take(&mut Bytes::copy_from_slice(text.as_bytes()), LIMITS)
    }

    fn framing_of(headers: &str) -> Result<Framing, BadHead> {
        let head = take(&format!("POST / HTTP/1.1\r\n{headers}\r\n"))?;
        Ok(head.expect("the head is whole").framing)
    }

    fn alive(version: &str, headers: &str) -> bool {
        take(&format!("GET / {version}\r\n{headers}\r\n")).unwrap().unwrap().keeps_alive
    }

    #[test]
    fn a_head_is_taken_and_its_body_left() {
        let mut unread =
            Bytes::from_static(b"POST /v1/x?y HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n\r\nbody");
        let head = Head::take(&mut unread, LIMITS).unwrap().unwrap();
        let (request, headers) = (&head.request, head.request.headers());
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/x"));
        assert_eq!((&headers["host"], headers.get_all("x-a").iter().count()), (&"h".parse().unwrap(), 2));
        assert_eq!((&unread[..], head.keeps_alive, head.expects_continue), (&b"body"[..], true, false));
    }

    #[test]
    fn lengths_are_digits_and_stated_in_one_way() {
        assert_eq!(framing_of(""), Ok(Framing::Length(0)));
        assert_eq!(framing_of("Content-Length: 17\r\n"), Ok(Framing::Length(17)));
        assert_eq!(framing_of("Content-Length: 17\r\nContent-Length: 17\r\n"), Ok(Framing::Length(17)));
        assert_eq!(framing_of("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        for bad in [
            "Content-Length: 17\r\nContent-Length: 18\r\n",
            "Content-Length: +17\r\n",
            "Content-Length: 1 7\r\n",
            "Content-Length: 17, 17\r\n",
            "Content-Length: \r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length: 17\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 17\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Content-Length : 17\r\n",
            "Content-Length: 17\r\n X: folded\r\n",
        ] {
            assert!(matches!(framing_of(bad), Err(BadHead::Unreadable(_))), "{bad:?}: {:?}", framing_of(bad));
        }
        let old = take("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(matches!(old, Err(BadHead::Unreadable(_))));
    }

    #[test]
    fn a_connection_is_kept_unless_the_client_says_otherwise() {
        assert!(alive("HTTP/1.1", "") && alive("HTTP/1.1", "Connection: upgrade\r\n"));
        assert!(
            !alive("HTTP/1.1", "Connection: Close\r\n") && !alive("HTTP/1.1", "Connection: a, close\r\n")
        );
        assert!(!alive("HTTP/1.0", "Connection: keep-alive, close\r\n"));
        assert!(!alive("HTTP/1.0", "") && alive("HTTP/1.0", "Connection: keep-alive\r\n"));
    }

    #[test]
    fn limits_of_a_head_are_kept() {
        let limits = HeadLimits { bytes_max: 64, headers_max: 2 };
        let take = |text: String| Head::take(&mut Bytes::from(text), limits).map(|head| head.is_some());
        assert_eq!(take("GET / HTTP/1.1\r\na: 1\r\nb: 2\r\n\r\n".to_owned()), Ok(true));
        assert_eq!(take("GET / HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\n\r\n".to_owned()), Err(BadHead::TooLarge));
        let padded = |bytes: usize| format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(bytes - 23));
        assert_eq!(
            (padded(64).len(), take(padded(64)), take(padded(65))),
            (64, Ok(true), Err(BadHead::TooLarge))
        );
        assert_eq!((take("x".repeat(63)), take("x".repeat(64))), (Ok(false), Err(BadHead::TooLarge)));
    }

    #[test]
    fn an_end_is_seen_wherever_it_was_cut() {
        for text in ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n\n"] {
            for seen in 0..text.len() {
                assert!(Head::may_end(text.as_bytes(), seen), "{text:?} {seen}");
            }
        }
        assert!(!Head::may_end(b"GET / HTTP/1.1\r\na: 1\r\n", 0));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_taken_refused_or_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut unread = Bytes::from(bytes.clone());
            if let Ok(None) = Head::take(&mut unread, LIMITS) {
                prop_assert_eq!(&unread[..], &bytes[..]);
            }
        }

        #[test]
        fn a_head_that_is_cut_is_waited_for(length in 0..51_usize) {
            let text = "POST /v1/q HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
            prop_assert!(matches!(take(&text[..length]), Ok(None)));
        }
    }
}
