//! `Http`: a plain HTTP client that hides nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use windlass_api::error::ErrorReply;
use windlass_api::{Call, JSON, PROTOBUF};

/// One connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Http {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket option");
        Self::over(stream)
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.stream.write_all(&bytes).await.expect("the request is sent");
    }

    pub(crate) async fn receive(&mut self) -> Got {
        let mut got = self.receive_head().await;
        let length = got.headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        got.body = vec![0; length];
        self.stream.read_exact(&mut got.body).await.expect("the whole body");
        got
    }

    /// The next chunk of a body that comes in pieces; `None` after the last, and when the connection is gone.
    pub(crate) async fn receive_chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.ok()?;
        let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    pub(crate) fn stream_mut(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Without the body, which is still to come.
    pub(crate) async fn receive_head(&mut self) -> Got {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.expect("an answer");
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).await.expect("a header");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        Got { status, headers, body: Vec::new() }
    }

    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Got {
        self.send(method, path, headers, body).await;
        self.receive().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Got {
        self.request("GET", path, &[], b"").await
    }

    /// Posts JSON to a call, whatever it is.
    pub(crate) async fn post(&mut self, call: &str, body: &str) -> Got {
        self.request("POST", &format!("/v1/{call}"), &[("content-type", JSON)], body.as_bytes()).await
    }

    /// Posts JSON that must succeed.
    pub(crate) async fn ok(&mut self, call: &str, body: Value) -> Value {
        let got = self.post(call, &body.to_string()).await;
        assert_eq!(got.status, 200, "{call} {body}: {}", String::from_utf8_lossy(&got.body));
        got.json()
    }

    /// A typed call in the encoding named.
    pub(crate) async fn call<C: Call>(
        &mut self,
        encoding: &str,
        request: &C,
    ) -> Result<C::Reply, ErrorReply> {
        let body = match encoding {
            JSON => serde_json::to_vec(request).expect("it serialises"),
            _ => request.encode_to_vec(),
        };
        let path = format!("/v1/{}", C::NAME);
        let got = self.request("POST", &path, &[("content-type", encoding)], &body).await;
        assert_eq!(got.headers.get("content-type").map(String::as_str), Some(encoding));
        if got.status == 200 { Ok(decode(encoding, &got.body)) } else { Err(decode(encoding, &got.body)) }
    }
}

pub(crate) fn decode<T: windlass_api::call::Wire>(encoding: &str, body: &[u8]) -> T {
    match encoding {
        JSON => serde_json::from_slice(body).expect("JSON of the right shape"),
        PROTOBUF => T::decode(body).expect("the right message"),
        other => panic!("no encoding: {other}"),
    }
}
