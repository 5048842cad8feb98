//! The Rust client of Windlass, a durable work queue.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use windlass_client::{Client, ClientError, Lease, LeasedItemExt, PayloadExt, new_item};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Email {
//!     to: String,
//! }
//!
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::new("http://127.0.0.1:9463")?;
//! let emails = client.queue("emails");
//! emails.create().await?;
//! emails.produce([new_item(&Email { to: "ada@example.com".into() })?]).await?;
//!
//! // A worker: waits for work, does it, and says so.
//! let lease = Lease { batch_size: 10, ..Lease::new("worker-1") };
//! for item in emails.lease(&lease).await? {
//!     let email: Email = item.parse()?;
//!     if let Err(why) = send(&email) {
//!         emails.retry([item.failed(why)]).await?;
//!     } else {
//!         emails.complete([item.done()]).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! # fn send(_: &Email) -> Result<(), String> { Ok(()) }
//! ```
//!
//! The [`worker`] runtime does all that for a handler: it runs several at a time, keeps their leases, and stops in order.
//!
//! [`Client::events`] watches an item while somebody works on it. [`QueueClient::find`] finds items afterwards, and
//! [`Client::rerun`] has one done again.
//!
//! What cannot have happened is tried again by itself, for a bounded time ([`Retries`]); what may have happened
//! is never repeated for a call that changes something. [`ClientError::outcome`] tells the two apart.
//!
//! Read [`Client`] and [`QueueClient`] first; [`Client::call`] reaches every call of [`windlass_api`], also those that
//! have no method of their own.

mod client;
mod connection;
mod crons;
mod encoding;
mod error;
mod events;
mod exchange;
mod groups;
mod items;
mod pages;
mod patience;
mod payload;
mod queue;
mod reply;
mod retries;
mod rules;
mod storage;
mod stream;
mod unclaimed;
mod url;
pub mod worker;

pub use windlass_api as api;

pub use crate::client::{Builder, Client, QueueOrder, Readiness};
pub use crate::encoding::Encoding;
pub use crate::error::{ClientError, Outcome, RefusalCode};
pub use crate::events::{CloseMode, new_event};
pub use crate::pages::{Paged, Pages};
pub use crate::payload::{LeasedItemExt, PayloadError, PayloadExt, new_item};
pub use crate::queue::{Lease, QueueClient};
pub use crate::reply::{Answered, Commit};
pub use crate::retries::Retries;
pub use crate::storage::Page;
pub use crate::stream::{Events, Frame};
