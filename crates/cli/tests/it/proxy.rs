//! Stands before a server, and makes it go away for as long as a test wants.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::world::Server;

#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    door: Arc<Mutex<Door>>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Door {
    away: bool,
    gone: bool,
    connections: Vec<TcpStream>,
}

impl Proxy {
    pub(crate) fn before(server: &Server) -> Self {
        Self::before_url(&server.url)
    }

    pub(crate) fn before_url(url: &str) -> Self {
        let target: SocketAddr = url.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, door) = (listener.local_addr().unwrap(), Arc::<Mutex<Door>>::default());
        let accepting = {
            let door = Arc::clone(&door);
            std::thread::spawn(move || accept(&listener, target, &door))
        };
        Self { address, door, accepting: Some(accepting) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts what is connected, and whoever connects from now on.
    pub(crate) fn go_away(&self) {
        let mut door = self.door.lock().unwrap();
        door.away = true;
        cut(&mut door);
    }

    pub(crate) fn come_back(&self) {
        self.door.lock().unwrap().away = false;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut door = self.door.lock().unwrap();
            door.gone = true;
            cut(&mut door);
        }
        // Wakes the thread, which then sees that it is over.
        drop(TcpStream::connect(self.address));
        self.accepting.take().map(JoinHandle::join);
    }
}

fn cut(door: &mut Door) {
    for connection in door.connections.drain(..) {
        let _closed_already = connection.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, door: &Mutex<Door>) {
    loop {
        let (client, _) = listener.accept().unwrap();
        let mut door = door.lock().unwrap();
        if door.gone {
            return;
        }
        if !door.away {
            let server = TcpStream::connect(target).unwrap();
            pass(&client, &server);
            pass(&server, &client);
            door.connections.extend([client, server]);
        }
    }
}

/// What one says to the other, until either is cut.
fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let _cut = io::copy(&mut from, &mut to);
        let _closed_already = to.shutdown(Shutdown::Both);
    });
}
