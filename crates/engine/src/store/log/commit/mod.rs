//! How the log grows: requests wait at the [`desk`]; the [`committer`] writes commits, a [`run`] at a time, and after a
//! failed write or sync begins anew ([`repair`]).

pub(crate) mod committer;
pub(crate) mod desk;
mod repair;
pub(crate) mod run;

use tokio::sync::oneshot;

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
