//! What an answer says: the reply that was asked for, a refusal, or nothing of ours.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use windlass_api::call::Wire;
use windlass_api::error::ErrorReply;
use windlass_api::{COMMIT, REQUEST_ID};

use crate::encoding::Encoding;
use crate::error::ClientError;

/// How much of an unknown answer is shown.
const EXCERPT_CHARS: usize = 200;

/// A reply, and what the server says about the call beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered<R> {
    pub reply: R,
    /// Where the change stands in the order of the partitions it touched, of at most 32 of them; empty for a call that changes
    /// nothing.
    pub commits: Vec<Commit>,
    /// How many partitions it touched beyond those of `commits`.
    pub more_commits: u64,
    /// By which the server's log knows the request.
    pub request_id: Option<String>,
}

/// The place of a change in the order in which a partition committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    pub partition: u32,
    pub sequence: u64,
}

/// A whole answer, not yet understood.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The reply that was asked for.
    pub(crate) fn reply<R: Wire>(self) -> Result<Answered<R>, ClientError> {
        if self.status != StatusCode::OK {
            return Err(self.refusal());
        }
        let Some(encoding) = self.encoding() else { return Err(self.foreign()) };
        let decoded = encoding.decode(self.body.clone());
        let reply = decoded.map_err(|error| self.bad_reply(format!("it cannot be read ({error})")))?;
        let (commits, more_commits) = self.commits();
        Ok(Answered { reply, commits, more_commits, request_id: self.request_id() })
    }

    /// The text of a page.
    pub(crate) fn page(self) -> Result<String, ClientError> {
        if self.status != StatusCode::OK {
            return Err(self.refusal());
        }
        Ok(self.text())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The server's own words if they are, and otherwise whatever came.
    pub(crate) fn refusal(self) -> ClientError {
        let decoded =
            self.encoding().and_then(|encoding| encoding.decode::<ErrorReply>(self.body.clone()).ok());
        let Some(ErrorReply { error }) = decoded.filter(|reply| !reply.error.code.is_empty()) else {
            return self.foreign();
        };
        ClientError::Refused {
            code: error.code.into(),
            message: error.message,
            details: Box::new(error.details.unwrap_or_default()),
            status: self.status.as_u16(),
            request_id: self.request_id(),
            retry_after: self.retry_after(),
        }
    }

    fn foreign(&self) -> ClientError {
        let media = self.headers.get(CONTENT_TYPE).map(|media| String::from_utf8_lossy(media.as_bytes()));
        let media = media.as_deref().unwrap_or("of no type");
        self.bad_reply(format!("it is {media}: {:?}", excerpt(&self.text())))
    }

    fn bad_reply(&self, reason: String) -> ClientError {
        ClientError::BadReply { status: self.status.as_u16(), reason, request_id: self.request_id() }
    }

    fn encoding(&self) -> Option<Encoding> {
        Encoding::of(self.headers.get(CONTENT_TYPE))
    }

    fn request_id(&self) -> Option<String> {
        self.header(REQUEST_ID).map(str::to_owned)
    }

    /// What cannot be read is left out: the change was made, and an odd header must not make it look otherwise.
    fn commits(&self) -> (Vec<Commit>, u64) {
        let header = self.header(COMMIT).unwrap_or_default();
        let entries = || header.split(',').map(str::trim);
        let more = entries().filter_map(|entry| entry.strip_prefix('+')?.parse::<u64>().ok());
        (entries().filter_map(Commit::parse).collect(), more.sum())
    }

    /// In seconds; as a date it is not understood, and this server never sends one.
    fn retry_after(&self) -> Option<Duration> {
        self.header(RETRY_AFTER.as_str())?.trim().parse().ok().map(Duration::from_secs)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Commit {
    fn parse(text: &str) -> Option<Self> {
        let (partition, sequence) = text.split_once(':')?;
        Some(Self { partition: partition.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

fn excerpt(text: &str) -> String {
    let mut excerpt: String = text.trim().chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < text.trim().len() {
        excerpt.push('…');
    }
    excerpt
}
