//! Bodies that a batch puts under another number as well. The core knows no bodies, and a store knows no copies: so they are
//! read before the batch is committed.

use std::collections::BTreeMap;

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
    let (in_batch, mut copied) = (last_puts(&changes), Puts::new());
    let mut made: Vec<Change> = Vec::with_capacity(copies.len() + changes.len());
    for (copy, stored) in copies.iter().zip(stored) {
        let BodyCopy { from, to, part, .. } = *copy;
        // What is copied does not change any more: what the batch puts there is newer than what is stored.
        let newer = in_batch.get(&(from, part)).or_else(|| copied.get(&(from, part)));
        match newer.cloned().or(stored) {
            Some(body) => {
                copied.insert((to, part), body.clone());
                made.push(Change::PutBody { number: to, part, body });
            }
            // The item is made all the same, and the lease that meets it fails it as damaged.
            None => error!(%partition, from = from.0, to = to.0, ?part, "a body to be copied is lost"),
        }
    }
    made.append(&mut changes);
    Ok(made)
}

/// The body that was put last under each number.
type Puts = BTreeMap<(ItemNumber, Part), Bytes>;

fn last_puts(changes: &[Change]) -> Puts {
    let puts = changes.iter().filter_map(|change| match change {
        Change::PutBody { number, part, body } => Some(((*number, *part), body.clone())),
        Change::RemoveBody { .. } | Change::Put(_) | Change::Remove(_) => None,
    });
    puts.collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::time::Timestamp;

    use super::*;
    use crate::store::Batch;
    use crate::store::memory::MemoryStore;

    fn put(number: u64, body: &'static str) -> Change {
        Change::PutBody { number: ItemNumber(number), part: Part::Payload, body: body.into() }
    }

    fn copy(from: u64, to: u64) -> BodyCopy {
        BodyCopy { from: ItemNumber(from), to: ItemNumber(to), part: Part::Payload, bytes: 3 }
    }

    /// What `made` puts beside the changes of a batch, with a store that holds body 1.
    async fn copied(copies: Vec<BodyCopy>, changes: Vec<Change>) -> Vec<Change> {
        let (store, partition) = (MemoryStore::default(), PartitionId(1));
        let epoch = store.acquire(partition).await.expect("acquired").epoch;
        let (sequence, now, may_block) = (1, Timestamp(1), false);
        let batch = Batch { partition, epoch, sequence, now, changes: vec![put(1, "old")], may_block };
        store.commit(batch).await.expect("committed");
        let count = changes.len();
        let mut made = made(&store, partition, copies, changes).await.expect("read");
        made.truncate(made.len() - count);
        made
    }

    #[tokio::test]
    async fn a_copy_takes_what_the_batch_put_last_before_what_is_stored() {
        assert_eq!(copied(vec![copy(1, 2)], vec![]).await, [put(2, "old")]);
        let changes = vec![put(1, "new"), put(1, "newest"), put(3, "other")];
        assert_eq!(copied(vec![copy(1, 2)], changes).await, [put(2, "newest")]);
    }

    #[tokio::test]
    async fn a_copy_of_a_copy_is_made_in_one_batch() {
        assert_eq!(copied(vec![copy(1, 2), copy(2, 3)], vec![]).await, [put(2, "old"), put(3, "old")]);
    }

    #[tokio::test]
    async fn a_body_that_is_nowhere_is_left_out() {
        assert_eq!(copied(vec![copy(7, 8), copy(1, 2)], vec![]).await, [put(2, "old")]);
    }
}
