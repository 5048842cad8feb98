//! Bodies that would become very large when they are decoded, against the real program: what it takes up stays a small
//! multiple of what is in flight, and is given back.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use windlass_api::Call;
use windlass_api::items::{NewItem, ProduceRequest};

use crate::server_process::{PATIENCE, ServerProcess};

const MIB: usize = 1 << 20;
const CONNECTIONS: usize = 16;
/// Of all bodies together, in MiB; as many as `WINDLASS_ATTACK_MIB` says.
const ATTACK_MIB: usize = 64;
/// How often everything is sent.
const ROUNDS: usize = 3;

/// What the program takes up, in bytes.
#[derive(Clone, Copy, Debug)]
struct Resident {
    now: usize,
    peak: usize,
}

impl Resident {
    fn of(server: &ServerProcess) -> Self {
        let path = format!("/proc/{}/status", server.pid());
        let status = std::fs::read_to_string(path).expect("our own child is there");
        let kib = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the kernel's");
            line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
        };
        Self { now: kib("VmRSS:"), peak: kib("VmHWM:") }
    }
}

/// A request with a thousand items, each with so many headers of a few bytes.
fn request(headers: usize) -> Vec<u8> {
    let headers = (0..headers).map(|number| (format!("{number:x}"), String::new())).collect();
    let item = NewItem { utf8: Some(String::new()), headers, ..NewItem::default() };
    let name = encoded(&ProduceRequest { queue: "nosuch".into(), ..ProduceRequest::default() });
    let one = encoded(&ProduceRequest { items: vec![item], ..ProduceRequest::default() });
    // Protobuf adds up the lists of messages that are written one after the other.
    [name, one.repeat(1000)].concat()
}

fn encoded(request: &impl Call) -> Vec<u8> {
    request.encode_to_vec()
}

/// Sends a body on every connection, the last byte of each when all others have come. Returns the statuses.
async fn attack(address: &str, body: &[u8]) -> Vec<u16> {
    let head = format!(
        "POST /v1/queue.produce HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (last, most) = body.split_last().expect("a body");
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(most).await.expect("sent");
        connections.push(stream);
    }
    let mut answers = JoinSet::new();
    for mut stream in connections {
        stream.write_all(&[*last]).await.expect("sent");
        answers.spawn(async move {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.expect("an answer");
            String::from_utf8_lossy(&answer[9..]).parse::<u16>().expect("a status")
        });
    }
    answers.join_all().await
}

/// Once no more than so many bytes are taken up.
async fn given_back(server: &ServerProcess, bytes_max: usize) -> Resident {
    let patience = Instant::now() + PATIENCE;
    loop {
        let resident = Resident::of(server);
        if resident.now <= bytes_max || Instant::now() > patience {
            return resident;
        }
        server.client().health().await.expect("it answers");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn memory_stays_near_the_bytes_in_flight_and_is_given_back() {
    let mib = std::env::var("WINDLASS_ATTACK_MIB").map_or(ATTACK_MIB, |text| text.parse().expect("a number"));
    let total = mib * MIB;
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(data.path()).await;
    let before = Resident::of(&server);
    let nested = request(total / CONNECTIONS / 1000 / 8);
    for _ in 0..ROUNDS {
        assert!(attack(server.address(), &nested).await.iter().all(|status| *status == 400));
    }
    // As many as are allowed: what they become is counted, and some may be told that there is no room.
    let allowed = request(32);
    for _ in 0..ROUNDS {
        assert!(attack(server.address(), &allowed).await.iter().all(|status| [404, 429].contains(status)));
    }
    let peak = Resident::of(&server).peak - before.now;
    let bound = 3 * total + 96 * MIB;
    let after = given_back(&server, before.now + total / 4 + 32 * MIB).await;
    let stays = after.now.saturating_sub(before.now);
    let shown = [before.now, peak, stays].map(|bytes| bytes / MIB);
    let figures = format!(
        "{mib} MiB in flight: {} MiB before, {} more at the peak, {} stay",
        shown[0], shown[1], shown[2]
    );
    eprintln!("{figures}");
    assert!(peak <= bound && stays <= total / 4 + 32 * MIB, "{figures}");
}
