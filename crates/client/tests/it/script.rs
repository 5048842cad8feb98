//! A server that plays a script: it answers requests, in the order in which they come, with what the test laid out; or by
//! what is asked, where their order is not the test's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::world::within;

/// What the server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Answer(Answer),
    /// Answers, closes its side, and waits until the client has seen that and closed too.
    AnswerAndClose(Answer),
    /// Closes the connection without an answer.
    Cut,
    /// Begins an answer and closes the connection.
    CutInAnswer,
    /// Answers when the client has closed its side.
    AnswerAfterHangUp(Answer),
    /// Closes the connection when the client has closed its side.
    CutAfterHangUp,
    /// Never answers.
    Silence,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: u16, media: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type", media.to_owned())], body: body.into() }
    }

    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::new(status, "application/json", body)
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn write(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Told\r\ncontent-length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// What a client sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    play: Arc<Play>,
    task: JoinHandle<()>,
}

/// What is done with a request that the script has no act for.
type Otherwise = dyn Fn(&Seen) -> Act + Send + Sync;

struct Play {
    script: Mutex<VecDeque<Act>>,
    otherwise: Option<Box<Otherwise>>,
    so_far: watch::Sender<SoFar>,
}

#[derive(Clone, Debug, Default)]
struct SoFar {
    seen: Vec<Seen>,
    accepted: usize,
    closed: usize,
}

impl Server {
    pub(crate) async fn start(script: impl IntoIterator<Item = Act>) -> Self {
        Self::play(script.into_iter().collect(), None).await
    }

    /// Does with every request what is said of one like it.
    pub(crate) async fn by_request(act: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::play(VecDeque::new(), Some(Box::new(act))).await
    }

    async fn play(script: VecDeque<Act>, otherwise: Option<Box<Otherwise>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let play = Arc::new(Play { script: Mutex::new(script), otherwise, so_far: watch::Sender::default() });
        let task = tokio::spawn(accept(listener, play.clone()));
        Self { url, play, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.play.so_far.borrow().seen.clone()
    }

    /// How many connections were made.
    pub(crate) fn accepted(&self) -> usize {
        self.play.so_far.borrow().accepted
    }

    /// What of the script was not played.
    pub(crate) fn left(&self) -> usize {
        self.play.script.lock().unwrap().len()
    }

    pub(crate) async fn until_seen(&self, requests: usize) {
        self.until(|so_far| so_far.seen.len() >= requests).await;
    }

    /// Until the client has let go of that many connections which the server had closed.
    pub(crate) async fn until_closed(&self, connections: usize) {
        self.until(|so_far| so_far.closed >= connections).await;
    }

    async fn until(&self, done: impl FnMut(&SoFar) -> bool) {
        let mut so_far = self.play.so_far.subscribe();
        drop(within(so_far.wait_for(done)).await.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, play: Arc<Play>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        play.so_far.send_modify(|so_far| so_far.accepted += 1);
        connections.spawn(serve(stream, play.clone()));
    }
}

async fn serve(mut stream: TcpStream, play: Arc<Play>) {
    while let Some(request) = read_request(&mut stream).await {
        let act = play.script.lock().unwrap().pop_front();
        let act = act.or_else(|| play.otherwise.as_ref().map(|act| act(&request)));
        play.so_far.send_modify(|so_far| so_far.seen.push(request));
        match act.expect("the script has an act for every request") {
            Act::Answer(answer) => stream.write_all(&answer.write()).await.unwrap(),
            Act::AnswerAndClose(answer) => {
                stream.write_all(&answer.write()).await.unwrap();
                stream.shutdown().await.unwrap();
                while stream.read(&mut [0]).await.is_ok_and(|read| read > 0) {}
                play.so_far.send_modify(|so_far| so_far.closed += 1);
                return;
            }
            Act::Cut => return,
            Act::CutInAnswer => {
                return stream.write_all(b"HTTP/1.1 200 Told\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
            }
            Act::AnswerAfterHangUp(answer) => {
                while stream.read(&mut [0]).await.unwrap() > 0 {}
                return stream.write_all(&answer.write()).await.unwrap();
            }
            Act::CutAfterHangUp => while stream.read(&mut [0]).await.unwrap() > 0 {},
            Act::Silence => std::future::pending().await,
        }
    }
}

/// None when the client closed the connection.
async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        read_more(stream, &mut bytes).await?;
    }
    let line = head.lines().next().unwrap().to_owned();
    Some(Seen { line, head, body: bytes[head_end..].to_vec() })
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(bytes).await.ok()?;
    (read > 0).then_some(())
}
