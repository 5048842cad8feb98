//! Texts that came from a server, made safe for a terminal: none of their characters moves the cursor, changes a color, rings,
//! or turns the direction in which the rest is read.

use std::borrow::Cow;

use crate::human::is_unsafe;

/// For people: such a character is shown by its number, as `\u{1b}`. Line ends stay.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    replaced(text, |letter, safe| match letter {
        '\n' => safe.push('\n'),
        other => safe.extend(other.escape_default()),
    })
}

/// A JSON document: such a character is written as `\u001b`, which means the same to whoever reads the document. Line ends, which
/// valid JSON has only between its values, become spaces, so that a document is one line.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    replaced(document, |letter, safe| match letter {
        '\n' | '\r' | '\t' => safe.push(' '),
        other => safe.push_str(&format!("\\u{:04x}", u32::from(other))),
    })
}

/// A JSON document on one line, and otherwise as it is.
pub(crate) fn one_line(document: &str) -> Cow<'_, str> {
    if document.contains(['\n', '\r']) { document.replace(['\n', '\r'], " ").into() } else { document.into() }
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_unsafe(letter) { replace(letter, &mut safe) } else { safe.push(letter) }
    }
    safe.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_obeys_are_shown_by_their_numbers() {
        assert_eq!(
            text("a\u{1b}[2Jb\u{7}\u{9b}\u{7f}\u{202e}c\nd"),
            "a\\u{1b}[2Jb\\u{7}\\u{9b}\\u{7f}\\u{202e}c\nd"
        );
        assert!(matches!(text("naïve — 漢字 🚀"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_document_means_the_same_and_is_one_line() {
        let document = "{\"a\":\r\n\t\"\u{7f}\u{9b}\u{202e}é\"}";
        let safe = json(document);
        assert_eq!(safe, "{\"a\":   \"\\u007f\\u009b\\u202eé\"}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&safe), value(document));
    }
}
