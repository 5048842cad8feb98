//! Calls that change an item after it was produced: update, rerun.

use windlass_api::items::{ItemReply, RerunItemReply, RerunItemRequest, UpdateItemRequest};
use windlass_api::payload::Payload;
use windlass_core::limits;
use windlass_core::refusal::Refusal;
use windlass_core::verbs::UpdateItem;
use windlass_engine::Rewrite;

use super::context::{Answer, Context};
use super::error::Problem;
use super::item::{Sought, sought};
use super::items::produced;
use super::missing::naming;
use super::record::Record;
use super::{check, show};

pub(super) async fn update(
    context: Context,
    request: UpdateItemRequest,
) -> Result<Answer<ItemReply>, Problem> {
    let name = check::item_name(request.id, request.queue, request.address)?;
    let payload = Payload { json: request.json, utf8: request.utf8, bytes: request.bytes };
    let payload = (payload != Payload::default()).then_some(payload);
    payload.as_ref().map_or(Ok(()), |payload| check::payload("", payload, context.payload_rule()))?;
    request.reference.as_deref().map_or(Ok(()), |reference| check::reference("", reference))?;
    let headers = request.headers.map(|headers| headers.headers);
    headers.as_ref().map_or(Ok(()), |headers| check::headers("", headers.iter()))?;
    let priority = request.priority.map(|priority| check::priority("priority", priority)).transpose()?;
    let (enqueue_at, delay) = (request.enqueue_at.map(check::moment), request.delay.map(check::span));
    limits::check_item_time(enqueue_at, delay)?;
    let reference = request.reference;
    let rewrites = payload.is_some() || reference.is_some() || headers.is_some();
    let rewrite: Rewrite = Box::new(move |stored, facts| {
        let is_lost = stored.is_none() && payload.is_none();
        if is_lost {
            return Err(Refusal::NoPayload { lost: true });
        }
        let before = stored.or(facts).map(Record::from_stored).unwrap_or_default();
        let record = Record {
            reference: reference.or(before.reference.clone()).filter(|reference| !reference.is_empty()),
            headers: headers.unwrap_or_else(|| before.headers.clone()),
            ..Record::of(payload.unwrap_or_else(|| before.into_payload()))
        };
        Ok((record.to_stored(), record.facts().as_ref().map(Record::to_stored)))
    });
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let update = UpdateItem {
        priority,
        enqueue_at,
        delay,
        max_attempts: request.max_attempts,
        dead_timeout: request.dead_timeout.map(check::span),
        ..UpdateItem::new(id.number)
    };
    let updating = context.engine().update(id, update, rewrites.then_some(rewrite));
    let updated = context.within(check::COMMIT_TIMEOUT, updating).await.map_err(naming(missing))?;
    Ok(Answer::changed(ItemReply { item: show::item(updated.value) }, updated.commits))
}

pub(super) async fn rerun(
    context: Context,
    request: RerunItemRequest,
) -> Result<Answer<RerunItemReply>, Problem> {
    let name = check::item_name(request.id, request.queue, request.address)?;
    let delay = request.delay.map(check::span);
    limits::check_item_time(None, delay)?;
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let rerunning = context.within(check::COMMIT_TIMEOUT, context.engine().rerun(id, delay));
    let rerun = rerunning.await.map_err(naming(missing))?;
    Ok(Answer::changed(RerunItemReply { item: produced(rerun.value) }, rerun.commits))
}
