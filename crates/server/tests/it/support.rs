//! A server of one's own for each test, and a plain HTTP client that hides nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use windlass_api::error::ErrorReply;
use windlass_api::{Call, JSON, PROTOBUF};
use windlass_server::config::{self, RawConfig, RawLimits};
use windlass_server::lifecycle::Server;

pub(crate) struct TestServer {
    server: Option<Server>,
    directory: TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(RawLimits::default()).await
    }

    pub(crate) async fn with(limits: RawLimits) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Some(start_on(&data(&directory), limits).await);
        Self { server, directory }
    }

    /// With settings other than `data` and `listen`, which are the test's own.
    pub(crate) async fn configured(flags: RawConfig) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Some(start_with(&data(&directory), flags).await);
        Self { server, directory }
    }

    /// On data that is there; it is copied first, for it is somebody else's.
    pub(crate) async fn on(data: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let copy = self::data(&directory);
        std::fs::create_dir(&copy).expect("a directory is made");
        for entry in std::fs::read_dir(data).expect("the data is there") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a file is copied");
        }
        let server = Some(start_on(&copy, RawLimits::default()).await);
        Self { server, directory }
    }

    pub(crate) fn data(&self) -> PathBuf {
        data(&self.directory)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().expect("it runs").address()
    }

    pub(crate) async fn connect(&self) -> Http {
        Http::connect(self.address()).await
    }

    pub(crate) async fn stop(&mut self) {
        self.server.take().expect("it runs").stop().await;
    }

    /// Stops it, and starts another on the same data.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.server = Some(start_on(&data(&self.directory), RawLimits::default()).await);
    }
}

/// Backups go beside it.
fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

async fn start_on(data: &Path, limits: RawLimits) -> Server {
    start_with(data, RawConfig { limits, ..RawConfig::default() }).await
}

async fn start_with(data: &Path, flags: RawConfig) -> Server {
    let flags = RawConfig {
        data: Some(data.to_str().expect("a path in UTF-8").into()),
        listen: Some("127.0.0.1:0".into()),
        ..flags
    };
    let config = config::load(flags, None, std::iter::empty()).expect("a valid configuration");
    Server::start(config).await.expect("the server starts")
}

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
