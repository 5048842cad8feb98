//! What is sent as JSON, what as text, and what as bytes.

use clap::ValueEnum;
use serde::de::IgnoredAny;
use windlass_api::payload::Payload;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Json,
    Utf8,
    Bytes,
}

/// Without a form: JSON if it is JSON, else text if it is text, else bytes. What begins like JSON and is not is
/// refused: it is a slip far more often than a text.
pub(crate) fn payload(content: Vec<u8>, form: Option<Form>) -> Result<Payload, String> {
    match form {
        Some(Form::Bytes) => Ok(Payload::from_bytes(content)),
        Some(Form::Utf8) => text(content).map(Payload::from_utf8).map_err(|_| "not valid UTF-8".into()),
        Some(Form::Json) => json(text(content).map_err(|_| "not valid UTF-8")?).map_err(|(_, why)| why),
        None => guess(content),
    }
}

fn guess(content: Vec<u8>) -> Result<Payload, String> {
    match text(content).map(json) {
        Ok(Ok(payload)) => Ok(payload),
        Ok(Err((text, why))) if looks_like_json(&text) => {
            Err(format!("{why}. If it is meant as a text, say `--as utf8`"))
        }
        Ok(Err((text, _))) => Ok(Payload::from_utf8(text)),
        Err(content) => Ok(Payload::from_bytes(content)),
    }
}

fn text(content: Vec<u8>) -> Result<String, Vec<u8>> {
    String::from_utf8(content).map_err(std::string::FromUtf8Error::into_bytes)
}

fn json(text: String) -> Result<Payload, (String, String)> {
    match serde_json::from_str::<IgnoredAny>(&text) {
        Ok(_) => Ok(Payload { json: Some(text.trim().to_owned()), ..Payload::default() }),
        Err(error) => Err((text, format!("not valid JSON: {error}"))),
    }
}

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
}

/// On one line, for a table.
pub(crate) fn shown(json: Option<&str>, utf8: Option<&str>, bytes: Option<&[u8]>) -> String {
    match (json, utf8, bytes) {
        (Some(json), _, _) => json.to_owned(),
        (_, Some(text), _) => format!("{text:?}"),
        (_, _, Some(bytes)) => format!("<{} bytes>", bytes.len()),
        (None, None, None) => "-".into(),
    }
}
