//! Renders documents by address, with a group and an end item: see `library`.
//!
//! ```text
//! windlass serve &
//! cargo run -p windlass-client --example render -- http://127.0.0.1:9463
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod library;

use std::sync::Arc;

use windlass_client::Client;
use windlass_client::api::DEFAULT_ADDRESS;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), library::Anything> {
    let url = std::env::args().nth(1).unwrap_or_else(|| format!("http://{DEFAULT_ADDRESS}"));
    library::run(Client::new(&url)?, Arc::new(|words| println!("{words}"))).await
}
