//! An address that stays while servers behind it come and go, and whose connections can be cut.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) url: String,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    connections: JoinSet<()>,
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new(Shared { server, connections: JoinSet::new() }));
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { url, shared, task }
    }

    /// All connections that there are, without a word.
    pub(crate) fn cut(&self) {
        self.shared.lock().unwrap().connections.abort_all();
    }

    pub(crate) fn lead_to(&self, server: SocketAddr) {
        self.shared.lock().unwrap().server = server;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut shared = shared.lock().unwrap();
        let server = shared.server;
        shared.connections.spawn(async move {
            if let Ok(mut server) = TcpStream::connect(server).await {
                let _cut = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
