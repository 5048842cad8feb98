//! What a command is told of its item, in variables.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use windlass_api::items::LeasedItem;
use windlass_api::payload::Payload;

/// Beside `WINDLASS_URL`.
pub(crate) const VARIABLES: [&str; 12] = [
    "WINDLASS_QUEUE",
    "WINDLASS_ITEM_ID",
    "WINDLASS_PERMIT",
    "WINDLASS_KIND",
    "WINDLASS_PRIORITY",
    "WINDLASS_ATTEMPTS",
    "WINDLASS_CREATED_AT",
    "WINDLASS_HEADERS",
    "WINDLASS_REFERENCE",
    "WINDLASS_ADDRESS",
    "WINDLASS_GROUP",
    "WINDLASS_INPUT",
];
/// With its name, less than the 128 KiB that Linux has for one variable.
const INPUT_BYTES_MAX: usize = 120 << 10;

/// In the order of [`VARIABLES`].
pub(crate) type Facts = [Option<String>; VARIABLES.len()];

/// Or why the command cannot be told.
pub(crate) fn facts(queue: &str, item: &LeasedItem) -> Result<Facts, String> {
    let headers = serde_json::to_string(&item.headers).expect("texts can be written");
    Ok([
        Some(queue.to_owned()),
        Some(item.id.clone()),
        Some(item.permit.to_string()),
        Some(item.kind.clone()),
        Some(item.priority.to_string()),
        Some(item.attempts.to_string()),
        Some(item.created_at.to_string()),
        Some(headers),
        item.reference.clone(),
        item.address.clone(),
        item.group.clone(),
        item.input.clone().map(answer).transpose()?,
    ])
}

/// JSON and texts as they are, bytes as in the API.
fn answer(Payload { json, utf8, bytes }: Payload) -> Result<String, String> {
    let encoded = || BASE64_STANDARD.encode(bytes.unwrap_or_default());
    let answer = json.or(utf8).unwrap_or_else(encoded);
    if answer.len() > INPUT_BYTES_MAX {
        let bytes = answer.len();
        return Err(format!("the answer has {bytes} bytes, and WINDLASS_INPUT at most {INPUT_BYTES_MAX}"));
    }
    if answer.contains('\0') {
        return Err("the answer has a zero byte, which WINDLASS_INPUT cannot have".to_owned());
    }
    Ok(answer)
}
