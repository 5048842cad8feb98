//! Connections, and how they are kept from doing harm: every wait has an end and every amount a limit.
//!
//! Read this file first: the accept loop. Then `connection` (one connection from its first byte to its end), `http1` (heads and
//! chunks), `inlet` (bytes that have come), `answer` (how a reply is written), `io` (timeouts), `pace` (how fast a client must be),
//! `budget` (which body or reply gives way when there is no room; `books` chooses, by the sums of `timeline`), `body` and `reply`
//! (arguments and results of a [`Handler`]), `silence` (readers of a stream that take nothing), and `farewell` (how a client that is
//! refused gets to know it).

mod alarm;
mod answer;
mod body;
mod books;
mod budget;
mod connection;
mod exchange;
mod farewell;
mod http1;
mod inlet;
mod io;
mod latch;
mod limits;
mod pace;
mod reply;
mod scratch;
mod seldom;
mod shares;
mod silence;
mod timeline;
mod traffic;

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};
use windlass_engine::env::Deadlines;

pub use self::body::{BodyError, ClientSide, NoRoom, Received, RequestBody};
pub use self::limits::Limits;
pub use self::reply::{Reply, Source};
pub use self::shares::ReplyShare;
pub use self::traffic::{Timeout, Traffic};

use self::farewell::{Patience, Refusal};
use self::traffic::Slot;

/// Connections over the limit that are told so at the same time; more than these are closed without a word.
const REFUSALS_MAX: usize = 64;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
const REFUSAL_UNREAD_BYTES_MAX: usize = 64 * 1024;
/// After a failure to accept that the next attempt would meet again, such as no file descriptor being left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a reply that the kernel takes and cannot send yet.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// Answers requests.
pub trait Handler: Send + Sync + fmt::Debug + 'static {
    /// Dropped when the client is gone.
    fn handle(
        self: Arc<Self>,
        request: Request<RequestBody>,
    ) -> Pin<Box<dyn Future<Output = Response<Reply>> + Send>>;

    /// The listener answers with this status what never became a request. Counts it, and tells the id of that reply.
    fn refused(&self, status: StatusCode) -> String;
}

#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    limits: Limits,
    traffic: Arc<Traffic>,
}

/// What all connections share.
#[derive(Debug)]
struct Server {
    limits: Limits,
    traffic: Arc<Traffic>,
    handler: Arc<dyn Handler>,
    refusals: Arc<Semaphore>,
    /// Deadlines of request bodies.
    deadlines: Deadlines,
    stopping: watch::Receiver<bool>,
}

impl Listener {
    pub async fn bind(address: SocketAddr, limits: Limits) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let traffic = Arc::new(Traffic::new(limits.bytes_in_flight_max, limits.slow_after));
        Ok(Self { socket, address, limits, traffic })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Until `stopping` is true: then takes no new connection, closes those whose request has not come in whole, and
    /// lets the others be answered. Returns when the last connection is gone, and tells how many were cut at `grace`.
    pub async fn run(
        self,
        handler: Arc<dyn Handler>,
        stopping: watch::Receiver<bool>,
        grace: Duration,
    ) -> usize {
        let Self { socket, limits, traffic, .. } = self;
        let server = Arc::new(Server::new(limits, traffic, handler, stopping));
        let mut connections = JoinSet::new();
        tokio::select! {
            () = server.stopped() => {}
            () = accept_all(&server, &socket, &mut connections) => {}
        }
        drop(socket);
        let _late = timeout(grace, last_of(&mut connections)).await;
        cut(connections).await
    }
}

async fn accept_all(server: &Arc<Server>, socket: &TcpListener, connections: &mut JoinSet<()>) {
    loop {
        tokio::select! {
            Some(ended) = connections.join_next() => tell_panic(ended),
            stream = accept(socket, &server.traffic) => server.admit(stream, connections),
        }
    }
}

/// Tells how many there were.
async fn cut(mut connections: JoinSet<()>) -> usize {
    let left = connections.len();
    if left > 0 {
        warn!(connections = left, "connections cut at the end of the grace period");
        connections.shutdown().await;
    }
    left
}

async fn last_of(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        tell_panic(ended);
    }
}

fn tell_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        error!(%error, "connection ended by a panic");
    }
}

async fn accept(socket: &TcpListener, traffic: &Traffic) -> TcpStream {
    let mut told = false;
    loop {
        match socket.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(error.kind()) => {
                debug!(%error, "connection gone before it began");
            }
            Err(error) => {
                traffic.count_accept_failure();
                if !std::mem::replace(&mut told, true) {
                    warn!(%error, "no connection can be accepted");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    // Without `TCP_NODELAY` a small reply may wait for the client to acknowledge the one before.
    stream.set_nodelay(true)?;
    // Without `TCP_NOTSENT_LOWAT` the kernel takes megabytes of a reply and then nothing for minutes: `Pace` could not tell a
    // client that reads slowly from one that does not read.
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    Ok(())
}

/// Whether the next connection has nothing to do with it.
fn is_of_one_connection(error: ErrorKind) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error)
}

impl Server {
    fn new(
        limits: Limits,
        traffic: Arc<Traffic>,
        handler: Arc<dyn Handler>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        Self { limits, traffic, handler, refusals, deadlines: Deadlines::default(), stopping }
    }

    /// When the server is stopping, or nobody is left who could say so.
    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        let _nobody_left = stopping.wait_for(|stopping| *stopping).await;
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, connections: &mut JoinSet<()>) {
        let Some(slot) = Slot::take(&self.traffic, self.limits.connections_max) else {
            return self.refuse(stream, connections);
        };
        if let Err(error) = prepare(&stream) {
            debug!(%error, "connection gone before it began");
        }
        connections.spawn(connection::serve(Arc::clone(self), stream, slot));
    }

    fn refuse(&self, stream: TcpStream, connections: &mut JoinSet<()>) {
        self.traffic.count_refused();
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        let text = self.refusal(&Refusal::too_many_connections(self.limits.connections_max));
        let patience = Patience { bytes_max: REFUSAL_UNREAD_BYTES_MAX, stall_timeout: REFUSAL_TIMEOUT };
        connections.spawn(async move {
            let _late = timeout(REFUSAL_TIMEOUT, farewell::refuse(&stream, &text, patience)).await;
            drop(permit);
        });
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        refusal.text(&self.handler.refused(refusal.status()))
    }
}
