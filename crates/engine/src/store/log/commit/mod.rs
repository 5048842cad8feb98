//! How the log grows: the [`committer`] writes what it is asked to, a [`run`] at a time; after a failed write or sync it
//! begins anew ([`repair`]).

pub(crate) mod committer;
mod repair;
pub(crate) mod run;

use tokio::sync::{mpsc, oneshot};

use crate::store::StoreError;
use crate::store::log::read::view::{PartitionView, View};
use run::Write;

/// A request to the committer.
#[derive(Debug)]
pub(crate) enum Request {
    Write(Write),
    Acquire {
        partition: u32,
        answer: oneshot::Sender<Result<PartitionView, StoreError>>,
    },
    /// Makes everything durable, and shows it.
    View {
        answer: oneshot::Sender<Result<View, StoreError>>,
    },
    /// As `View`, with the frame that would close the log there; then nothing is written until the asker lets `released`
    /// go.
    Hold {
        answer: oneshot::Sender<Result<(View, Vec<u8>), StoreError>>,
        released: oneshot::Receiver<()>,
    },
    /// Makes everything durable.
    Sync {
        answer: oneshot::Sender<Result<(), StoreError>>,
    },
    Close {
        answer: oneshot::Sender<()>,
    },
}

/// Asks the committer, and waits for the answer.
pub(crate) async fn ask<T>(
    requests: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
) -> Result<T, StoreError> {
    let (answer, answered) = oneshot::channel();
    requests.send(request(answer)).await.map_err(|_| StoreError::Closed)?;
    answered.await.map_err(|_| StoreError::Closed)?
}
