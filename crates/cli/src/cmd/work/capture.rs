//! What a command says: its end for an error, all of it for a result.

use std::collections::VecDeque;

/// With what stands before it, less than the 4096 bytes that an error may have.
const TAIL_BYTES_MAX: usize = 3800;
/// What the server takes by default.
pub(crate) const RESULT_BYTES_MAX: usize = 1 << 20;

/// The last of stderr.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<u8>);

impl Tail {
    pub(crate) fn push(&mut self, words: &[u8]) {
        self.0.extend(words);
        let excess = self.0.len().saturating_sub(TAIL_BYTES_MAX);
        self.0.drain(..excess);
    }

    /// As a text that the API takes.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}");
        // What was no UTF-8 has grown.
        let excess = text.len().saturating_sub(TAIL_BYTES_MAX);
        let start = (excess..=text.len()).find(|start| text.is_char_boundary(*start)).unwrap_or_default();
        text[start..].trim().to_owned()
    }
}

/// All of stdout, unless it is too much.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    bytes: Vec<u8>,
    too_much: bool,
}

impl Whole {
    pub(crate) fn push(&mut self, words: &[u8]) {
        self.too_much |= self.bytes.len() + words.len() > RESULT_BYTES_MAX;
        if !self.too_much {
            self.bytes.extend_from_slice(words);
        }
    }

    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        (!self.too_much).then_some(self.bytes)
    }
}
