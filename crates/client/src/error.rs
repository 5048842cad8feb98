//! What can go wrong, by what the caller can do about it.

use std::fmt;
use std::time::Duration;

use windlass_api::Code;
use windlass_api::error::{Details, NOT_APPLIED};

use crate::payload::PayloadError;
use crate::retries::may_pass_some_day;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered, and said no.
    #[error("{code}: {message}{}", told(request_id))]
    Refused {
        code: RefusalCode,
        /// What was wrong and what to do, in the server's words.
        message: String,
        /// Empty if the server gave none.
        details: Box<Details>,
        /// The HTTP status.
        status: u16,
        /// By which the server's log knows the request.
        request_id: Option<String>,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// No connection came about: nothing was sent.
    #[error("cannot reach {url}: {reason}; nothing was sent: check the address and that the server runs")]
    Unreachable { url: String, reason: String },
    /// The request was sent, and the connection ended before the answer.
    #[error("the connection to {url} ended before the answer: {reason}{}", doubt(*outcome))]
    Interrupted { url: String, reason: String, outcome: Outcome },
    /// The request was sent, and no answer came in time.
    #[error("no answer from {url} within {waited:?}{}", doubt(*outcome))]
    Timeout { url: String, waited: Duration, outcome: Outcome },
    /// A subscription ended, and its item has not.
    #[error("the stream from {url} ended before the item did: {reason}")]
    StreamLost { url: String, reason: String },
    /// The answer was not one of this server's: a proxy's, or something else listens there.
    #[error(
        "an answer that is not Windlass's (status {status}): {reason}; check the address and any proxy before it"
    )]
    BadReply { status: u16, reason: String, request_id: Option<String> },
    /// The address of the server cannot be used.
    #[error("cannot use {url:?} as the server's address: {reason}")]
    BadUrl { url: String, reason: String },
    /// A payload could not be written or read.
    #[error(transparent)]
    BadPayload(#[from] PayloadError),
}

/// Whether what was asked has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was changed: it is safe to ask again.
    NotApplied,
    /// It may have been done. Look before asking again.
    Unknown,
}

/// The server's word for what was wrong; that of a newer server may be one that this client has never heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    Known(Code),
    Other(String),
}

impl ClientError {
    /// Whether what was asked has been done.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused { status, details, .. } => refused_outcome(*status, details),
            Self::Interrupted { outcome, .. } | Self::Timeout { outcome, .. } => *outcome,
            Self::Unreachable { .. }
            | Self::StreamLost { .. }
            | Self::BadUrl { .. }
            | Self::BadPayload(_) => Outcome::NotApplied,
            Self::BadReply { .. } => Outcome::Unknown,
        }
    }

    /// Whether it is a trouble of the moment, and may go well another time. Whether to ask again is safe is told by
    /// [`ClientError::outcome`].
    pub fn may_pass(&self) -> bool {
        may_pass_some_day(self)
    }

    /// The server's code, if the server refused and the code is one that this client knows.
    pub fn code(&self) -> Option<Code> {
        if let Self::Refused { code, .. } = self { code.known() } else { None }
    }

    /// By which the server's log knows the request, if it answered.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Refused { request_id, .. } | Self::BadReply { request_id, .. } => request_id.as_deref(),
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::Timeout { .. }
            | Self::StreamLost { .. }
            | Self::BadUrl { .. }
            | Self::BadPayload(_) => None,
        }
    }
}

/// Below 500 the server looked and declined; from there on it says what became of it.
fn refused_outcome(status: u16, details: &Details) -> Outcome {
    let declined = status < 500 || details.outcome.as_deref() == Some(NOT_APPLIED);
    if declined { Outcome::NotApplied } else { Outcome::Unknown }
}

fn doubt(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotApplied => "",
        Outcome::Unknown => "; what was asked may have been done",
    }
}

fn told(request_id: &Option<String>) -> String {
    request_id.as_ref().map(|id| format!(" (request {id})")).unwrap_or_default()
}

impl RefusalCode {
    pub fn known(&self) -> Option<Code> {
        if let Self::Known(code) = self { Some(*code) } else { None }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Other(text) => text,
        }
    }
}

impl From<String> for RefusalCode {
    fn from(text: String) -> Self {
        Code::parse(&text).map_or(Self::Other(text), Self::Known)
    }
}

impl PartialEq<Code> for RefusalCode {
    fn eq(&self, code: &Code) -> bool {
        self.known() == Some(*code)
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
