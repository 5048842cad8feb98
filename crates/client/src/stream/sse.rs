//! Server-sent events: bytes in, frames out.

use std::collections::VecDeque;

/// A frame as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: String,
}

/// What has come of lines and frames that are not at their ends yet.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    frame: Raw,
}

impl Parser {
    pub(super) fn feed(&mut self, bytes: &[u8], frames: &mut VecDeque<Raw>) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                frames.extend(self.line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])));
            }
        }
    }

    /// The frame that an empty line ends.
    fn line(&mut self, line: &str) -> Option<Raw> {
        if line.is_empty() {
            // Without data it is none, by the rules of the format.
            return Some(std::mem::take(&mut self.frame)).filter(|frame| !frame.data.is_empty());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if !self.frame.data.is_empty() {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // A comment has no field; others may come with newer servers.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ":\n\nid: 7\nevent: progress\ndata: {\"é\": 1}\n\nevent: state\r\ndata:{}\r\n\r\n: x\n\ndata: a\ndata: b\n\nevent: cut";

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut() {
        let raw = |id: Option<&str>, event: &str, data: &str| Raw {
            id: id.map(str::to_owned),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        let expected =
            [raw(Some("7"), "progress", "{\"é\": 1}"), raw(None, "state", "{}"), raw(None, "", "a\nb")];
        for size in 1..TEXT.len() {
            let (mut parser, mut frames) = (Parser::default(), VecDeque::new());
            TEXT.as_bytes().chunks(size).for_each(|bytes| parser.feed(bytes, &mut frames));
            assert_eq!(frames, expected);
        }
    }
}
