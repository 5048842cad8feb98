//! Bodies that a batch puts under another number as well. The core knows no bodies, and a store knows no copies: so they are
//! read before the batch is committed.

use bytes::Bytes;
use tracing::error;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::{BodyCopy, Change, Part};

use crate::store::{Store, StoreError, sound};

/// The changes of a batch with the copies made. They come first: an item may be gone again within the same batch.
pub(super) async fn made(
    store: &dyn Store,
    partition: PartitionId,
    copies: Vec<BodyCopy>,
    mut changes: Vec<Change>,
) -> Result<Vec<Change>, StoreError> {
    if copies.is_empty() {
        return Ok(changes);
    }
    let wanted = copies.iter().map(|copy| (copy.from, copy.part)).collect();
    let stored = sound(store.read(partition, wanted).await)?;
    let put = |(copy, stored): (&BodyCopy, Option<Bytes>)| {
        let Some(body) = stored.or_else(|| put_before(&changes, copy.from, copy.part)) else {
            // The item is made all the same, and the lease that meets it fails it as damaged.
            let (from, to) = (copy.from.0, copy.to.0);
            error!(%partition, from, to, part = ?copy.part, "a body to be copied is lost");
            return None;
        };
        Some(Change::PutBody { number: copy.to, part: copy.part, body })
    };
    let mut with_copies: Vec<Change> = copies.iter().zip(stored).filter_map(put).collect();
    with_copies.append(&mut changes);
    Ok(with_copies)
}

/// What is set and used in one batch is not stored yet.
fn put_before(changes: &[Change], from: ItemNumber, of: Part) -> Option<Bytes> {
    changes.iter().find_map(|change| match change {
        Change::PutBody { number, part, body } if (*number, *part) == (from, of) => Some(body.clone()),
        Change::PutBody { .. } | Change::RemoveBody { .. } | Change::Put(_) | Change::Remove(_) => None,
    })
}
