//! What most tests need: clients of a server, and a bound on every wait.

use std::time::Duration;

use tokio::time::timeout;
use windlass_client::{Client, Encoding, Retries};

/// No wait of a test is meant to be this long: it turns a hanging test into a failing one.
pub(crate) const SAFETY_NET: Duration = Duration::from_secs(60);

pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    timeout(SAFETY_NET, future).await.expect("it happens in time")
}

pub(crate) fn json_client(url: &str) -> Client {
    Client::builder(url).encoding(Encoding::Json).build().unwrap()
}

pub(crate) fn client_without_retries(url: &str) -> Client {
    Client::builder(url).retries(Retries::NONE).build().unwrap()
}
