//! [`Http`]: HTTP/1.1 on one connection that stays open, head and body in one write.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;

use crate::wire::Wire;

pub(super) const JSON: &str = "application/json";
pub(super) const PROTOBUF: &str = "application/protobuf";

const HEADERS_MAX: usize = 32;
/// Room kept free before a body, for a head whose length is known only after the body.
const HEAD_BYTES: usize = 256;

#[derive(Debug)]
pub(super) struct Http {
    wire: Wire,
    address: SocketAddr,
    /// The head at the end of its room, then the body: kept from call to call.
    request: Vec<u8>,
}

impl Http {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { wire: Wire::connect(address).await?, address, request: Vec::new() })
    }

    /// Calls `POST /v1/<call>` with the body that `write_body` appends, and answers the body of the reply. A call that is
    /// refused because the server is overloaded is sent again after the time that the server names.
    pub(super) async fn call(
        &mut self,
        call: &str,
        content_type: &str,
        write_body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Bytes> {
        self.request.clear();
        self.request.resize(HEAD_BYTES, 0);
        write_body(&mut self.request);
        let body_bytes = self.request.len() - HEAD_BYTES;
        let mut head = [0; HEAD_BYTES];
        let head_bytes = write_head(&mut head, self.address, call, content_type, body_bytes)?;
        let start = HEAD_BYTES - head_bytes;
        self.request[start..HEAD_BYTES].copy_from_slice(&head[..head_bytes]);
        let (mut head, mut body) = self.exchange(start).await?;
        while let (429, Some(wait)) = (head.status, head.retry_after) {
            tokio::time::sleep(wait).await;
            (head, body) = self.exchange(start).await?;
        }
        match head.status {
            200 => Ok(body),
            status => bail!("{call} was refused: {status} {}", String::from_utf8_lossy(&body).trim()),
        }
    }

    /// Sends the request that begins at `start`, and reads the reply.
    async fn exchange(&mut self, start: usize) -> Result<(Head, Bytes)> {
        self.wire.send(&self.request[start..]).await?;
        self.reply().await
    }

    /// Whether the server has loaded its data.
    pub(super) async fn is_ready(&mut self) -> Result<bool> {
        let head = format!("GET /ready HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.wire.send(head.as_bytes()).await?;
        Ok(self.reply().await?.0.status == 200)
    }

    async fn reply(&mut self) -> Result<(Head, Bytes)> {
        loop {
            if let Some(head) = parse_head(self.wire.buffered())? {
                let _taken = self.wire.take(head.bytes).await?;
                let body = self.wire.take(head.content_length).await?;
                return Ok((head, body));
            }
            self.wire.read_more().await?;
        }
    }
}

fn write_head(
    into: &mut [u8],
    address: SocketAddr,
    call: &str,
    content_type: &str,
    body_bytes: usize,
) -> Result<usize> {
    let room = into.len();
    let mut left = into;
    write!(
        left,
        "POST /v1/{call} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {content_type}\r\nContent-Length: {body_bytes}\r\n\r\n"
    )
    .context("a request's head is longer than the room kept for it")?;
    Ok(room - left.len())
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: usize,
    status: u16,
    content_length: usize,
    retry_after: Option<Duration>,
}

/// The head of a reply, once all of it is there.
fn parse_head(input: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut reply = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(bytes) = reply.parse(input).context("a reply is not HTTP")? else {
        return Ok(None);
    };
    let number = |name: &str| -> Option<u64> {
        let header = reply.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()?.parse().ok()
    };
    let content_length = number("content-length").context("a reply has no Content-Length")? as usize;
    let retry_after = number("retry-after").map(Duration::from_secs);
    let status = reply.code.context("a reply has no status")?;
    Ok(Some(Head { bytes, status, content_length, retry_after }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_once_it_is_complete() {
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nwindlass-request-id: a\r\n\r\n{\"a\":1}";
        assert_eq!(parse_head(&reply[..30]).unwrap(), None);
        let head = parse_head(reply).unwrap().unwrap();
        assert_eq!(head, Head { bytes: reply.len() - 7, status: 200, content_length: 7, retry_after: None });
    }

    #[test]
    fn an_overloaded_server_tells_when_to_try_again() {
        let reply = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\ncontent-length: 0\r\n\r\n";
        let head = parse_head(reply).unwrap().unwrap();
        assert_eq!((head.status, head.retry_after), (429, Some(Duration::from_secs(2))));
    }

    #[test]
    fn a_reply_without_a_length_is_refused() {
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(parse_head(b"+OK redis\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_names_call_host_type_and_length() {
        let mut head = [0; HEAD_BYTES];
        let bytes =
            write_head(&mut head, "127.0.0.1:9463".parse().unwrap(), "queue.lease", JSON, 12).unwrap();
        let head = std::str::from_utf8(&head[..bytes]).unwrap();
        assert!(head.starts_with("POST /v1/queue.lease HTTP/1.1\r\nHost: 127.0.0.1:9463\r\n"));
        assert!(head.ends_with("Content-Length: 12\r\n\r\n"));
    }
}
