//! The lines that a NATS server sends.

use anyhow::{Context, Result, bail};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A message follows: `header` of its `bytes` are headers.
    Message {
        reply: Option<String>,
        header: usize,
        bytes: usize,
    },
    Ping,
    /// A line that needs no answer.
    Other,
}

pub(super) fn parse(line: &[u8]) -> Result<Line> {
    let text = std::str::from_utf8(line).context("nats answered something else than text")?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words.as_slice() {
        ["MSG", _subject, _sid, bytes] => message(None, "0", bytes),
        ["MSG", _subject, _sid, reply, bytes] => message(Some(reply), "0", bytes),
        ["HMSG", _subject, _sid, header, bytes] => message(None, header, bytes),
        ["HMSG", _subject, _sid, reply, header, bytes] => message(Some(reply), header, bytes),
        ["PING"] => Ok(Line::Ping),
        ["PONG" | "+OK"] | ["INFO", ..] => Ok(Line::Other),
        _ => bail!("nats answered {text}"),
    }
}

fn message(reply: Option<&str>, header: &str, bytes: &str) -> Result<Line> {
    Ok(Line::Message { reply: reply.map(str::to_owned), header: header.parse()?, bytes: bytes.parse()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_with_reply_and_length() {
        let message = Line::Message { reply: Some("$JS.ACK.q.1".into()), header: 0, bytes: 200 };
        assert_eq!(parse(b"MSG q 1 $JS.ACK.q.1 200").unwrap(), message);
        assert_eq!(parse(b"MSG q 1 7").unwrap(), Line::Message { reply: None, header: 0, bytes: 7 });
        assert_eq!(parse(b"HMSG q 1 28 28").unwrap(), Line::Message { reply: None, header: 28, bytes: 28 });
    }

    #[test]
    fn an_error_of_the_server_is_told_in_its_words() {
        assert_eq!(parse(b"PING").unwrap(), Line::Ping);
        assert!(
            parse(b"-ERR 'Unknown Protocol Operation'").unwrap_err().to_string().contains("Unknown Protocol")
        );
    }
}
