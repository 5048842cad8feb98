//! HTTP as bytes on a connection, for requests that no client sends and for replies that nobody reads.

use std::str::FromStr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::server_process::{PATIENCE, ServerProcess};

/// The receive buffer of a connection whose replies are not read, so that the kernel takes little of them either.
const UNREAD_BUFFER_BYTES: u32 = 4 << 10;

/// A reply of which only the head has been read.
#[derive(Debug)]
pub(crate) struct RawReply {
    head: String,
    stream: TcpStream,
}

impl RawReply {
    /// Sends the request on a connection of its own.
    pub(crate) async fn ask(address: &str, request: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        Self::ask_on(socket, address, request).await
    }

    /// Sends the request on a connection whose kernel takes next to nothing of the reply.
    async fn ask_with_little_buffer(address: &str, request: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(UNREAD_BUFFER_BYTES).expect("a socket option");
        Self::ask_on(socket, address, request).await
    }

    async fn ask_on(socket: TcpSocket, address: &str, request: &str) -> Self {
        let address = address.parse().expect("an address");
        let answered = async {
            let mut stream = socket.connect(address).await.expect("the server listens");
            stream.write_all(request.as_bytes()).await.expect("the request is sent");
            Self { head: head(&mut stream).await, stream }
        };
        timeout(PATIENCE, answered).await.expect("the server answers")
    }

    pub(crate) fn status(&self) -> u16 {
        parsed(self.head.split(' ').nth(1).expect("a status line"))
    }

    /// `Content-Length` of a reply that is no stream.
    pub(crate) fn body_bytes(&self) -> usize {
        let length = self.head.lines().find_map(|line| line.strip_prefix("content-length: "));
        parsed(length.expect("a reply that is no stream"))
    }

    pub(crate) async fn body(mut self) -> String {
        let mut body = vec![0; self.body_bytes()];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut body)).await.expect("the server goes on");
        read.expect("the whole body");
        String::from_utf8(body).expect("a text")
    }
}

/// Asks for the path on so many connections at once, and reads nothing of the replies but their heads.
pub(crate) async fn leave_unread(server: &ServerProcess, path: &str, readers: usize) -> Vec<RawReply> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut asking = JoinSet::new();
    for _ in 0..readers {
        let (address, request) = (server.address().to_owned(), request.clone());
        asking.spawn(async move { RawReply::ask_with_little_buffer(&address, &request).await });
    }
    asking.join_all().await
}

/// Reads byte by byte, so that nothing of the body is taken.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    String::from_utf8(head).expect("a text")
}

fn parsed<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
