//! [`Resp`]: the protocol of Redis, as far as it is needed here.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::Bytes;

use crate::wire::Wire;

#[derive(Debug)]
pub(super) struct Resp {
    wire: Wire,
    request: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Status,
    Integer(i64),
    Bulk(Option<Bytes>),
    /// An array of bulks: no command here answers anything deeper.
    Array(Vec<Bytes>),
}

impl Resp {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { wire: Wire::connect(address).await?, request: Vec::new() })
    }

    pub(super) async fn call(&mut self, parts: &[&[u8]]) -> Result<Value> {
        self.begin(parts.len());
        parts.iter().for_each(|part| self.part(part));
        self.finish().await
    }

    /// Begins a command of `parts` parts.
    pub(super) fn begin(&mut self, parts: usize) {
        self.request.clear();
        write!(self.request, "*{parts}\r\n").expect("a vector grows as it must");
    }

    pub(super) fn part(&mut self, part: &[u8]) {
        self.part_with(part.len(), |request| request.extend_from_slice(part));
    }

    /// A part of `length` bytes that `append` appends.
    pub(super) fn part_with(&mut self, length: usize, append: impl FnOnce(&mut Vec<u8>)) {
        write!(self.request, "${length}\r\n").expect("a vector grows as it must");
        append(&mut self.request);
        self.request.extend_from_slice(b"\r\n");
    }

    pub(super) async fn finish(&mut self) -> Result<Value> {
        self.wire.send(&self.request).await?;
        let line = self.wire.line().await?;
        match parse(&line)? {
            Line::Status => Ok(Value::Status),
            Line::Integer(number) => Ok(Value::Integer(number)),
            Line::Bulk(length) => Ok(Value::Bulk(self.bulk(length).await?)),
            Line::Array(length) => self.array(length).await,
        }
    }

    async fn array(&mut self, length: usize) -> Result<Value> {
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            let line = self.wire.line().await?;
            let Line::Bulk(length) = parse(&line)? else {
                bail!("redis answered an array of something else")
            };
            items.push(self.bulk(length).await?.context("redis answered an array with a gap")?);
        }
        Ok(Value::Array(items))
    }

    async fn bulk(&mut self, length: Option<usize>) -> Result<Option<Bytes>> {
        let Some(length) = length else { return Ok(None) };
        let mut bulk = self.wire.take(length + 2).await?;
        bulk.truncate(length);
        Ok(Some(bulk))
    }
}

/// The first line of a value.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Status,
    Integer(i64),
    Bulk(Option<usize>),
    Array(usize),
}

fn parse(line: &[u8]) -> Result<Line> {
    let text = std::str::from_utf8(line).context("redis answered something else than RESP")?;
    let number = || text[1..].parse::<i64>().with_context(|| format!("redis answered {text}"));
    match line.first() {
        Some(b'+') => Ok(Line::Status),
        Some(b':') => Ok(Line::Integer(number()?)),
        Some(b'$') => Ok(Line::Bulk(usize::try_from(number()?).ok())),
        Some(b'*') => Ok(Line::Array(usize::try_from(number()?).unwrap_or(0))),
        Some(b'-') => bail!("redis refused a command: {}", &text[1..]),
        Some(_) | None => bail!("redis answered something else than RESP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_line_is_told_apart() {
        assert_eq!(parse(b"+OK").unwrap(), Line::Status);
        assert_eq!(parse(b":42").unwrap(), Line::Integer(42));
        assert_eq!(parse(b"$5").unwrap(), Line::Bulk(Some(5)));
        assert_eq!(parse(b"$-1").unwrap(), Line::Bulk(None));
        assert_eq!(parse(b"*3").unwrap(), Line::Array(3));
        assert_eq!(parse(b"*-1").unwrap(), Line::Array(0));
    }

    #[test]
    fn an_error_of_redis_is_told_in_its_words() {
        let error = parse(b"-OOM command not allowed").unwrap_err();
        assert_eq!(error.to_string(), "redis refused a command: OOM command not allowed");
        assert!(parse(b"").is_err());
    }
}
