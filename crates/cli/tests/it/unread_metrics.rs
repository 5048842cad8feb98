//! Hundreds of readers that ask for `/metrics` and read nothing: they share a page, and others get theirs.

use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::raw_http::{RawReply, leave_unread};
use crate::resident::Resident;
use crate::server_process::{Metrics, PATIENCE, ServerProcess};

const READERS: usize = 400;
/// Queues with names as long as they may be, so that the page has megabytes.
const QUEUES: usize = 600;
const NAME_CHARS: usize = 128;
const PAGE_BYTES_MIN: usize = 2 << 20;
/// Pages that the server may take up at the peak for all readers. A page is shared for a second, so a slow machine renders a
/// few of them during the attack.
const PAGES_MAX: usize = READERS / 10;
/// Queues that are created at the same time.
const CROWD: usize = 20;

async fn create_queues(server: &ServerProcess) {
    for first in (0..QUEUES).step_by(CROWD) {
        let mut creating = JoinSet::new();
        for number in first..first + CROWD {
            let queue = server.client().queue(format!("{number:q>NAME_CHARS$}"));
            creating.spawn(async move { queue.create().await.expect("created") });
        }
        creating.join_all().await;
    }
}

async fn reply_bytes(server: &ServerProcess) -> usize {
    Metrics::of(&server.client()).await.sum("windlass_http_reply_bytes_in_flight") as usize
}

#[track_caller]
fn memory_is_bounded(server: &ServerProcess, before: Resident, page_bytes: usize) {
    let pages = (Resident::of(server).peak - before.now) / page_bytes;
    eprintln!("{READERS} readers of {page_bytes} bytes: {pages} pages more at the peak");
    assert!(pages <= PAGES_MAX, "{READERS} readers of {page_bytes} bytes took up {pages} pages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_hundred_unread_metrics_pages_are_shared_and_another_reader_gets_its_page() {
    let directory = TempDir::new().expect("a temporary directory");
    let server = ServerProcess::start(directory.path()).await;
    create_queues(&server).await;
    let before = Resident::of(&server);

    let readers = leave_unread(&server, "/metrics", READERS).await;
    assert_eq!(readers.iter().filter(|reader| reader.status() == 200).count(), READERS);
    let page_bytes = readers.iter().map(RawReply::body_bytes).max().expect("readers");
    assert!(page_bytes >= PAGE_BYTES_MIN, "a page of {page_bytes} bytes is no attack");

    memory_is_bounded(&server, before, page_bytes);

    // A page tells of the pages before it, and is shown for a second.
    let held = async { while reply_bytes(&server).await < PAGE_BYTES_MIN {} };
    timeout(PATIENCE, held).await.expect("another reader gets a page, and the first readers hold theirs");
    let page = server.client().metrics().await.expect("another reader gets its page");
    assert_eq!(page.matches("\nwindlass_items_produced_total{").count(), QUEUES, "the page is whole");

    memory_is_bounded(&server, before, page_bytes);
    drop(readers);
    server.kill().await;
}
