//! Hundreds of readers that subscribe to streams of large events and read nothing: large leases come through all the while.

use tempfile::TempDir;
use tokio::time::timeout;
use windlass_client::api::events::{EmitRequest, NewEvent};
use windlass_client::api::items::NewItem;
use windlass_client::{Lease, QueueClient};

use crate::raw_http::leave_unread;
use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SUBSCRIBERS: &str = "windlass_subscribers";

const READERS: usize = 300;
/// `limits.bytes_in_flight`: the bytes of replies that may wait to be taken. Streams may hold half of them.
const REPLIES_MIB: usize = 16;
const EVENT_BYTES: usize = 256 * KIB;
/// Events of the item that all readers follow: more than the kernel takes of a stream that nobody reads.
const EVENTS: usize = 4;
/// Payloads of one lease: more than streams would leave if they could hold all bytes of replies, less than half.
const LEASED_ITEMS: u32 = 6 * 4;
const LEASED_BYTES: usize = 256 * KIB;

/// Makes an item with `EVENTS` large events. Returns its id.
async fn followed(server: &ServerProcess, queue: &QueueClient) -> String {
    queue.produce([NewItem { utf8: Some(String::new()), ..NewItem::default() }]).await.expect("produced");
    let item = queue.lease(&Lease::new("worker")).await.expect("leased").remove(0);
    for _ in 0..EVENTS {
        let events = vec![NewEvent { utf8: Some("e".repeat(EVENT_BYTES)), ..NewEvent::default() }];
        let emit = EmitRequest { id: item.id.clone(), permit: item.permit, events, ..EmitRequest::default() };
        server.client().emit(emit).await.expect("emitted");
    }
    item.id
}

async fn produce_for_a_large_lease(queue: &QueueClient) {
    let item = || NewItem { utf8: Some("x".repeat(LEASED_BYTES)), ..NewItem::default() };
    for _ in 0..LEASED_ITEMS {
        queue.produce([item()]).await.expect("produced");
    }
}

/// Waits until no more streams are held than have room for an event in so many MiB: the other readers are sent away.
async fn until_streams_fit(server: &ServerProcess, mib: usize) {
    let fit = async {
        while Metrics::of(&server.client()).await.sum(SUBSCRIBERS) as usize > mib * MIB / EVENT_BYTES {}
    };
    timeout(PATIENCE, fit).await.unwrap_or_else(|_| panic!("streams hold more than {mib} MiB"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_unread_streams_leave_room_for_a_large_lease() {
    let directory = TempDir::new().expect("a temporary directory");
    let flags = [format!("--limits-bytes-in-flight={REPLIES_MIB}MiB").into()];
    let server = ServerProcess::start_with(directory.path(), &flags).await;
    let queue = server.client().queue("work");
    queue.create().await.expect("created");
    let item = followed(&server, &queue).await;
    produce_for_a_large_lease(&queue).await;

    let path = format!("/v1/item.events?id={item}&after=0");
    let readers = leave_unread(&server, &path, READERS).await;
    assert_eq!(readers.iter().filter(|reader| reader.status() == 200).count(), READERS);
    until_streams_fit(&server, REPLIES_MIB).await;

    let lease = Lease { batch_size: LEASED_ITEMS, ..Lease::new("worker") };
    let leased = queue.lease(&lease).await.expect("a large lease comes through");
    let bytes: usize = leased.iter().filter_map(|item| item.utf8.as_ref()).map(String::len).sum();
    assert_eq!((leased.len(), bytes), (LEASED_ITEMS as usize, LEASED_ITEMS as usize * LEASED_BYTES));

    until_streams_fit(&server, REPLIES_MIB / 2).await;
    // The streams that are left hold their bytes: the lease was not served because the readers had gone. Events that were read
    // ahead may hold half of what streams may hold.
    let page = Metrics::of(&server.client()).await;
    let (streams, bytes) =
        (page.sum(SUBSCRIBERS) as usize, page.sum("windlass_http_reply_bytes_in_flight") as usize);
    assert!(streams >= REPLIES_MIB / 4 * MIB / EVENT_BYTES - 1, "{streams} streams hold {bytes} bytes");
    assert!((REPLIES_MIB * MIB / 4..=REPLIES_MIB * MIB / 2).contains(&bytes), "{streams} hold {bytes}");
    drop(readers);
    server.kill().await;
}
