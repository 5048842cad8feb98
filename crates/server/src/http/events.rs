//! Calls on the events of items: emit, close_streams; and on items that wait for an answer: suspend, resume.

use std::fmt;

use windlass_api::events::{
    CloseStreamsReply, CloseStreamsRequest, EmitReply, EmitRequest, NewEvent, ResumeItemReply,
    ResumeItemRequest, Suspend, SuspendReply, SuspendRequest,
};
use windlass_api::payload::Payload;
use windlass_core::verbs::{Input, SuspendItem};
use windlass_core::{event, limits};
use windlass_engine::{CloseMode, Outcome};

use super::check;
use super::context::{Answer, Context};
use super::error::Problem;
use super::item::{Sought, sought};
use super::items::{Sorted, names, sort};
use super::missing::{Missing, naming};
use super::record::{EventRecord, Record};

const TYPE_DEFAULT: &str = "message";
/// That of an answer to a suspended item.
const TYPE_INPUT: &str = "input";

pub(super) async fn emit(context: Context, request: EmitRequest) -> Result<Answer<EmitReply>, Problem> {
    let held = check::held("", &request.id, request.permit)?;
    limits::check_emit(request.events.len())?;
    let event = |(index, event)| new_event(index, event, &context);
    let events = request.events.into_iter().enumerate().map(event).collect::<Result<Vec<_>, Problem>>()?;
    let emitting = context.engine().emit(held, request.after, events);
    let emitting = context.within(check::COMMIT_TIMEOUT, emitting);
    let emitted = emitting.await.map_err(naming(Missing::Item(request.id)))?;
    let reply = EmitReply {
        first_seq: emitted.value.first_seq,
        last_seq: emitted.value.last_seq,
        cancel_requested: emitted.value.cancel_requested,
    };
    Ok(Answer::changed(reply, emitted.commits))
}

fn new_event(index: usize, event: NewEvent, context: &Context) -> Result<event::NewEvent, Problem> {
    let within = format_args!("events[{index}].");
    let NewEvent { json, utf8, bytes, r#type } = event;
    if let Some(name) = &r#type {
        limits::check_event_type(name).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    }
    let payload = Payload { json, utf8, bytes };
    check::payload(within, &payload, context.payload_rule())?;
    Ok(stored(r#type.as_deref().unwrap_or(TYPE_DEFAULT), payload))
}

fn stored(name: &str, payload: Payload) -> event::NewEvent {
    let bytes = payload.as_bytes().len() as u64;
    event::NewEvent { content: EventRecord::of(name, payload).to_stored(), bytes }
}

pub(super) async fn close_streams(
    context: Context,
    request: CloseStreamsRequest,
) -> Result<Answer<CloseStreamsReply>, Problem> {
    let name = check::item_name(request.id, request.queue, request.address)?;
    let mode = match request.mode.as_str() {
        "graceful" => CloseMode::Graceful,
        "immediate" => CloseMode::Immediate,
        _ => return Err(Problem::invalid("`mode` must be `graceful` or `immediate`")),
    };
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let closing = context.engine().close_streams(id, mode);
    let closing = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, closing);
    let closed = closing.await.map_err(naming(missing))?;
    Ok(Answer::read(CloseStreamsReply { closed: closed as u64 }))
}

pub(super) async fn suspend(
    context: Context,
    request: SuspendRequest,
) -> Result<Answer<SuspendReply>, Problem> {
    let queue = check::queue_name(&request.queue)?;
    limits::check_batch("items", request.items.len())?;
    let named = names(request.items.iter().map(|item| (&item.id, item.permit)));
    let item = |(index, item)| suspend_item(format_args!("items[{index}]."), item);
    let items = request.items.into_iter().enumerate().map(item).collect::<Result<Vec<_>, Problem>>()?;
    let judged = context.within(check::COMMIT_TIMEOUT, context.engine().suspend(&queue, items)).await?;
    let Sorted { done, failed, commits } = sort(judged, named)?;
    Ok(Answer::changed(SuspendReply { suspended: done.len() as u64, failed }, commits))
}

pub(super) fn suspend_item(within: fmt::Arguments<'_>, item: Suspend) -> Result<SuspendItem, Problem> {
    let reason = item.reason.as_deref();
    reason.map_or(Ok(()), limits::check_reason).map_err(|invalid| Problem::invalid_in(within, invalid))?;
    let held = check::held(within, &item.id, item.permit)?;
    Ok(SuspendItem { held, reason: item.reason.map(Into::into) })
}

pub(super) async fn resume(
    context: Context,
    request: ResumeItemRequest,
) -> Result<Answer<ResumeItemReply>, Problem> {
    let name = check::item_name(request.id, request.queue, request.address)?;
    let payload = Payload { json: request.json, utf8: request.utf8, bytes: request.bytes };
    let input = if payload == Payload::default() { None } else { Some(input(payload, &context)?) };
    let Sought { id, missing } = sought(&context, name, check::COMMIT_TIMEOUT).await?;
    let resuming = context.within(check::COMMIT_TIMEOUT, context.engine().resume(id, input));
    let resumed = resuming.await.map_err(naming(missing))?;
    Ok(Answer::changed(ResumeItemReply {}, resumed.commits))
}

fn input(payload: Payload, context: &Context) -> Result<Input, Problem> {
    check::payload("", &payload, context.payload_rule())?;
    let body = Record::of(payload.clone()).to_stored();
    Ok(Input { event: stored(TYPE_INPUT, payload), body })
}
