//! The two encodings: which one a request speaks, and what its bytes mean.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use windlass_api::call::Wire;
use windlass_api::{Code, JSON, PROTOBUF};

use super::error::Problem;
use super::later;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    fn of_media_type(value: &str) -> Option<Self> {
        let name = value.split(';').next().unwrap_or_default().trim();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match () {
            () if is(JSON) => Some(Self::Json),
            () if is(PROTOBUF) || is("application/x-protobuf") => Some(Self::Protobuf),
            () => None,
        }
    }

    /// What the body is in; JSON if nothing is said.
    pub(super) fn of_request(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Self::Json) };
        value.to_str().ok().and_then(Self::of_media_type).ok_or_else(|| {
            let message = format!("`Content-Type` must be {JSON} or {PROTOBUF}, not {value:?}");
            Problem::new(Code::UnsupportedMediaType, message)
        })
    }

    /// What the answer is to be in: the first known type that `Accept` names, else what the request was in.
    pub(super) fn of_reply(headers: &HeaderMap, request: Self) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepted.flat_map(|list| list.split(',')).find_map(Self::of_media_type).unwrap_or(request)
    }

    pub(super) fn decode<T: Wire>(self, bytes: &[u8]) -> Result<T, Problem> {
        match self {
            Self::Json if bytes.is_empty() => Ok(T::default()),
            // A list would be taken for the fields in their order.
            Self::Json if !bytes.trim_ascii_start().starts_with(b"{") => {
                Err(Problem::invalid("the body must be a JSON object"))
            }
            Self::Json => serde_json::from_slice(bytes).map_err(|_| explain::<T>(bytes)),
            Self::Protobuf => T::decode(bytes).map_err(|error| {
                Problem::invalid(format!("the body is not the message it should be: {error}"))
            }),
        }
    }

    pub(super) fn encode<T: Wire>(self, value: &T) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            // The line end is for people at a terminal.
            Self::Json => serde_json::to_vec(value).map(|mut text| {
                text.push(b'\n');
                text
            }),
            Self::Protobuf => Ok(value.encode_to_vec()),
        }
    }
}

/// Reads a body again that did not make sense, to tell where. The first reading does without: keeping track of the
/// place has its price.
fn explain<T: Wire>(bytes: &[u8]) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(error) => error,
        Ok(_) => return Problem::invalid("the body must be one JSON object and nothing after it"),
    };
    let place = error.path().to_string();
    let cause = error.into_inner();
    let message = cause.to_string();
    if let Some(name) = later::field_in(&message) {
        return Problem::invalid(format!(
            "`{name}` is part of the API, but not of this version of the server yet"
        ));
    }
    match cause.classify() {
        serde_json::error::Category::Data if place != "." => {
            Problem::invalid(format!("`{place}`: {message}"))
        }
        serde_json::error::Category::Data => Problem::invalid(message),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof => Problem::invalid(format!("the body is not JSON: {message}")),
    }
}
