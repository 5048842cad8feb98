//! One item as callers see it: its row, and its bodies from the store.

use bytes::Bytes;
use windlass_core::command::{Command, Refusal, Reply};
use windlass_core::id::ItemId;
use windlass_core::item::Item;
use windlass_core::row::{Part, Queue};

use crate::error::EngineError;
use crate::partition::message::{Answer, Done};
use crate::registry::Home;
use crate::store::{Store, StoreError};
use crate::types::{Commit, Committed, ItemView};

pub(crate) async fn get(home: &Home, store: &dyn Store, id: ItemId) -> Result<ItemView, EngineError> {
    let mut before = None;
    loop {
        let item = home.partition.query(move |partition, _| partition.get(id.number)).await?;
        let item = item.ok_or(Refusal::NotFound)?;
        let bodies = read(store, id).await.map_err(|error| EngineError::not_applied(error.to_string()))?;
        let view = of(&home.queue.queue, id, item, bodies);
        // It may have ended between the two looks; then the first no longer counts. If nothing has changed, the
        // payload is lost: a salvaged log may lack it.
        let ended_meanwhile = view.payload.is_none() && !view.item.state.phase().is_final();
        if !ended_meanwhile || before.as_ref() == Some(&view.item) {
            return Ok(view);
        }
        before = Some(view.item);
    }
}

/// Tells the item as the cancel left it. If it has ended since, its payload may be gone.
pub(crate) async fn cancel(
    home: &Home,
    store: &dyn Store,
    id: ItemId,
) -> Result<Committed<ItemView>, EngineError> {
    let Answer { reply, sequence } = home.partition.command(Command::Cancel(id.number)).await?;
    let Done::Reply(Reply::Cancelled(item)) = reply else { unreachable!("a cancel is answered by the item") };
    let unread = |error| EngineError::unknown(format!("cancelled, but its payload cannot be read: {error}"));
    let value = of(&home.queue.queue, id, item, read(store, id).await.map_err(unread)?);
    Ok(Committed { value, commits: vec![Commit { partition: id.partition, sequence }] })
}

/// Payload and result, as far as they are there.
async fn read(store: &dyn Store, id: ItemId) -> Result<[Option<Bytes>; 2], StoreError> {
    let wanted = vec![(id.number, Part::Payload), (id.number, Part::Result)];
    let mut bodies = store.read(id.partition, wanted).await?.into_iter();
    Ok([bodies.next().flatten(), bodies.next().flatten()])
}

/// With payload and result.
pub(crate) fn of(queue: &Queue, id: ItemId, item: Item, [payload, result]: [Option<Bytes>; 2]) -> ItemView {
    let own = item.extras.as_ref().and_then(|extras| extras.max_attempts);
    let max_attempts = own.unwrap_or(queue.settings.max_attempts);
    // While it is on its way to another queue the store still has it.
    let payload = payload.filter(|_| !item.state.phase().is_final());
    ItemView { queue: queue.name.clone(), id, item, max_attempts, payload, result }
}
