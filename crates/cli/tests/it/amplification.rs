//! Bodies that would become very large when they are decoded, against the real program: its memory stays a small multiple of
//! the bytes in flight, and is given back.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_api::Call;
use windlass_api::items::{NewItem, ProduceRequest};

use crate::resident::Resident;
use crate::server_process::{PATIENCE, ServerProcess};

const MIB: usize = 1 << 20;
/// Size of one body: nearly `limits.body_bytes`.
const BODY_MIB: usize = 15;
/// Size of all bodies together, unless `WINDLASS_ATTACK_MIB` is set.
const ATTACK_MIB: usize = 4 * BODY_MIB;
/// Connections that send a body within the limits of a request.
const WELL_BEHAVED: usize = 16;
/// How often each body is sent on all connections.
const ROUNDS: usize = 3;

/// A request with a thousand items, each with so many headers of a few bytes.
fn with_headers(headers: usize) -> Vec<u8> {
    let headers = (0..headers).map(|number| (format!("{number:x}"), String::new())).collect();
    let item = NewItem { utf8: Some(String::new()), headers, ..NewItem::default() };
    let name = encoded(&ProduceRequest { queue: "nosuch".into(), ..ProduceRequest::default() });
    let one = encoded(&ProduceRequest { items: vec![item], ..ProduceRequest::default() });
    // Protobuf adds up the lists of messages that are written one after the other.
    [name, one.repeat(1000)].concat()
}

/// A request with so many items of two bytes.
fn with_items(items: usize) -> Vec<u8> {
    let one = ProduceRequest { items: vec![NewItem::default()], ..ProduceRequest::default() };
    encoded(&one).repeat(items)
}

fn encoded(request: &impl Call) -> Vec<u8> {
    request.encode_to_vec()
}

/// Sends a body on each of so many connections, the last byte of each when all others have come. Returns the statuses.
async fn attack(address: &str, connections: usize, body: &[u8]) -> Vec<u16> {
    let head = format!(
        "POST /v1/queue.produce HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (last, most) = body.split_last().expect("a body");
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(most).await.expect("sent");
        streams.push(stream);
    }
    let mut answers = JoinSet::new();
    for mut stream in streams {
        stream.write_all(&[*last]).await.expect("sent");
        answers.spawn(async move {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.expect("an answer");
            String::from_utf8_lossy(&answer[9..]).parse::<u16>().expect("a status")
        });
    }
    answers.join_all().await
}

/// Waits until the server takes up at most `bytes_max`, for no longer than `PATIENCE`. The allocator gives memory back while
/// requests go on, so a request comes before each look.
async fn given_back(server: &ServerProcess, bytes_max: usize) -> Resident {
    let client = server.client();
    let is_given_back = async {
        while Resident::of(server).now > bytes_max {
            client.health().await.expect("it answers");
        }
    };
    let _figures_tell = timeout(PATIENCE, is_given_back).await;
    Resident::of(server)
}

#[tokio::test]
async fn memory_stays_near_the_bytes_in_flight_and_is_given_back() {
    let mib = std::env::var("WINDLASS_ATTACK_MIB").map_or(ATTACK_MIB, |text| text.parse().expect("a number"));
    let total = mib * MIB;
    let data = tempfile::tempdir().expect("a temporary directory");
    let server = ServerProcess::start(data.path()).await;
    let before = Resident::of(&server);
    let large = [with_headers(BODY_MIB * MIB / 1000 / 8), with_items(BODY_MIB * MIB / 2)];
    let bound = 3 * total + 96 * MIB;
    let peak = || Resident::of(&server).peak - before.now;
    for body in large.iter().flat_map(|body| [body; ROUNDS]) {
        let statuses = attack(server.address(), mib / BODY_MIB, body).await;
        assert!(statuses.iter().all(|status| *status == 400), "{statuses:?}");
        assert!(peak() <= bound, "{} MiB more at the peak, for {mib} MiB in flight", peak() / MIB);
    }
    // Bodies with as many headers as are allowed: the memory of decoded items is counted, so some bodies may find no room.
    let allowed = with_headers(32);
    for _ in 0..ROUNDS {
        let statuses = attack(server.address(), WELL_BEHAVED, &allowed).await;
        assert!(statuses.iter().all(|status| [404, 429].contains(status)), "{statuses:?}");
    }
    let peak = peak();
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
