//! Connections whose asking side can be closed while an answer may still come.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Extensions, Uri};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tower_service::Service;

#[derive(Clone, Debug)]
pub(crate) struct Connector(pub(crate) HttpConnector);

#[derive(Debug)]
pub(crate) struct Connection {
    answers: OwnedReadHalf,
    asking: Asking,
}

/// The side that asks: none once it is closed.
#[derive(Clone, Debug)]
struct Asking(Arc<Mutex<Option<OwnedWriteHalf>>>);

/// Closes the asking side of the connection that a request was given, if it has one. It is not used again.
pub(crate) fn hang_up(captured: &CaptureConnection) -> bool {
    let connected = captured.connection_metadata();
    let Some(connected) = &*connected else { return false };
    connected.poison();
    let mut extras = Extensions::new();
    connected.get_extras(&mut extras);
    let asking: &Asking = extras.get().expect("every connection of this client has one");
    // What is dropped is shut down.
    drop(asking.0.lock().expect("nothing panics while it holds this").take());
    true
}

type Connecting<E> = Pin<Box<dyn Future<Output = Result<TokioIo<Connection>, E>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = Connecting<Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { Ok(TokioIo::new(Connection::new(connecting.await?.into_inner()))) })
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let (answers, asking) = stream.into_split();
        Self { answers, asking: Asking(Arc::new(Mutex::new(Some(asking)))) }
    }
}

impl hyper_util::client::legacy::connect::Connection for Connection {
    fn connected(&self) -> Connected {
        Connected::new().extra(self.asking.clone())
    }
}

impl Asking {
    fn poll<T>(
        &self,
        closed: io::Result<T>,
        poll: impl FnOnce(Pin<&mut OwnedWriteHalf>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.0.lock().expect("nothing panics while it holds this") {
            Some(half) => poll(Pin::new(half)),
            None => Poll::Ready(closed),
        }
    }
}

fn closed<T>() -> io::Result<T> {
    Err(ErrorKind::BrokenPipe.into())
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.answers).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asking.poll(closed(), |half| half.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.asking.poll(closed(), |half| half.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Or an answer would not be read any more.
        self.asking.poll(Ok(()), |half| half.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.asking.poll(Ok(()), |half| half.poll_shutdown(context))
    }
}
