//! Reads bodies of which some may be damaged. One that is costs its own item, and never those beside it.

use bytes::Bytes;
use tracing::error;
use windlass_core::id::{ItemNumber, PartitionId};
use windlass_core::row::Part;

use crate::store::{Store, StoreError};

/// As the store reads them, without those that are damaged.
pub(crate) async fn read(
    store: &dyn Store,
    partition: PartitionId,
    wanted: Vec<(ItemNumber, Part)>,
) -> Result<Vec<Option<Bytes>>, StoreError> {
    match store.read(partition, wanted.clone()).await {
        Err(damage) if damage.is_damage() => one_by_one(store, partition, wanted).await,
        read => read,
    }
}

async fn one_by_one(
    store: &dyn Store,
    partition: PartitionId,
    wanted: Vec<(ItemNumber, Part)>,
) -> Result<Vec<Option<Bytes>>, StoreError> {
    let mut bodies = Vec::with_capacity(wanted.len());
    for (number, part) in wanted {
        match store.read(partition, vec![(number, part)]).await {
            Ok(mut body) => bodies.push(body.pop().flatten()),
            Err(damage) if damage.is_damage() => {
                error!(%partition, number = number.0, ?part, %damage, "a body is lost");
                bodies.push(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(bodies)
}
