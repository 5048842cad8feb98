//! The two encodings: which one a request speaks, and what its bytes mean.

use std::any::TypeId;
use std::cell::Cell;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::error::Category;
use windlass_api::call::Wire;
use windlass_api::queues::UpdateQueueRequest;
use windlass_api::shape::Shaped;
use windlass_api::{Code, JSON, PROTOBUF};

use super::error::Problem;
use super::strict::Strict;
use super::{json, scan};

/// Room for most replies: a text that grows is copied again and again.
const REPLY_BYTES_MIN: usize = 512;
/// A reply takes about so many bytes in JSON for each that it takes in protobuf.
const JSON_PER_PROTOBUF: usize = 2;
/// What a client sent is told back to it only so far.
const TOLD_CHARS_MAX: usize = 200;

/// A request as the code knows it.
pub(super) struct Decoded<T> {
    pub(super) request: T,
    /// What the request takes in memory beside the letters of its texts, for which the body's length stands.
    pub(super) weight: usize,
}

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
        // As nearly everybody writes it.
        if value == JSON {
            return Some(Self::Json);
        }
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

    /// What the answer is to be in: what `Accept` likes best of the two, else what the request was in.
    pub(super) fn of_reply(headers: &HeaderMap, request: Self) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best: Option<(f32, Self)> = None;
        for entry in accepted.flat_map(|list| list.split(',')) {
            let (Some(encoding), quality) = (Self::of_media_type(entry), quality(entry)) else { continue };
            if quality > best.map_or(0.0, |(quality, _)| quality) {
                best = Some((quality, encoding));
            }
        }
        best.map_or(request, |(_, encoding)| encoding)
    }

    pub(super) fn decode<T: Wire + Shaped>(self, bytes: &[u8]) -> Result<Decoded<T>, Problem> {
        match self {
            Self::Json if bytes.is_empty() => Ok(Decoded { request: T::default(), weight: 0 }),
            Self::Json => from_json(bytes).map_err(|_| explain::<T>(bytes)),
            Self::Protobuf => from_protobuf(bytes),
        }
    }

    pub(super) fn encode<T: Wire>(self, value: &T) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            // The line end is for people at a terminal.
            Self::Json => {
                let mut text =
                    Vec::with_capacity(REPLY_BYTES_MIN.max(value.encoded_len() * JSON_PER_PROTOBUF));
                json::write(value, &mut text)?;
                text.push(b'\n');
                Ok(text)
            }
            Self::Protobuf => Ok(value.encode_to_vec()),
        }
    }
}

/// `application/json;q=0.9`: how much it is liked.
fn quality(entry: &str) -> f32 {
    let parameters = entry.split(';').skip(1).map(str::trim);
    let stated = parameters.filter_map(|parameter| parameter.strip_prefix("q=")).next();
    stated.map_or(1.0, |text| text.parse().unwrap_or(0.0))
}

fn from_json<T: Wire>(bytes: &[u8]) -> Result<Decoded<T>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let weight = Cell::new(0);
    let request = T::deserialize(Strict { json: &mut json, weight: &weight })?;
    json.end()?;
    Ok(Decoded { request, weight: weight.get() })
}

/// Reads a body again that did not make sense, to tell where. The first reading does without: keeping track of the
/// place has its price.
fn explain<T: Wire>(bytes: &[u8]) -> Problem {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let strict = Strict { json: &mut json, weight: &Cell::new(0) };
    let error = match serde_path_to_error::deserialize::<_, T>(strict) {
        Err(error) => error,
        Ok(_) => return Problem::invalid("the body must be one JSON object and nothing after it"),
    };
    let place = error.path().to_string();
    // An entry of a map whose key was not read.
    let place = place.strip_suffix(".?").unwrap_or(&place);
    let cause = error.into_inner();
    let message = cause.to_string();
    if is_of_rebalance::<T>(&message) {
        return Problem::invalid("`partitions` is not changed with queues.update: use queue.rebalance");
    }
    let message = told(&plainly(&message));
    match cause.classify() {
        Category::Data if place != "." => Problem::invalid(format!("`{}`: {message}", told(place))),
        Category::Data => Problem::invalid(message),
        Category::Io | Category::Syntax | Category::Eof => {
            Problem::invalid(format!("the body is not JSON: {message}"))
        }
    }
}

/// A queue is given other partitions by a call of its own, but somebody may well look for it among the settings.
fn is_of_rebalance<T: Wire>(complaint: &str) -> bool {
    TypeId::of::<T>() == TypeId::of::<UpdateQueueRequest>()
        && complaint.starts_with("unknown field `partitions`")
}

/// In words of the API instead of Rust's.
fn plainly(message: &str) -> String {
    let words = [("expected u32", "expected a whole number"), ("expected u64", "expected a whole number")];
    words.iter().fold(message.to_owned(), |text, (rust, plain)| text.replace(rust, plain))
}

fn told(text: &str) -> String {
    match text.char_indices().nth(TOLD_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn from_protobuf<T: Wire + Shaped>(bytes: &[u8]) -> Result<Decoded<T>, Problem> {
    let weight = scan::weigh::<T>(bytes)?;
    let request = T::decode(bytes).map_err(|error| scan::not_the_message(told(&error.to_string())))?;
    Ok(Decoded { request, weight })
}
