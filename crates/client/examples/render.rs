//! Renders documents by address, with a group and an end item.
//!
//! Many readers ask for the same document at once: it is rendered once, and all of them are told. A book is a group: its
//! pages are rendered in any order, and when the last of them is done the end item binds them.
//!
//! ```text
//! windlass serve &
//! cargo run -p windlass-client --example render -- http://127.0.0.1:9463
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_client::api::groups::{CreateGroupRequest, EndItem};
use windlass_client::api::items::NewItem;
use windlass_client::api::queues::CreateQueueRequest;
use windlass_client::api::{Code, DEFAULT_ADDRESS};
use windlass_client::worker::{Failure, Work, Worker};
use windlass_client::{Client, ClientError, PayloadExt, QueueClient, new_item};

type Anything = Box<dyn Error + Send + Sync>;

const READERS: usize = 20;
const PAGES: usize = 5;

#[derive(Serialize, Deserialize)]
struct Book {
    title: String,
    /// The addresses of its pages, in their order.
    pages: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let url = std::env::args().nth(1).unwrap_or_else(|| format!("http://{DEFAULT_ADDRESS}"));
    let queue = Client::new(&url)?.queue("documents");
    create(&queue).await?;

    let (shelf, mut bound) = mpsc::channel(1);
    let worker = Worker::builder(Client::new(&url)?, queue.name())
        .handle("page", render)
        .handle("bind", move |work: Work<Book>| bind(work, shelf.clone()))
        .concurrency(4)
        .build()?;
    let stopper = worker.stopper();
    let running = tokio::spawn(worker.run());

    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let queue = queue.clone();
        readers.spawn(async move { read(&queue, "leaflet").await });
    }
    for read in readers.join_all().await {
        println!("a reader has: {}", read?);
    }

    publish(&queue, "atlas").await?;
    println!("on the shelf:\n{}", bound.recv().await.ok_or("the worker is gone")?);
    // Its name is free again, for the next edition.
    queue.delete_group("atlas").await?;

    stopper.stop();
    running.await??;
    Ok(())
}

/// One partition: there, a page may have both an address and a group.
async fn create(queue: &QueueClient) -> Result<(), ClientError> {
    match queue.create_with(CreateQueueRequest::default()).await {
        Err(error) if error.code() == Some(Code::AlreadyExists) => Ok(()),
        created => created.map(drop),
    }
}

/// Asks for a document and waits for it. Whoever asks while another has done so waits for the same item: `produce` refuses
/// the second one by itself (`duplicate_address`), and the address stands for the first.
async fn read(queue: &QueueClient, address: &str) -> Result<String, Anything> {
    queue.produce([page(address)?]).await?;
    let item = queue.wait_at(address, None).await?;
    let rendered = item.result.ok_or_else(|| format!("{address} is {}", item.state))?;
    Ok(rendered.parse()?)
}

fn page(address: &str) -> Result<NewItem, Anything> {
    let (kind, address) = (Some("page".to_owned()), Some(address.to_owned()));
    Ok(NewItem { kind, address: address.clone(), ..new_item(&address)? })
}

/// The pages, and what follows the last of them: in one call, all of it or nothing.
async fn publish(queue: &QueueClient, title: &str) -> Result<(), Anything> {
    let pages: Vec<String> = (1..=PAGES).map(|number| format!("{title}, page {number}")).collect();
    let items = pages.iter().map(|address| page(address)).collect::<Result<_, _>>()?;
    let book = new_item(&Book { title: title.to_owned(), pages })?;
    let end = EndItem { kind: Some("bind".to_owned()), json: book.json, ..EndItem::default() };
    let group = CreateGroupRequest {
        group: title.to_owned(),
        end: Some(end),
        items,
        start: true,
        ..CreateGroupRequest::default()
    };
    queue.create_group(group).await?;
    Ok(())
}

async fn render(work: Work<String>) -> Result<String, Failure> {
    println!("rendering {}", work.payload);
    Ok(format!("<{}>", work.payload))
}

/// Runs once all pages have ended; a page that failed has no result.
async fn bind(work: Work<Book>, shelf: mpsc::Sender<String>) -> Result<(), Failure> {
    let Book { title, pages } = &work.payload;
    let mut lines = vec![title.clone()];
    for address in pages {
        let page = work.queue().item_at(address).await?;
        let rendered =
            page.result.ok_or_else(|| Failure::new(format!("{address} is {}", page.state)).dead())?;
        lines.push(rendered.parse::<String>()?);
    }
    let _nobody_reads_it = shelf.send(lines.join("\n")).await;
    Ok(())
}
