//! [`RequestId`] and [`RequestPath`]: how a request is named in the log, the metrics and its reply. The path of a known call
//! needs no memory of its own.

use std::borrow::Cow;

use crate::metrics::{Counted, OTHER, Requests};

const DIGITS: usize = 16;

/// The number of a request, in hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestId([u8; DIGITS]);

impl RequestId {
    pub(super) fn of(number: u64) -> Self {
        let digit = |at: usize| b"0123456789abcdef"[(number >> (4 * (DIGITS - 1 - at)) & 15) as usize];
        Self(std::array::from_fn(digit))
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits are ASCII")
    }
}

/// The path of a request. Not the target itself: as a part of the bytes that came, it would keep all of them as long as the
/// request waits.
#[derive(Debug)]
pub(super) struct RequestPath {
    pub(super) counted: Counted,
    /// The path itself, unless it is that of a call.
    other: Option<String>,
}

impl RequestPath {
    pub(super) fn of(path: &str, requests: &Requests) -> Self {
        let counted = requests.call(path.strip_prefix("/v1/").unwrap_or(OTHER));
        Self { counted, other: (counted.name() == OTHER).then(|| path.to_owned()) }
    }

    /// The path as a `str`, for the log: it escapes strings, but not values that are recorded with `%`.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match &self.other {
            Some(path) => Cow::Borrowed(path),
            None => Cow::Owned(format!("/v1/{}", self.counted.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_its_number_in_hexadecimal_digits() {
        assert_eq!(RequestId::of(0).as_str(), "0000000000000000");
        assert_eq!(RequestId::of(0x0123_4567_89ab_cdef).as_str(), "0123456789abcdef");
    }

    #[test]
    fn only_the_path_of_a_call_is_counted_by_its_name() {
        let requests = Requests::default();
        let shown = |path: &str| {
            let path = RequestPath::of(path, &requests);
            (path.counted.name(), path.text().into_owned())
        };
        assert_eq!(shown("/v1/queue.lease"), ("queue.lease", "/v1/queue.lease".to_owned()));
        for other in ["/v1/refused", "/v1/other", "/v1/no.call", "/health", "queue.lease"] {
            assert_eq!(shown(other), (OTHER, other.to_owned()));
        }
    }
}
