//! Calls that stop queues and kinds, and let them go on.

use std::sync::Arc;

use windlass_api::Time;
use windlass_api::rules::{
    BlockQueueRequest, LiftRuleReply, ListRulesReply, ListRulesRequest, PauseQueueRequest,
    ResumeQueueRequest, Rule as WireRule, RuleReply, UnblockQueueRequest,
};
use windlass_core::limits;
use windlass_core::rule::{Rule, Stop};
use windlass_core::verbs::{LiftRule, SetRule};
use windlass_engine::Outcome;

use super::context::{Answer, Context};
use super::error::Problem;
use super::{check, show};

/// What all four calls say.
struct Words {
    queue: String,
    kind: Option<String>,
    reason: Option<String>,
    until: Option<Time>,
}

macro_rules! words {
    ($request:ident) => {
        Words { queue: $request.queue, kind: $request.kind, reason: $request.reason, until: $request.until }
    };
}

pub(super) async fn pause(
    context: Context,
    request: PauseQueueRequest,
) -> Result<Answer<RuleReply>, Problem> {
    set(context, words!(request), Stop::Pause).await
}

pub(super) async fn block(
    context: Context,
    request: BlockQueueRequest,
) -> Result<Answer<RuleReply>, Problem> {
    set(context, words!(request), Stop::Block).await
}

pub(super) async fn resume(
    context: Context,
    request: ResumeQueueRequest,
) -> Result<Answer<LiftRuleReply>, Problem> {
    lift(context, words!(request), Stop::Pause).await
}

pub(super) async fn unblock(
    context: Context,
    request: UnblockQueueRequest,
) -> Result<Answer<LiftRuleReply>, Problem> {
    lift(context, words!(request), Stop::Block).await
}

async fn set(context: Context, words: Words, stop: Stop) -> Result<Answer<RuleReply>, Problem> {
    let set = SetRule {
        queue: check::queue_name(&words.queue)?,
        kind: kind(words.kind)?,
        stop,
        reason: reason(words.reason)?,
        until: words.until.map(check::moment),
    };
    let setting = context.engine().set_rule(set);
    let done = context.within(check::COMMIT_TIMEOUT, setting).await?;
    Ok(Answer::changed(RuleReply { rule: shown(&done.value) }, done.commits))
}

async fn lift(context: Context, words: Words, stop: Stop) -> Result<Answer<LiftRuleReply>, Problem> {
    reason(words.reason)?;
    let lift = LiftRule { queue: check::queue_name(&words.queue)?, kind: kind(words.kind)?, stop };
    let done = context.within(check::COMMIT_TIMEOUT, context.engine().lift_rule(lift)).await?;
    Ok(Answer::changed(LiftRuleReply {}, done.commits))
}

fn kind(kind: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    kind.as_deref().map_or(Ok(()), limits::check_kind)?;
    Ok(kind.map(Into::into))
}

fn reason(reason: Option<String>) -> Result<Option<Arc<str>>, Problem> {
    reason.as_deref().map_or(Ok(()), limits::check_rule_reason)?;
    Ok(reason.map(Into::into))
}

pub(super) async fn list(
    context: Context,
    request: ListRulesRequest,
) -> Result<Answer<ListRulesReply>, Problem> {
    let queue = request.queue.as_deref().map(check::queue_name).transpose()?;
    let listing = context.engine().rules(queue.as_ref());
    let rules = context.within_or(check::COMMIT_TIMEOUT, Outcome::NotApplied, listing).await?;
    Ok(Answer::read(ListRulesReply { rules: rules.iter().map(shown).collect() }))
}

fn shown(rule: &Rule) -> WireRule {
    WireRule {
        rule: rule.key.stop.name().to_owned(),
        queue: rule.key.queue.as_ref().map(|queue| queue.name.to_string()).unwrap_or_default(),
        kind: rule.key.kind.as_deref().map(str::to_owned),
        reason: rule.reason.as_deref().map(str::to_owned),
        until: rule.until.map(show::time),
        created_at: show::time(rule.created_at),
    }
}
